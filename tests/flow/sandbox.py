"""A scripted sandbox for jobs: a small repository, and a copy's tests judged by really executing its one module.

What a copy does follows from its bytes, so a right edit is green and a wrong one red, whoever made it. Only the container is
missing: the module is executed in this process, which is why it holds no loops.
"""

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autopatch.chassis.chassis import Blobs, Chassis
from autopatch.contract.code import Covered, Frame, Report, Reports, TestCase, Trials
from autopatch.contract.errors import Unavailable
from autopatch.contract.lifecycle import State
from autopatch.contract.requests import RanTests, RunTests
from autopatch.repair.diffs import apply_diff
from autopatch.repair.tree import Files, read_archive
from tests.flow.hands import Gate

RUNTIME = "scripted"
TESTS = b'''from till import change, fee, total


def test_total():
    assert total(2, 3) == 5


def test_fee():
    assert fee(200) == 2


def test_change():
    assert change(10, 4) == 6
'''
SOURCE = b'''"""A till."""


def total(price, tip):
    return price - tip


def fee(amount):
    return amount // 100


def change(given, price):
    return given - price
'''
FIXED = SOURCE.replace(b"price - tip", b"price + tip")
HARD = SOURCE.replace(b"    return price - tip", b"    return 0")
"""No single edit heals it: nothing of what is needed is there."""


@dataclass(frozen=True)
class Scripted:
    """One test: `call` over the names of the module. `mood` says for each run of the unchanged copy whether it fails anyway."""

    id: str
    call: Callable[[dict[str, Any]], object]
    expected: object
    line: int
    mood: tuple[bool, ...] = ()


SUITE = (
    Scripted("test_till.py::test_total", lambda names: names["total"](2, 3), 5, 5),
    Scripted("test_till.py::test_fee", lambda names: names["fee"](200), 2, 9),
    Scripted("test_till.py::test_change", lambda names: names["change"](10, 4), 6, 13),
)


def repository(source: bytes = SOURCE) -> dict[str, bytes]:
    """The files."""
    return {"test_till.py": TESTS, "till.py": source}


@dataclass
class ScriptedSandbox:
    """Answers `RunTests`. While an incident is in a state of `spoilt`, every test of a copy with a diff fails."""

    suite: Sequence[Scripted] = SUITE
    problem: str = ""
    away: bool = False
    spoilt: set[State] = field(default_factory=set)
    gates: dict[State, Gate] = field(default_factory=dict)
    """Where a request waits, by the state of its incident."""
    asked: list[tuple[State, RunTests]] = field(default_factory=list)

    def on(self, chassis: Chassis) -> "BoundSandbox":
        """For a room that is built on this chassis."""
        return BoundSandbox(self, chassis)

    def states(self) -> list[State]:
        """In which states something was run, each once, in their order."""
        return list(dict.fromkeys(state for state, _ in self.asked))


@dataclass
class BoundSandbox:
    """In one executor."""

    owner: ScriptedSandbox
    chassis: Chassis

    async def run_tests(self, request: RunTests) -> RanTests:
        """Raises Unavailable while the engine is away."""
        blobs, state = self.chassis.blobs, (await self.chassis.log.load(request.incident_id)).state
        self.owner.asked.append((state, request))
        if gate := self.owner.gates.get(state):
            await gate.enter()
        if self.owner.away:
            raise Unavailable("docker", "the engine does not answer")
        before, reports, green = read_archive(await blobs.get(request.job.snapshot)), list[Report](), 0
        for trial, number, tree in await self._copies(request, before, blobs):
            reports.append(self._report(request, trial, number, {} if trial and state in self.owner.spoilt else tree))
            green += bool(trial) and all(case.outcome == "passed" for case in reports[-1].cases)
            if request.enough and green >= request.enough:
                break
        document = Reports(runtime=RUNTIME, image="none", reports=tuple(reports))
        ref = await blobs.put(document.model_dump_json().encode())
        return RanTests(reports=ref, runtime=RUNTIME, tried=sum(bool(r.trial) for r in reports))

    async def _copies(self, request: RunTests, before: Files, blobs: Blobs) -> list[tuple[str, int, Mapping[str, bytes]]]:
        copies: list[tuple[str, int, Mapping[str, bytes]]] = [("", number, before) for number in range(request.unchanged)]
        if request.trials:
            for trial in Trials.model_validate_json(await blobs.get(request.trials)).trials:
                changes = {c.path: None if c.content is None else base64.b64decode(c.content) for c in trial.changes}
                copies.append((trial.id, 0, before.changed(changes)))
        if request.diff:
            copies.append(("diff", 0, before.changed(apply_diff(await blobs.get(request.diff), before))))
        return copies

    def _report(self, request: RunTests, trial: str, number: int, tree: Mapping[str, bytes]) -> Report:
        if self.owner.problem:
            return Report(trial=trial, run=number, ended="finished", exit_code=4, problem=self.owner.problem)
        wanted = [test for test in self.owner.suite if not request.only or test.id in request.only]
        cases = tuple(self._cases(wanted, trial, number, tree))
        seen = wanted if request.coverage and not trial else ()
        covered = tuple(Covered(test=test.id, lines={"till.py": (test.line,)}) for test in seen)
        red = any(case.outcome != "passed" for case in cases)
        return Report(
            trial=trial, run=number, ended="finished", exit_code=int(red), cases=cases, covered=covered, seconds=0.01 * len(cases)
        )

    def _cases(self, wanted: Sequence[Scripted], trial: str, number: int, tree: Mapping[str, bytes]) -> Iterator[TestCase]:
        names: dict[str, Any] = {}
        broken = _attempt(lambda: exec(compile(tree["till.py"], "till.py", "exec"), names))  # noqa: S102
        for test in wanted:
            got = broken or _attempt(lambda t=test: t.call(names))  # type: ignore[misc]
            moody = not trial and number < len(test.mood) and test.mood[number]
            if repr(test.expected) == got and not moody:
                yield TestCase(id=test.id, outcome="passed", seconds=0.01)
                continue
            frame = Frame(path="test_till.py", line=5, function=test.id.rpartition(":")[2])
            yield TestCase(
                id=test.id, outcome="failed", message=f"assert {got} == {test.expected!r}", expected=repr(test.expected),
                actual=got, frames=(frame,), seconds=0.01,
            )


def _attempt(call: Callable[[], object]) -> str:
    """What came of it, as text; '' for nothing."""
    try:
        result = call()
    except (ArithmeticError, LookupError, NameError, TypeError, ValueError, AttributeError, RecursionError, SyntaxError) as error:
        return f"{type(error).__name__}: {error}"
    return "" if result is None else repr(result)
