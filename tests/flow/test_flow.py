"""From a webhook to a lesson through all seven rooms."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from autopatch.contract import events as ev
from autopatch.contract.lifecycle import State
from tests.flow.harness import Flow, flow, names
from tests.flow.props import sized

HAPPY = ["opened", "reproduced", "diagnosed", "planned", "rehearsed", "applying", "applied", "recovered"]


async def test_an_alert_is_healed_by_itself_and_a_lesson_is_kept(tmp_path: Path) -> None:
    async with flow(tmp_path) as it:
        service = it.world.services["payments"]
        assert (await it.alert("payments")).status_code == 200
        incident = await it.wait(State.RESOLVED)
        assert names(incident) == HAPPY
        assert service.config.read_bytes() == sized(service.original, 20)
        plan = incident.last(ev.Planned)
        assert plan and it.hands.lines() == [f"apply payments {plan.plan_hash[:8]} 0"]
        lesson = (await it.until(lambda i: i.last(ev.LessonRecorded), "learnt from")).last(ev.LessonRecorded)
        assert lesson and lesson.outcome == "recovered" and lesson.trust > 0.4


async def test_the_same_fault_again_uses_the_lesson_and_asks_no_model(tmp_path: Path) -> None:
    async with flow(tmp_path, given={"monitor": {"cool_down_s": 0}}) as it:
        await it.alert("payments")
        await it.wait(State.RESOLVED)
        first = await it.until(lambda i: i.last(ev.LessonRecorded), "learnt from")
        it.hands.journal.unlink()
        service = it.world.services["payments"]
        service.drift(service.original)
        await service.shows(red=True)
        await it.alert("payments", status="resolved", starts=first.opened.alert.starts_at)  # type: ignore[union-attr]
        await it.alert("payments", starts=datetime.now(UTC) + timedelta(seconds=1))
        incident = await it.wait(State.RESOLVED, incident_id=await _other(it, first.id))
        planned, diagnosed = incident.last(ev.Planned), incident.last(ev.Diagnosed)
        assert names(incident) == HAPPY and planned and diagnosed
        assert planned.plan.basis.kind == "lesson"
        assert planned.model.calls == 0 and "lesson" in planned.model.note and diagnosed.model.calls == 0


async def _other(it: Flow, known: str) -> str:
    """The incident that is not this one."""
    others = [i for i in await it.log.ids() if i != known]
    assert len(others) == 1, others
    return others[0]


async def test_a_check_that_is_green_already_is_closed_and_nothing_is_changed(tmp_path: Path) -> None:
    async with flow(tmp_path) as it:
        it.world.services["payments"].forced = 0.05
        await it.world.services["payments"].shows(red=False, for_s=0.1)
        await it.alert("payments")
        incident = await it.wait(State.CLOSED)
        assert names(incident) == ["opened", "not_reproduced"]
        await it.untouched()


@pytest.mark.parametrize("policy, ending", [("keep", State.ESCALATED), ("rollback", State.ESCALATED)])
async def test_a_fix_that_cannot_be_proven_is_watched_twice_longer_and_then_told_to_a_person(
    tmp_path: Path, policy: str, ending: State
) -> None:
    world = {"inconclusive": policy}
    async with flow(tmp_path, world=world, given={"planner": {"max_attempts": 1}}) as it:
        service = it.world.services["payments"]
        await it.alert("payments")
        await it.wait(State.APPLIED)
        service.traffic = 1.0
        incident = await it.wait(ending)
        assert names(incident).count("inconclusive") == 2
        escalated = incident.last(ev.Escalated)
        assert escalated
        if policy == "keep":
            assert "applied, unproven" in escalated.reason and "traffic" in escalated.reason
            assert service.config.read_bytes() == sized(service.original, 20)
        else:
            assert names(incident)[-4:] == ["not_recovered", "rolling_back", "rolled_back", "escalated"]
            assert service.config.read_bytes() == service.original
