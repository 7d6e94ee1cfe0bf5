"""A wrong fix is refused by its rehearsal; without one it is undone after validation. The next attempt is told why."""

import asyncio
from pathlib import Path
from typing import Any

from autopatch.contract import events as ev
from autopatch.contract.lifecycle import Incident, State
from tests.flow.hands import Gate
from tests.flow.harness import flow, names
from tests.flow.props import ScriptedPlans, ScriptedRehearsal, sized

TRIED = (9, 8, 7)


def told(incident: Incident) -> list[str]:
    """What was said to a person in the end."""
    escalated = incident.last(ev.Escalated)
    assert escalated and escalated.room == "planner"
    return [text for text in (f"database.pool_size to {size}" for size in TRIED) if text not in escalated.reason]


async def test_a_wrong_fix_is_refused_by_its_rehearsal_and_after_three_a_person_is_asked(tmp_path: Path) -> None:
    plans = ScriptedPlans(TRIED)
    async with flow(tmp_path, adapters={"planner": {"source": plans}, "executor": {"rehearse": ScriptedRehearsal()}}) as it:
        await it.alert("payments")
        incident = await it.wait(State.ESCALATED)
        assert names(incident) == ["opened", "reproduced", "diagnosed", *["planned", "rehearsal_failed"] * 3, "escalated"]
        assert told(incident) == []
        await it.untouched()
    assert [len(question.failures) for question in plans.heard] == [0, 1, 2]
    assert all("still red" in failure.why for question in plans.heard for failure in question.failures)


async def test_a_right_fix_after_a_wrong_one_heals(tmp_path: Path) -> None:
    plans = ScriptedPlans((9, 20))
    async with flow(tmp_path, adapters={"planner": {"source": plans}, "executor": {"rehearse": ScriptedRehearsal()}}) as it:
        await it.alert("payments")
        incident = await it.wait(State.RESOLVED)
        assert names(incident)[3:7] == ["planned", "rehearsal_failed", "planned", "rehearsed"]
        assert it.world.services["payments"].config.read_bytes() == sized(it.world.services["payments"].original, 20)


async def test_without_a_rehearsal_a_wrong_fix_is_undone_to_the_byte_and_the_next_attempt_knows_why(tmp_path: Path) -> None:
    plans = ScriptedPlans(TRIED)
    adapters: dict[str, dict[str, Any]] = {
        "planner": {"source": plans}, "executor": {"rehearse": ScriptedRehearsal(always=True)}
    }
    async with flow(tmp_path, adapters=adapters) as it:
        service = it.world.services["payments"]
        await it.alert("payments")
        for attempt, size in enumerate(TRIED, 1):
            await it.until(lambda i, n=attempt: names(i).count("applied") == n, "applied")  # type: ignore[misc]
            incident = await it.until(lambda i, n=attempt: names(i).count("rolled_back") == n, "rolled back")  # type: ignore[misc]
            assert len(it.hands.lines()) in (2 * attempt, 2 * attempt + 1), size
        incident = await it.wait(State.ESCALATED)
        one = ["planned", "rehearsed", "applying", "applied", "not_recovered", "rolling_back", "rolled_back"]
        assert names(incident) == ["opened", "reproduced", "diagnosed", *one * 3, "escalated"]
        assert service.config.read_bytes() == service.original
        assert [line.split()[0] for line in it.hands.lines()] == ["apply", "undo"] * 3
        assert told(incident) == []
        judged = [s.envelope.data for s in incident.log if isinstance(s.envelope.data, ev.NotRecovered)]
        assert all(one.comparisons and "still red" in one.reason for one in judged)
    assert [len(question.failures) for question in plans.heard] == [0, 1, 2]
    assert all("not recovered" in failure.why for question in plans.heard for failure in question.failures)


async def test_the_same_wrong_fix_is_not_tried_again(tmp_path: Path) -> None:
    plans = ScriptedPlans((9, 9))
    async with flow(tmp_path, adapters={"planner": {"source": plans}, "executor": {"rehearse": ScriptedRehearsal()}}) as it:
        await it.alert("payments")
        incident = await it.wait(State.ESCALATED)
        assert names(incident).count("planned") == 1
        await it.untouched()


async def test_an_undo_that_would_overwrite_somebodys_later_change_is_refused_and_a_person_is_told(tmp_path: Path) -> None:
    async with flow(tmp_path) as it:
        service = it.world.services["payments"]
        service.forced = 2.0
        await it.alert("payments")
        await it.wait(State.APPLIED)
        theirs = service.config.read_bytes().replace(b"5000", b"7000")
        service.config.write_bytes(theirs)
        incident = await it.wait(State.ESCALATED)
        assert names(incident)[-3:] == ["not_recovered", "rolling_back", "rollback_failed"]
        assert service.config.read_bytes() == theirs


async def test_a_target_that_changed_between_the_claim_and_the_effect_is_left_alone_and_planned_for_anew(tmp_path: Path) -> None:
    async with flow(tmp_path) as it:
        service, gate = it.world.services["payments"], Gate()
        it.hands.gates["has_effect"] = gate
        await it.alert("payments")
        await asyncio.wait_for(gate.reached.wait(), 30)
        service.drift(service.original.replace(b"5000", b"7000"))
        gate.open()
        incident = await it.wait(State.RESOLVED)
        assert names(incident)[5:] == ["applying", "stale", "planned", "rehearsed", "applying", "applied", "recovered"]
        assert incident.attempts == 1
        assert service.config.read_bytes() == sized(service.original, 20)


async def test_what_cannot_be_rehearsed_needs_a_person_and_what_cannot_be_undone_says_so(tmp_path: Path) -> None:
    adapters: dict[str, dict[str, Any]] = {"planner": {"source": ScriptedPlans((0,))}}
    async with flow(tmp_path, adapters=adapters, given={"planner": {"max_attempts": 1}}) as it:
        await it.alert("payments")
        incident = await it.wait(State.AWAITING)
        asked, rehearsed = incident.last(ev.ApprovalRequested), incident.last(ev.Rehearsed)
        assert asked and "not rehearsed" in asked.why
        assert rehearsed and not rehearsed.rehearsal.passed and rehearsed.rehearsal.skipped
        await it.say(incident, "approve")
        incident = await it.wait(State.ESCALATED)
        assert names(incident)[-4:] == ["not_recovered", "rolling_back", "rolled_back", "escalated"]
        undone = incident.last(ev.RolledBack)
        assert undone and "nothing to undo" in undone.detail
        claim = incident.last(ev.Applying)
        assert claim and not claim.rehearsed
