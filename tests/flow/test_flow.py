"""From a webhook to a lesson through all seven rooms."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from autopatch.contract import events as ev
from autopatch.contract.lifecycle import State, chain_faults
from tests.flow.harness import flow, names

HAPPY = ["opened", "reproduced", "diagnosed", "planned", "rehearsed", "applying", "applied", "recovered"]


async def test_an_alert_is_healed_by_itself_and_a_lesson_is_kept(tmp_path: Path) -> None:
    async with flow(tmp_path) as it:
        before = it.world.services["payments"].config.read_bytes()
        answer = await it.alert("payments")
        assert answer.status_code == 200
        incident = await it.wait(State.RESOLVED)
        assert names(incident) == HAPPY
        assert chain_faults(incident) == []
        assert it.world.services["payments"].config.read_bytes() == before.replace(b"10,", b"20,")
        assert it.hands.lines() == [f"apply payments {incident.last(ev.Planned).plan_hash[:8]} 0"]  # type: ignore[union-attr]
        for room in it.rooms.values():
            assert room.desk.bus.violations == 0, room.name


async def test_the_same_fault_again_uses_the_lesson_and_asks_no_model(tmp_path: Path) -> None:
    async with flow(tmp_path) as it:
        await it.alert("payments")
        first = await it.wait(State.RESOLVED)
        lesson = None
        while lesson is None:
            lesson = (await it.log.load(first.id)).last(ev.LessonRecorded)
        service = it.world.services["payments"]
        service.config.write_bytes(service.config.read_bytes().replace(b"20,", b"10,"))
        await it.alert("payments", status="resolved", starts=first.opened.alert.starts_at)  # type: ignore[union-attr]
        await it.alert("payments", starts=datetime.now(UTC) + timedelta(seconds=1))
        second = next(i for i in await it.log.ids() if i != first.id)
        incident = await it.wait(State.RESOLVED, incident_id=second)
        planned = incident.last(ev.Planned)
        assert planned and planned.plan.basis.kind == "lesson"
        assert planned.model.calls == 0 and "lesson" in planned.model.note
