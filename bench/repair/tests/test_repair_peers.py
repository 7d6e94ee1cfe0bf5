"""The other tools, really run, each on one case, with a model server that says what it is told to."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from autopatch.contract.errors import Unavailable
from bench.repair import micro
from bench.repair.box import ProcessBox
from bench.repair.boxes import Place, place
from bench.repair.case import Case
from bench.repair.judge import judge
from bench.repair.peers import PACKAGES, program
from bench.repair.proxy import Proxy
from bench.repair.tests.scripted import scripted
from bench.repair.tools.aider import Aider
from bench.repair.tools.mini import Mini

LIMIT_S = 110.0


@pytest.fixture
def case() -> Case:
    return next(case for case in micro.load() if case.id == "shifts")


def needs(tool: str) -> None:
    try:
        program(tool)
    except Unavailable as error:
        pytest.skip(str(error))


@pytest.mark.slow
def test_aider_is_told_of_a_failing_test_and_tries_again(case: Case, tmp_path: Path) -> None:
    needs("aider")
    source = case.repository["shifts.py"].decode()
    edits = [source.replace("span.seconds", by) for by in ("span.days", "span.total_seconds()")]
    wrong, right = (f"shifts.py\n```python\n{edit}```\n" for edit in edits)
    with scripted(wrong, right) as server:
        found = Aider(lambda: Proxy(server.endpoint)).repair(case, tmp_path, LIMIT_S)
    judged = judge(case, found.tree, ProcessBox(), 60)
    assert judged.solved and judged.diff_lines == 2 and not judged.touched
    assert (found.calls, found.output_tokens, found.late) == (2, 20, False)
    assert "test_a_short_shift_has_no_break" in server.asked[1]["messages"][-1]["content"]


@pytest.fixture
def engine_place() -> Iterator[Place]:
    with place("container") as at:
        yield at


@pytest.mark.slow
@pytest.mark.docker
def test_mini_swe_agent_works_in_a_container_and_leaves_none(case: Case, tmp_path: Path, engine_place: Place) -> None:
    needs("mini")

    def act(command: str) -> str:
        return f"THOUGHT: go on\n\n```mswea_bash_command\n{command}\n```\n"

    edit = "sed -i 's/span.seconds/span.total_seconds()/' shifts.py && python3 -m pytest -q && wc -l < /proc/net/dev"
    with scripted(act(edit), act("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")) as server:
        tool = Mini(lambda: Proxy(server.endpoint), engine_place.host, engine_place.images or {})
        found = tool.repair(case, tmp_path, LIMIT_S)
    assert judge(case, found.tree, engine_place.box, 60).solved
    assert (found.reason, found.calls, found.attempts, found.leaked) == ("Submitted", 2, 2, 0)
    assert "8 passed" in server.asked[1]["messages"][-1]["content"]


def test_a_tool_that_is_not_installed_names_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("bench.repair.peers.FOLDER", tmp_path)
    with pytest.raises(Unavailable, match="python -m bench.repair.peers install aider"):
        program("aider")


def test_versions_are_exact() -> None:
    assert all("==" in package for package in PACKAGES.values())
