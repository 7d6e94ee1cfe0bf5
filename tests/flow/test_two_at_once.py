"""Two incidents of one target: one acts, the other waits and is measured again."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from autopatch.contract import events as ev
from autopatch.contract.lifecycle import Incident, State
from services.monitor.adapters.sources.edge import told
from tests.flow.harness import Flow, flow, names, notes
from tests.flow.props import ScriptedPlans


async def another(it: Flow, name: str, incident_id: str, **labels: str) -> None:
    """An incident beside the one that there is, as of a second alert; the monitor itself would have joined it to the first."""
    alert = it.silent_alert(name, **labels)
    heard = told(alert["labels"], {}, datetime.now(UTC), None, status="firing", source="alertmanager", now=datetime.now(UTC))
    opened = ev.Opened(target=name, title="also slow", alert=heard.alert)
    await it.rooms["monitor"].desk.log.append(Incident(incident_id), [opened], by="monitor")


async def both(it: Flow) -> tuple[str, str]:
    """Two that wait in REHEARSED to be allowed to act."""
    await it.person("POST", "/v1/pause", {"reason": "until both are there"})
    await it.alert("payments")
    first = (await it.waits_on("pause", State.REHEARSED)).id
    await another(it, "payments", "payments-second", severity="page")
    await it.waits_on("pause", State.REHEARSED, incident_id="payments-second")
    await it.person("DELETE", "/v1/pause")
    return first, "payments-second"


async def test_one_acts_and_the_other_is_measured_again_and_closed(tmp_path: Path) -> None:
    async with flow(tmp_path) as it:
        ids = await both(it)
        ended = [await it.wait(State.RESOLVED, State.CLOSED, incident_id=i) for i in ids]
        acted, waited = sorted(ended, key=lambda i: i.state is not State.RESOLVED)
        assert acted.state is State.RESOLVED and waited.state is State.CLOSED
        assert names(waited)[-1] == "not_reproduced" and "applying" not in names(waited)
        on_target = [e for s in waited.log if isinstance(e := s.envelope.data, ev.Waiting) and e.on == "target"]
        assert on_target and acted.id in on_target[0].reason
        assert len(it.hands.lines()) == 1


async def test_when_the_first_could_not_heal_the_second_gets_its_turn_on_the_restored_target(tmp_path: Path) -> None:
    adapters: dict[str, dict[str, Any]] = {"planner": {"source": ScriptedPlans((19, 20))}}
    given = {"planner": {"max_attempts": 1}}
    async with flow(tmp_path, adapters=adapters, given=given) as it:
        service = it.world.services["payments"]
        ids = await both(it)
        ended = [await it.wait(State.ESCALATED, incident_id=i) for i in ids]
        assert all(names(i)[-4:] == ["not_recovered", "rolling_back", "rolled_back", "escalated"] for i in ended)
        assert [line.split()[0] for line in it.hands.lines()] == ["apply", "undo"] * 2
        assert service.config.read_bytes() == service.original


@pytest.mark.parametrize("state", [State.AWAITING, State.ESCALATED], ids=str)
async def test_who_does_not_act_does_not_keep_the_target(tmp_path: Path, state: State) -> None:
    async with flow(tmp_path, ["payments"], rung="approve") as it:
        await it.alert("payments")
        first = await it.wait(State.AWAITING)
        if state is State.ESCALATED:
            await it.say(first, "reject")
        await another(it, "payments", "payments-second", severity="page")
        second = await it.wait(State.AWAITING, incident_id="payments-second")
        assert (await it.say(second, "approve")).status_code == 200
        await it.wait(State.RESOLVED, incident_id=second.id)
        if state is State.AWAITING:
            assert (await it.say(first, "approve")).status_code == 200
            assert names(await it.wait(State.CLOSED, incident_id=first.id))[-1] == "not_reproduced"
        assert len(it.hands.lines()) == 1


async def test_two_targets_do_not_wait_for_each_other(tmp_path: Path) -> None:
    async with flow(tmp_path, ["payments", "orders"]) as it:
        await it.person("POST", "/v1/targets/payments/hold", {"reason": "the test looks"})
        await it.alert("payments")
        await it.waits_on("hold", State.REHEARSED)
        await it.alert("orders")
        other = next(i for i in await it.log.ids() if i.startswith("orders"))
        await it.wait(State.RESOLVED, incident_id=other)
        assert len(notes(await it.log.load((await it.log.ids())[0]))) == 1
