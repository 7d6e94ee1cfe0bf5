"""Every room alike, everything small, and errors caught by name."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from autopatch.contract.requests import REQUESTS

ROOT = Path(__file__).parents[2]
ROOMS = ("monitor", "diagnosis", "planner", "executor", "validator", "knowledge", "gateway")
NAMES = ("README.md", "__main__.py", "settings.py", "service.py", "agent.py", "ports.py", "adapters")
BROAD_ALLOWED = {"autopatch/chassis/runner.py", "autopatch/chassis/asking.py"}
"""The runner and the bus boundary."""
JOBS_OF_THEIR_OWN = (
    "sandbox", "runtimes", "editors", "stores", "sources", "delivery", "http", "branches", "repairs",
    "defects", "workshop", "images", "listeners", "inside", "gate", "synthesis", "code", "rules", "logs",
)
"""Adapter packages that have another 600 lines."""


def sources(*folders: str) -> Iterator[Path]:
    """Python files that are not tests, and not the broken repositories that repair is measured on."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not {"tests", "micro"} & set(path.relative_to(ROOT).parts):
                yield path


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


ALL = [str(p.relative_to(ROOT)) for p in sources("autopatch", "services", "infra", "bench")]


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_has_the_seven_names(room: str) -> None:
    assert [n for n in NAMES if not (ROOT / "services" / room / n).exists()] == []


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_reads_in_one_sitting(room: str) -> None:
    own, packages = 0, dict.fromkeys(JOBS_OF_THEIR_OWN, 0)
    for path in sources(f"services/{room}"):
        package = next((p for p in JOBS_OF_THEIR_OWN if p in path.parts), None)
        if package:
            packages[package] += lines(path)
        else:
            own += lines(path)
    assert own <= 900, f"{room} has {own} lines"
    assert all(n <= 600 for n in packages.values()), packages


@pytest.mark.parametrize("room", ROOMS)
def test_every_duration_that_may_be_set_is_one_that_a_clock_can_count_to(room: str) -> None:
    fields = import_module(f"services.{room}.settings").Settings.model_fields
    durations = {name: field.metadata for name, field in fields.items() if name.endswith("_s")}
    assert [name for name, bounds in durations.items() if not any(getattr(bound, "le", None) for bound in bounds)] == []


@pytest.mark.parametrize("name", ALL)
def test_no_module_is_over_300_lines_and_no_function_over_50(name: str) -> None:
    path = ROOT / name
    assert lines(path) <= 300
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno + 1 <= 50, f"{name}: {node.name}"


@pytest.mark.parametrize("name", ALL)
def test_errors_are_caught_by_name(name: str) -> None:
    tree = ast.parse((ROOT / name).read_text())
    broad = [
        node.lineno for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)
        and (node.type is None or (isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException")))
        and not (len(node.body) and isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None)
    ]
    assert not broad or name in BROAD_ALLOWED, f"{name}: lines {broad}"


@pytest.mark.parametrize("name", [n for n in ALL if n.startswith(("autopatch/", "services/"))])
def test_public_things_have_docstrings(name: str) -> None:
    tree = ast.parse((ROOT / name).read_text())
    assert ast.get_docstring(tree) or not tree.body, f"{name} has no docstring"
    bare = [
        node.name for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]
    assert bare == []


@pytest.mark.parametrize("room", ROOMS)
def test_an_agent_decides_without_clock_environment_network_or_vendor(room: str) -> None:
    tree = ast.parse((ROOT / "services" / room / "agent.py").read_text())
    banned = {"os", "time", "random", "asyncio", "socket", "httpx2", "nats", "docker", "qdrant_client", "qdrant_edge", "uuid"}
    found = {n.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for n in [a.name for a in node.names]}
    found |= {(node.module or "").split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert found & banned == set()
    assert "datetime.now" not in (ROOT / "services" / room / "agent.py").read_text()


def test_the_environment_is_read_in_settings_only() -> None:
    readers = [n for n in ALL if re.search(r"os\.environ|os\.getenv", (ROOT / n).read_text())]
    allowed = {"autopatch/chassis/settings.py"}
    elsewhere = ("infra/", "autopatch/cli/", "bench/", "services/executor/adapters/inside/")  # the last runs in the sandbox
    assert [n for n in readers if n not in allowed and not n.startswith(elsewhere)] == []


def test_only_the_executor_reaches_docker_and_it_asks_no_model() -> None:
    for name in ALL:
        text = (ROOT / name).read_text()
        if name.startswith("services/") and not name.startswith("services/executor/"):
            assert not re.search(r"^\s*(import docker|from docker)", text, re.M), name
        if name.startswith("services/executor/"):
            assert "chassis.llm" not in text and "chassis import llm" not in text, name


def test_one_file_imports_autogen() -> None:
    found = [n for n in ALL if re.search(r"^\s*(import|from) (autogen|openai)", (ROOT / n).read_text(), re.M)]
    assert found == ["autopatch/chassis/llm/autogen.py"]


def test_no_room_spells_a_subject() -> None:
    subjects = "|".join([r"incidents\.", r"dead_letters\.", r"timers\.", r"live\.", *(re.escape(r.subject) for r in REQUESTS)])
    pattern = re.compile(f"[\"']({subjects})")
    found = [n for n in ALL if n.startswith("services/") and pattern.search((ROOT / n).read_text())]
    assert found == []
