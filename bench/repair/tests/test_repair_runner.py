"""A run is written down case by case, goes on where it was stopped, and ends in a report that says what was seen."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from autopatch.contract.errors import OperatorError
from autopatch.repair.tree import Tree
from bench.repair import micro, report
from bench.repair.box import ProcessBox
from bench.repair.case import Case
from bench.repair.results import Log, Result, Setup, read
from bench.repair.runner import chosen, one, run_all
from bench.repair.tests.test_repair_judge import CASE
from bench.repair.tools import Attempted

SETUP = Setup(suite="micro", tool="given", mode="off", how="as the test says", seed=7, limit_s=60, cases=2, judge="a process")
BOX = ProcessBox()
RIGHT: Tree = {**CASE.repository, "calc.py": b"def add(a, b):\n    return a + b\n"}
OVERFIT: Tree = {**CASE.repository, "calc.py": b"def add(a, b):\n    return 4\n"}
GREEN = replace(CASE, id="green", expected="not_reproduced")


@dataclass
class Given:
    """A tool that leaves what it is told to."""

    left: dict[str, Attempted]
    asked: list[str] = field(default_factory=list)
    name: str = "given"
    how: str = "as the test says"

    def repair(self, case: Case, folder: Path, limit_s: float) -> Attempted:
        self.asked.append(case.id)
        return self.left[case.id]


def unseen(result: Result | None, finished: int, total: int) -> None:
    return


def test_a_run_that_was_stopped_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    first = Given({"one": Attempted(RIGHT)})
    with pytest.raises(KeyError):
        run_all([CASE, GREEN], first, BOX, Log(file, SETUP), 60, unseen)
    with file.open("a") as torn:
        torn.write('{"case": "gre')
    second = Given({"green": Attempted(GREEN.repository, "not_reproduced")})
    seen: list[tuple[int, int]] = []
    run_all([CASE, GREEN], second, BOX, Log(file, SETUP), 60, lambda _, finished, total: seen.append((finished, total)))
    assert (first.asked, second.asked, seen) == (["one", "green"], ["green"], [(1, 2), (2, 2)])
    assert [result.case for result in read(file)[1]] == ["one", "green"]


def test_a_file_of_another_setup_is_not_gone_on_with(tmp_path: Path) -> None:
    Log(tmp_path / "run.jsonl", SETUP)
    with pytest.raises(OperatorError, match="another limit_s"):
        Log(tmp_path / "run.jsonl", SETUP.model_copy(update={"limit_s": 5}))


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    Log(file, SETUP)
    file.write_text(file.read_text() + "{}\n")
    with pytest.raises(OperatorError, match="run.jsonl:2: no result"):
        Log(file, SETUP)


@pytest.mark.parametrize(("case", "attempted", "right", "plausible", "solved"), [
    (CASE, Attempted(RIGHT, "fixed"), True, True, True),
    (CASE, Attempted(OVERFIT, "fixed"), False, True, False),
    (CASE, Attempted(CASE.repository, "no_fix_found"), False, False, False),
    (GREEN, Attempted(GREEN.repository, "not_reproduced"), True, False, False),
    (GREEN, Attempted(GREEN.repository), True, False, False),
    (GREEN, Attempted(GREEN.repository, "flaky"), False, False, False),
    (GREEN, Attempted(RIGHT, "not_reproduced"), False, False, False),
])
def test_what_is_right_depends_on_what_was_due(
    case: Case, attempted: Attempted, right: bool, plausible: bool, solved: bool
) -> None:
    found = one(case, Given({case.id: attempted}), BOX, 60)
    assert (found.right, found.plausible, found.solved) == (right, plausible, solved)


def test_where_nobody_says_what_is_due_the_first_run_tells() -> None:
    passing = replace(CASE, expected=None, repository=RIGHT)
    assert one(passing, Given({"one": Attempted(RIGHT)}), BOX, 60).expected == "not_reproduced"
    failing = replace(CASE, expected=None)
    assert one(failing, Given({"one": Attempted(RIGHT)}), BOX, 60).expected == "fixed"


def test_a_draw_depends_on_its_seed_only() -> None:
    cases = micro.load()
    drawn = chosen(cases, 5, 7)
    assert drawn == chosen(list(reversed(cases)), 5, 7)[::-1]
    assert {case.id for case in drawn} < {case.id for case in chosen(cases, 6, 7)}
    assert len(drawn) == 5 and drawn != chosen(cases, 5, 8)
    assert chosen(cases, 0, 7) == cases == chosen(cases, 99, 7)


def results(*solved: bool, plausible: bool = True) -> list[Result]:
    return [
        Result(case=f"c{n}", expected="fixed", right=it, changed=True, plausible=it or plausible, solved=it, seconds=n,
               calls=2, output_tokens=50, diff_lines=2) for n, it in enumerate(solved)
    ]


def test_a_report_says_what_was_seen(tmp_path: Path) -> None:
    second = results(False, False, True, False, plausible=False)
    for name, these in (("first", results(True, True, True, False)), ("second", second)):
        log = Log(tmp_path / f"{name}.jsonl", SETUP.model_copy(update={"tool": name, "machine": {"cores": "2"}}))
        for result in these:
            log.add(result)
    text = report.write(tmp_path).read_text()
    assert "| first off, seed 7 | 3/4 = 75.0% (30% to 95%) | 4/4 = 100.0% (51% to 100%) | 3/4 = 75.0% (30% to 95%) | 1 |" in text
    assert "| micro | first off, seed 7 | second off, seed 7 | 4 | 2 | 0 | +50.0% | 0.5 |" in text
    assert "cores 2" in text
    data = json.loads((tmp_path / "report.json").read_text())
    assert data["runs"][0]["seconds"]["median"] == 1.5 and data["runs"][0]["output_tokens"]["sum"] == 200
    assert len(data["runs"][1]["results"]) == 4


def test_a_verdict_that_the_tests_do_not_bear_out_is_counted() -> None:
    claimed = [result.model_copy(update={"verdict": "fixed"}) for result in results(True, False, plausible=False)]
    assert report.summary(SETUP, claimed)["claimed_in_vain"] == 1
