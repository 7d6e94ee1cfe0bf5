"""Jobs without a model: lessons and single edits, each through the same gate; and what is said when nothing heals."""

import asyncio

import pytest

from autopatch.contract import events as ev
from autopatch.contract.actions import PatchCode
from autopatch.contract.errors import Unavailable
from autopatch.contract.plan import Precondition, SuccessCheck
from autopatch.repair.diffs import make_diff
from autopatch.repair.tree import Files
from services.planner.tests.repair_fakes import Repository, Rooms, failed_attempt, lesson, opened, patched
from services.planner.tests.jobs import ADD, EASY, easy, escalated, hard, plan, say

pytestmark = pytest.mark.timeout(120)


async def test_without_a_model_a_single_edit_is_planned_as_one_fenced_patch() -> None:
    rooms = easy()
    events = opened(rooms)
    planned = await plan(rooms, events)
    [step] = planned.plan.steps
    assert isinstance(step.action, PatchCode)
    assert isinstance(events[0], ev.Opened) and events[0].job
    assert step.action.base == events[0].job.tree and step.action.files == ("calc.py",)
    assert step.precondition == Precondition(release=events[0].job.tree) and step.undo is None
    assert planned.plan.success == SuccessCheck(signal="tests", settle_s=0, soak_s=1)
    assert planned.plan.basis.kind == "template" and planned.plan_hash == planned.plan.hash
    assert (planned.model.mode, planned.model.calls) == ("off", 0)
    assert patched(rooms, planned)["calc.py"] == b"def add(a, b):\n    return a + b\n"


async def test_the_same_event_heard_twice_gives_the_same_plan() -> None:
    rooms = easy()
    events = opened(rooms)
    assert (await plan(rooms, events)).plan_hash == (await plan(rooms, events)).plan_hash


async def test_many_passing_tests_are_run_only_on_what_healed_the_failing_ones() -> None:
    tests = {**EASY, **{f"t::test_zero{n}": "add(0, 0) == 0" for n in range(20)}}
    rooms = Rooms(Repository({"calc.py": ADD}, tests))
    await plan(rooms)
    first, *later = rooms.runs
    assert first.only == ("t::test_many", "t::test_two") and first.enough > 0
    assert first.job.test_s < later[0].job.test_s and later[0].only == ()


@pytest.mark.parametrize(("seconds", "test_s"), [(0.2, 1), (4, 8), (50, 10)])
async def test_candidates_of_a_repository_that_begins_slowly_may_begin_slowly_too(seconds: float, test_s: float) -> None:
    rooms = easy()
    await plan(rooms, opened(rooms, seconds=seconds))
    assert rooms.runs[0].enough and rooms.runs[0].job.test_s == pytest.approx(test_s, abs=0.1)


async def test_edits_whose_tests_are_slow_are_shared_out_to_two_sandboxes_and_each_is_tried_once() -> None:
    rooms, both = hard(), asyncio.Barrier(2)

    async def together() -> None:
        if len(rooms.runs) <= 2:
            await asyncio.wait_for(both.wait(), 5)

    rooms.hang = together
    await escalated(rooms, opened(rooms, seconds=1))
    assert len(rooms.tried) == len(set(rooms.tried)) > 10
    assert set(rooms.tried[:16]) == {f"t{number}" for number in range(16)}


async def test_an_edit_that_breaks_what_passed_is_not_planned() -> None:
    tests = {"t::test_two": "add(1, 2) == 3", **{f"t::keeps{n}": f"add({n}, 0) == {n}" for n in range(20)}}
    rooms = Rooms(Repository({"calc.py": ADD}, tests))
    planned = await plan(rooms)
    assert patched(rooms, planned)["calc.py"] == b"def add(a, b):\n    return a + b\n"


async def test_a_proven_lesson_comes_first_and_nothing_else_is_tried() -> None:
    rooms = easy()
    healed = Files({**rooms.repository.tree, "calc.py": b"def add(a, b):\n    return a + b\n"})
    rooms.lessons = (lesson(rooms, make_diff(rooms.repository.tree, healed)),)
    planned = await plan(rooms)
    assert (planned.plan.basis.kind, planned.plan.basis.ref) == ("lesson", "lesson-1") and rooms.tried == ["lesson-1"]
    assert patched(rooms, planned)["calc.py"] == healed["calc.py"]


async def test_a_lesson_that_no_longer_applies_or_heals_gives_way_and_is_told() -> None:
    rooms = easy()
    tree = rooms.repository.tree
    elsewhere = make_diff(Files({"calc.py": b"x = 1\ny = 2\n"}), Files({"calc.py": b"x = 1\ny = 3\n"}))
    useless = make_diff(tree, Files({**tree, "calc.py": b"def add(a, b):\n    return a * b\n"}))
    rooms.lessons = (lesson(rooms, elsewhere, id="l-old", trust=0.9), lesson(rooms, useless, id="l-bad"))
    planned = await plan(rooms)
    assert planned.plan.basis.kind == "template"
    reasons = {a.summary.split(":")[0]: a.why_not for a in planned.plan.rejected}
    assert "no longer applies" in reasons["lesson l-old"] and "failed" in reasons["lesson l-bad"]


async def test_a_repair_goes_on_without_knowledge_and_without_a_lesson_s_diff() -> None:
    rooms = easy()
    rooms.knowledge = False
    assert (await plan(rooms)).plan.basis.kind == "template"
    rooms.knowledge, rooms.lessons = True, (lesson(rooms, b"gone"),)
    rooms.blobs.held = {name: data for name, data in rooms.blobs.held.items() if data != b"gone"}
    assert (await plan(rooms)).plan.basis.kind == "template"


async def test_after_three_attempts_a_person_is_asked_whatever_the_setting() -> None:
    rooms = easy()
    events = opened(rooms)
    planned = await plan(rooms, events)
    event = await escalated(rooms, [*events, *failed_attempt(planned) * 3], max_attempts=9)
    assert event.kind == "no_fix_found" and event.reason.startswith("3 attempts failed") and "still red" in event.reason


async def test_two_faults_in_two_functions_are_healed_one_after_the_other() -> None:
    code = b"def add(a, b):\n    return a - b\n\n\ndef twice(a):\n    return a * 3\n"
    rooms = Rooms(Repository({"calc.py": code}, {"t::test_add": "add(1, 2) == 3", "t::test_twice": "twice(4) == 8"}))
    planned = await plan(rooms)
    healed = patched(rooms, planned)["calc.py"]
    assert b"return a + b" in healed and b"return a * 2" in healed and planned.plan.basis.kind == "template"


async def test_without_a_model_edits_that_contradict_each_other_are_left_to_a_person() -> None:
    rooms = Rooms(Repository({"shape.py": b"def area(w, h):\n    return w + h\n"}, {"t::test_area": "area(3, 1) == 2"}))
    event = await say(rooms)
    assert isinstance(event, ev.Escalated) and event.kind == "no_fix_found"
    assert event.reason.startswith("none of the changes that heal the failing tests is sure to be right")
    assert "disagree on generated inputs, so a person must choose" in event.reason and "(shape.py:2)" in event.reason


async def test_a_sandbox_that_is_away_or_lost_is_waited_for() -> None:
    rooms = easy()
    rooms.faults = [Unavailable("docker", "no engine")]
    with pytest.raises(Unavailable, match="no engine"):
        await say(rooms)
    rooms = easy()
    rooms.deadly = b"def add"
    with pytest.raises(Unavailable, match="lost 3 times in a row"):
        await say(rooms)


async def test_cancelling_ends_the_run_of_tests_under_way_at_once() -> None:
    rooms = easy()
    ended = asyncio.Event()

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    rooms.hang = hang
    task = asyncio.create_task(say(rooms))
    while not rooms.runs:
        await asyncio.sleep(0.01)
    task.cancel()
    async with asyncio.timeout(1):
        with pytest.raises(asyncio.CancelledError):
            await task
    assert ended.is_set() and len(rooms.runs) == 1


