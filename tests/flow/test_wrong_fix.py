"""A wrong fix is refused by its rehearsal; without one it is undone after validation. The next attempt is told why."""

from pathlib import Path
from typing import Any

from autopatch.contract import events as ev
from autopatch.contract.lifecycle import Incident, State
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
    async with flow(tmp_path, adapters=adapters, world={"settle": 0.1, "soak": 0.9}) as it:
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
