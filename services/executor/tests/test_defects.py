"""The rehearsal of a diff, a job's and a target's: red is what fails again unchanged, and a lost sandbox proves nothing."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from autopatch.chassis.chassis import Chassis
from autopatch.chassis.room import Heard
from autopatch.contract import events as ev
from autopatch.contract.actions import PatchCode
from autopatch.contract.code import CodeJob, Report, Reports, TestCase, TestTable
from autopatch.contract.errors import Unavailable
from autopatch.contract.evidence import Cause, Rehearsal, TargetState
from autopatch.contract.lifecycle import Incident
from autopatch.contract.requests import RanTests, RunTests
from autopatch.repair.diffs import make_diff
from autopatch.repair.tree import read_archive
from services.executor.adapters.code.proof import Proof
from services.executor.adapters.defects.jobs import Jobs
from services.executor.tests.fakes import FakeChassis
from services.executor.tests.given import MODEL, NOW, a_plan, a_target, add
from services.executor.tests.workshop import archive


def run(trial: str = "", ended: str = "finished", **outcomes: str) -> Report:
    """One run, with what became of each test."""
    cases = tuple(TestCase.model_validate({"id": test, "outcome": outcome}) for test, outcome in outcomes.items())
    return Report.model_validate({"trial": trial, "ended": ended, "cases": cases, "problem": "" if cases else "killed"})


RED, GREEN = run(bad="failed", good="passed"), run("diff", bad="passed", good="passed")
LOST, LOST_CHANGED = run(ended="lost"), run("diff", ended="lost")


class Workshop:
    """Answers in turn, the last answer for ever."""

    def __init__(self, chassis: FakeChassis, answers: Sequence[Sequence[Report]]) -> None:
        self._chassis, self._answers = chassis, list(answers)
        self.asked = 0

    async def run_tests(self, request: RunTests) -> RanTests:
        reports = tuple(self._answers[min(self.asked, len(self._answers) - 1)])
        self.asked += 1
        document = Reports(runtime="scripted", image="i", reports=reports).model_dump_json().encode()
        return RanTests(reports=await self._chassis.blobs.put(document), runtime="scripted")


async def rehearsed(*answers: Sequence[Report]) -> tuple[Any, int]:
    """What is said of a planned patch, and how often the tests were run for it."""
    chassis = FakeChassis()
    put = chassis.blobs.put
    job = CodeJob(repository="r", snapshot=await put(archive({"a.py": "a = 1\n"})), tree="t", command=("pytest",))
    known = await put(Reports(runtime="scripted", image="i", reports=(RED, RED, RED)).model_dump_json().encode())
    diff = await put(b"--- a/a.py\n+++ b/a.py\n")
    plan = a_plan(PatchCode(diff=diff.digest, base="", files=("a.py",), job="j"))
    incident = add(
        Incident("one"), ev.Opened(target="r", title="t", job=job),
        ev.Reproduced(signal="tests", checks=(), tests=TestTable(report=known)),
        ev.Diagnosed(
            causes=(Cause(id="bug", summary="s", confidence=0.9, cites=()),), evidence=(), signature="x", model=MODEL,
            state=TargetState(target="r", at=NOW, running=True),
        ),
        ev.Planned(plan=plan, plan_hash=plan.hash, model=MODEL),
    )
    workshop = Workshop(chassis, answers)
    (said,) = await Jobs(cast(Chassis, chassis), workshop, lambda _: None).planned(Heard(incident, incident.log[-1]))
    return said, workshop.asked


async def test_red_again_and_green_with_the_diff_has_passed() -> None:
    said, asked = await rehearsed((RED, GREEN))
    assert isinstance(said, ev.Rehearsed) and asked == 1
    assert [(one.label, one.outcome) for one in said.rehearsal.runs] == [("unchanged", "red"), ("changed", "green")]


@pytest.mark.parametrize("unchanged", [
    run(bad="passed", good="passed"), run(bad="passed", good="failed"), run(good="failed"), run(ended="out_of_memory"),
])
async def test_what_does_not_fail_again_on_the_unchanged_copy_has_not_been_mended(unchanged: Report) -> None:
    said, _ = await rehearsed((unchanged, GREEN))
    assert isinstance(said, ev.RehearsalFailed)
    assert said.rehearsal.reason == "on the unchanged copy bad did not fail again, so the change proves nothing"


async def test_a_changed_copy_that_is_red_has_not_passed() -> None:
    said, _ = await rehearsed((RED, run("diff", bad="failed", good="passed")))
    assert isinstance(said, ev.RehearsalFailed) and "still failed: bad" in said.rehearsal.reason


@pytest.mark.parametrize("answer", [(LOST, GREEN), (RED, LOST_CHANGED)])
async def test_a_sandbox_that_was_lost_is_tried_once_more_and_then_waited_for(answer: Sequence[Report]) -> None:
    said, asked = await rehearsed(answer, (RED, GREEN))
    assert isinstance(said, ev.Rehearsed) and asked == 2
    with pytest.raises(Unavailable, match="sandbox: it was lost twice: killed"):
        await rehearsed(answer)


@pytest.mark.parametrize(("answer", "which"), [((RED,), "changed"), ((GREEN,), "unchanged"), ((), "unchanged")])
async def test_what_was_not_run_in_time_proves_nothing(answer: Sequence[Report], which: str) -> None:
    said, asked = await rehearsed(answer)
    assert isinstance(said, ev.RehearsalFailed) and asked == 1
    assert said.rehearsal.reason == f"the {which} copy was not run in time"


async def proven(folder: Path, *answers: Sequence[Report]) -> tuple[Rehearsal, int]:
    """What is said of a patch of a running target, and how often the tests were run for it."""
    chassis = FakeChassis()
    put = chassis.blobs.put
    snapshot = await put(archive({"a.py": "a = 1\n"}))
    job = CodeJob(repository="payments", snapshot=snapshot, tree="t", commit="c", command=("pytest",))
    tree = read_archive(await chassis.blobs.get(snapshot))
    diff, ref = await put(make_diff(tree, tree.changed({"a.py": b"a = 2\n"}))), await put(job.model_dump_json().encode())
    plan = a_plan(PatchCode(diff=diff.digest, base="c", files=("a.py",), job=ref.digest))
    workshop = Workshop(chassis, answers)
    return await Proof(chassis.blobs, workshop)("one", a_target(folder, tests=["pytest"]), plan), workshop.asked


@pytest.mark.parametrize(("answers", "passed"), [
    (((RED, RED, GREEN),), True),
    (((RED, LOST, GREEN), (RED, RED, GREEN)), True),
    (((RED, GREEN),), False),
    (((RED, run(bad="passed", good="passed"), GREEN),), False),
])
async def test_a_target_is_patched_by_two_red_runs_and_a_green_one(
    tmp_path: Path, answers: Sequence[Sequence[Report]], passed: bool
) -> None:
    rehearsal, asked = await proven(tmp_path, *answers)
    assert (rehearsal.passed, asked) == (passed, len(answers))


async def test_a_target_is_not_patched_by_one_red_run_beside_one_that_is_lost_again(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="sandbox"):
        await proven(tmp_path, (RED, LOST, GREEN))
