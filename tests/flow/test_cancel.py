"""A person cancels, whatever the incident is at: it ends cancelled, and the target is as it was."""

import asyncio
from pathlib import Path

import pytest

from autopatch.contract.lifecycle import OPEN_STATES, State
from tests.flow.hands import Gate
from tests.flow.harness import flow, names
from tests.flow.stages import Stage

UNDONE = (State.APPLYING, State.APPLIED, State.UNDO_DUE, State.ROLLING_BACK)


@pytest.mark.parametrize("state", [pytest.param(s, id=s.value) for s in State if s in OPEN_STATES])
async def test_cancelled_in_any_state_it_ends_cancelled_and_the_target_is_as_it_was(tmp_path: Path, state: State) -> None:
    stage = Stage(state)
    async with flow(tmp_path, **stage.given) as it:
        service = it.world.services["payments"]
        incident = await stage.reach(it)
        assert (await it.say(incident, "cancel", reason="enough")).json()["already"] is False
        assert (await it.say(incident, "cancel")).json()["already"] is True
        if state in (State.REPRODUCED, State.DIAGNOSED, State.PLANNED):
            await asyncio.wait_for(stage.gate.given_up.wait(), 5)
        await stage.leave(it)
        incident = await it.wait(State.CANCELLED)
        said = names(incident)
        await asyncio.sleep(0.3)
        assert names(await it.only()) == said
        assert service.config.read_bytes() == service.original
        did = [line.split()[0] for line in it.hands.lines()]
        assert did == (["apply", "undo"] if state in UNDONE else [])
        assert said[-1] == ("rolled_back" if state in UNDONE else "cancelled")


async def test_cancelled_between_the_claim_and_the_effect_nothing_is_done(tmp_path: Path) -> None:
    async with flow(tmp_path) as it:
        gate = it.hands.gates["has_effect"] = Gate()
        await it.alert("payments")
        await asyncio.wait_for(gate.reached.wait(), 30)
        incident = await it.wait(State.APPLYING)
        await it.say(incident, "cancel")
        gate.open()
        incident = await it.wait(State.CANCELLED)
        assert names(incident)[-3:] == ["applying", "cancelled", "stale"]
        await it.untouched()


async def test_what_has_ended_is_not_cancelled(tmp_path: Path) -> None:
    async with flow(tmp_path, rung="suggest") as it:
        await it.alert("payments")
        incident = await it.wait(State.PROPOSED)
        assert (await it.say(incident, "cancel")).status_code == 409


@pytest.mark.parametrize("state", [State.DIAGNOSED, State.REHEARSED, State.AWAITING, State.APPROVED], ids=str)
async def test_an_alert_that_clears_before_anything_is_applied_closes_the_incident(tmp_path: Path, state: State) -> None:
    stage = Stage(state)
    async with flow(tmp_path, **stage.given) as it:
        incident = await stage.reach(it)
        assert incident.opened.alert
        await it.alert("payments", status="resolved", starts=incident.opened.alert.starts_at)
        await it.wait(State.CLOSED)
        await stage.leave(it)
        incident = await it.only()
        assert names(incident)[-1] == "cleared"
        await it.untouched()
        assert names(await it.only())[-1] == "cleared"
