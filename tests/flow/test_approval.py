"""Approve mode: nothing happens before a person's word, which is about one plan on one state of the target."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from autopatch.contract import events as ev
from autopatch.contract.lifecycle import Incident, State
from tests.flow.harness import Flow, flow, names
from tests.flow.props import sized

BEFORE = ["opened", "reproduced", "diagnosed", "planned", "rehearsed", "approval_requested"]
AFTER = ["approved", "applying", "applied", "recovered"]


def asked(incident: Incident) -> str:
    """The hash of the plan that is asked about."""
    request = incident.last(ev.ApprovalRequested)
    assert request
    return request.plan_hash


async def awaiting(it: Flow) -> Incident:
    """An incident that a person is asked about."""
    await it.alert("payments")
    return await it.wait(State.AWAITING)


async def test_nothing_is_applied_before_a_person_approves_and_then_it_is_healed(tmp_path: Path) -> None:
    async with flow(tmp_path, rung="approve") as it:
        incident = await awaiting(it)
        await it.untouched()
        assert names(incident) == BEFORE
        answer = await it.say(incident, "approve")
        assert answer.status_code == 200 and answer.json()["already"] is False
        again = await it.say(incident, "approve")
        assert again.status_code == 200 and again.json()["already"] is True
        incident = await it.wait(State.RESOLVED)
        assert names(incident) == [*BEFORE, *AFTER]
        claim = incident.last(ev.Applying)
        assert claim and claim.rung == "approve" and claim.approved_by == ("ada",)
        late = await it.say(incident, "reject")
        assert late.status_code == 409 and "approved" in late.json()["error"]


async def test_a_word_about_another_plan_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async with flow(tmp_path, rung="approve") as it:
        incident = await awaiting(it)
        answer = await it.say(incident, "approve", plan_hash="f" * 64)
        assert answer.status_code == 409
        assert (await it.only()).state is State.AWAITING
        await it.untouched()


async def test_a_target_that_drifted_meanwhile_needs_a_new_plan_and_a_new_approval(tmp_path: Path) -> None:
    async with flow(tmp_path, rung="approve") as it:
        incident = await awaiting(it)
        service = it.world.services["payments"]
        service.drift(service.original.replace(b'"timeout_ms": 5000', b'"timeout_ms": 6000'))
        first = asked(incident)
        assert (await it.say(incident, "approve")).status_code == 200
        incident = await it.until(lambda i: i.state is State.AWAITING and asked(i) != first, "asked about a new plan")
        assert names(incident) == [*BEFORE, "approved", "stale", "planned", "rehearsed", "approval_requested"]
        assert incident.attempts == 1
        await it.untouched()
        assert (await it.say(incident, "approve", plan_hash=first)).status_code == 409
        assert (await it.only()).state is State.AWAITING
        assert (await it.say(incident, "approve")).status_code == 200
        await it.wait(State.RESOLVED)
        assert service.config.read_bytes() == sized(service.original, 20)


async def test_rejection_ends_it_and_an_approval_comes_too_late(tmp_path: Path) -> None:
    async with flow(tmp_path, rung="approve") as it:
        incident = await awaiting(it)
        assert (await it.say(incident, "reject", reason="not during the sale")).status_code == 200
        incident = await it.wait(State.ESCALATED)
        assert names(incident) == [*BEFORE, "rejected"]
        assert (await it.say(incident, "approve")).status_code == 409
        await it.untouched()


async def test_an_approval_that_nobody_gives_in_time_expires(tmp_path: Path) -> None:
    async with flow(tmp_path, rung="approve", ttl=0.5) as it:
        await it.alert("payments")
        incident = await it.wait(State.ESCALATED)
        assert names(incident) == [*BEFORE, "expired"]
        assert (await it.say(incident, "approve")).status_code == 409
        await it.untouched()


async def test_a_rejection_after_the_approval_is_refused(tmp_path: Path) -> None:
    async with flow(tmp_path, rung="approve") as it:
        incident = await awaiting(it)
        await it.person("POST", "/v1/pause", {"reason": "the test looks"})
        assert (await it.say(incident, "approve")).status_code == 200
        await it.wait(State.APPROVED)
        answer = await it.say(incident, "reject")
        assert answer.status_code == 409 and "cancel" in answer.json()["tip"]
        assert names(await it.only()) == [*BEFORE, "approved"]
        await it.untouched()


@pytest.mark.parametrize("verb", ["reject", "cancel"])
async def test_a_fault_that_keeps_firing_after_a_persons_no_opens_nothing_until_one_reopens(tmp_path: Path, verb: str) -> None:
    given = {"monitor": {"cool_down_s": 0, "reconcile_s": 0.2, "alertmanager_grace_s": 0}}
    async with flow(tmp_path, rung="approve", given=given) as it:
        starts = datetime.now(UTC)
        await it.alert("payments", starts=starts)
        incident = await it.wait(State.AWAITING)
        assert (await it.say(incident, verb)).status_code == 200
        ended = await it.wait(State.ESCALATED, State.CANCELLED)
        for _ in range(3):
            assert (await it.alert("payments", starts=starts)).status_code == 200
            await asyncio.sleep(0.3)
        assert (await it.alert("payments", starts=datetime.now(UTC))).status_code == 200
        await asyncio.sleep(0.5)
        assert names(await it.only()) == names(ended)
        await it.untouched()
        assert (await it.say(ended, "reopen")).status_code == 200
        incident = await it.wait(State.AWAITING)
        assert names(incident) == [*names(ended), "reopened", *BEFORE[1:]]
        await it.only()
        assert (await it.say(incident, "approve")).status_code == 200
        await it.wait(State.RESOLVED)  # without a cool-down an alert that lingers may open the next one now


@pytest.mark.parametrize("rung, ending, log", [
    ("suggest", State.PROPOSED, ["opened", "reproduced", "diagnosed", "planned", "rehearsed", "proposed"]),
    ("observe", State.OBSERVED, ["opened", "reproduced", "diagnosed", "observed"]),
])
async def test_below_approve_nothing_is_ever_applied(tmp_path: Path, rung: str, ending: State, log: list[str]) -> None:
    async with flow(tmp_path, rung=rung) as it:
        await it.alert("payments")
        incident = await it.wait(ending)
        assert names(incident) == log
        assert (await it.say(incident, "approve")).status_code == 409
        assert (await it.say(incident, "reopen")).status_code == 200
        await it.until(lambda i: names(i) == [*log, "reopened", *log[1:]], "there again")
        await it.untouched()
