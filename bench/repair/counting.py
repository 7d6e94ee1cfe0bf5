"""How many tests a runner says passed and failed. Pure."""

import re
from dataclasses import dataclass

_PYTEST = re.compile(r"^=*\s*((?:\d+ [a-z]+(?:, )?)+) in [\d.]+s", re.M)
_UNITTEST = re.compile(r"^Ran (\d+) tests? in [\d.]+s\s+(OK|FAILED)(?: \(([^)]*)\))?", re.M)
_NODE = re.compile(r"^(?:#|ℹ) (pass|fail|cancelled) (\d+)$", re.M)


@dataclass(frozen=True)
class Counts:
    """Errors and tests that were cancelled count as failed."""

    passed: int
    failed: int


def counts(output: str) -> Counts | None:
    """The last summary that pytest, unittest or node's runner printed; None when there is none."""
    if found := _PYTEST.findall(output):
        return _pytest(found[-1])
    if ran := list(_UNITTEST.finditer(output)):
        return _unittest(*ran[-1].groups())
    node = dict(_NODE.findall(output))
    if "pass" in node and "fail" in node:
        return Counts(int(node["pass"]), int(node["fail"]) + int(node.get("cancelled", 0)))
    return None


def _pytest(summary: str) -> Counts:
    by_name = {name: int(number) for number, name in re.findall(r"(\d+) ([a-z]+)", summary)}
    failed = sum(by_name.get(name, 0) for name in ("failed", "error", "errors", "xpassed"))
    return Counts(by_name.get("passed", 0), failed)


def _unittest(ran: str, end: str, details: str | None) -> Counts:
    by_name = {name: int(number) for name, number in re.findall(r"([a-z ]+)=(\d+)", details or "")}
    failed = by_name.get("failures", 0) + by_name.get(" errors", by_name.get("errors", 0))
    out = by_name.get("skipped", 0) + by_name.get(" skipped", 0)
    return Counts(int(ran) - failed - out, max(failed, 1) if end == "FAILED" else failed)
