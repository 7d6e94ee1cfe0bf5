"""A hold, the pause and a silence: nothing is applied while they last, the reason is on the log, and it goes on alone."""

import asyncio
from pathlib import Path

import pytest

from autopatch.contract import events as ev
from autopatch.contract.lifecycle import State
from tests.flow.harness import Flow, flow, names, notes

WORDS = {"hold": "ada holds payments", "pause": "ada: the shop is open", "silence": "suppressed"}


async def forbid(it: Flow, what: str) -> None:
    """From now on."""
    match what:
        case "hold":
            assert (await it.person("POST", "/v1/targets/payments/hold", {"reason": "the shop is open"})).status_code == 200
        case "pause":
            assert (await it.person("POST", "/v1/pause", {"reason": "the shop is open"})).status_code == 200
        case _:
            it.world.silenced.add("payments")


async def allow(it: Flow, what: str) -> None:
    """Again."""
    match what:
        case "hold":
            assert (await it.person("DELETE", "/v1/targets/payments/hold")).status_code == 200
        case "pause":
            assert (await it.person("DELETE", "/v1/pause")).status_code == 200
        case _:
            it.world.silenced.clear()


@pytest.mark.parametrize("rung", ["auto", "approve"])
async def test_while_anything_forbids_it_nothing_is_applied_and_then_it_goes_on_alone(tmp_path: Path, rung: str) -> None:
    async with flow(tmp_path, rung=rung) as it:
        for what in WORDS:
            await forbid(it, what)
        await it.alert("payments")
        if rung == "approve":
            assert (await it.say(await it.wait(State.AWAITING), "approve")).status_code == 200
        for count, what in enumerate(("pause", "hold", "silence"), 1):
            incident = await it.waits_on(what, State.APPROVED if rung == "approve" else State.REHEARSED)
            assert WORDS[what] in notes(incident)[-1].reason and notes(incident)[-1].room == "executor"
            await it.untouched()
            assert len(notes(await it.only())) == count, "one note for each reason"
            await allow(it, what)
        await it.wait(State.RESOLVED)


async def test_what_has_been_applied_is_still_undone_while_acting_is_forbidden(tmp_path: Path) -> None:
    async with flow(tmp_path, given={"planner": {"max_attempts": 1}}) as it:
        it.world.services["payments"].forced = 2.0
        await it.alert("payments")
        await it.wait(State.APPLIED)
        for what in WORDS:
            await forbid(it, what)
        await it.wait(State.ESCALATED)
        assert [line.split()[0] for line in it.hands.lines()] == ["apply", "undo"]


async def test_a_silenced_alert_that_only_reconciliation_saw_opens_nothing(tmp_path: Path) -> None:
    async with flow(tmp_path, given={"monitor": {"reconcile_s": 0.2}}) as it:
        it.world.silenced.add("payments")
        it.silent_alert("payments")
        await it.untouched(1)
        assert await it.log.ids() == []
        it.world.silenced.clear()
        await it.wait(State.RESOLVED)


async def test_what_no_rule_of_the_policy_covers_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("rules:\n  - {name: others, actions: [set_config, reload], targets: ['shop-*']}\n")
    async with flow(tmp_path) as it:
        await it.alert("payments")
        refused = (await it.wait(State.ESCALATED)).last(ev.Refused)
        assert refused and "no rule covers set_config on payments" in refused.reason
        await it.untouched()


async def test_a_policy_that_became_stricter_after_the_approval_counts(tmp_path: Path) -> None:
    async with flow(tmp_path, rung="approve") as it:
        await it.alert("payments")
        incident = await it.wait(State.AWAITING)
        (tmp_path / "policy.yaml").write_text("rules:\n  - {name: others, actions: [set_config, reload], targets: ['shop-*']}\n")
        assert (await it.say(incident, "approve")).status_code == 200
        assert names(await it.wait(State.ESCALATED))[-2:] == ["approved", "refused"]
        await it.untouched()


async def test_an_alert_that_stays_after_the_recovery_opens_little_and_applies_nothing(tmp_path: Path) -> None:
    given = {"monitor": {"cool_down_s": 0, "reconcile_s": 0.2, "alertmanager_grace_s": 0}}
    async with flow(tmp_path, given=given) as it:
        await it.alert("payments")
        await it.wait(State.RESOLVED)
        await asyncio.sleep(1.5)
        ids = await it.log.ids()
        assert 1 <= len(ids) <= 3
        for later in ids[1:]:
            assert names(await it.wait(State.CLOSED, incident_id=later)) == ["opened", "not_reproduced"]
        assert len(it.hands.lines()) == 1
