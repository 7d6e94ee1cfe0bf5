"""From a plan to the claim: rehearsal, the ladder, what fails closed, one at a time."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from autopatch.chassis.chassis import TargetRecord
from autopatch.chassis.room import Heard, Reject, RetryLater
from autopatch.contract import events as ev
from autopatch.contract import requests as rq
from autopatch.contract.actions import Action, Scale
from autopatch.contract.errors import Unavailable
from autopatch.contract.evidence import Rehearsal
from autopatch.contract.lifecycle import State
from services.executor.tests.fakes import World
from services.executor.tests.given import (
    CONFIG,
    NOW,
    RELOAD,
    RESTART,
    a_plan,
    add,
    planned,
    pool,
    rehearsed,
    timeout,
)
from services.executor.tests.worlds import POOL_20, REHEARSE, a_world, applying, plan_of, held, no_policy, paused


# --- rehearsal ------------------------------------------------------------------------------------------------------


async def test_a_plan_is_rehearsed_and_the_outcome_told(tmp_path: Path) -> None:
    world = a_world(tmp_path, rehearse=REHEARSE)
    world.has(planned(plan_of(pool())))
    await world.deliver()
    assert world.incident().state is State.REHEARSED
    world.rehearsal.answer = Rehearsal(passed=False, reason="still red")
    world.has(planned(plan_of(pool())))
    await world.deliver()
    assert world.incident().state is State.DIAGNOSED
    assert world.story() == ["planned", "rehearsal_failed"]


@pytest.mark.parametrize(
    ("actions", "rehearse", "why"),
    [((pool(),), None, "names no rehearse command"), ((RESTART,), REHEARSE, "nothing that a rehearsal")],
)
async def test_what_cannot_be_rehearsed_is_marked_unrehearsed_and_shows_its_diff(
    tmp_path: Path, actions: tuple[Action, ...], rehearse: Any, why: str
) -> None:
    world = a_world(tmp_path, rehearse=rehearse)
    world.has(planned(plan_of(*actions)))
    await world.deliver()
    told = world.incident().last(ev.Rehearsed)
    assert told and why in told.rehearsal.skipped
    assert not told.rehearsal.passed
    assert not world.rehearsal.asked
    assert "hunter2" not in told.rehearsal.diff
    if pool() in actions:
        assert '-    "pool_size": 10,' in told.rehearsal.diff
        assert '+    "pool_size": 20,' in told.rehearsal.diff


async def test_a_plan_for_another_file_than_there_is_fails_its_rehearsal_with_both_digests(tmp_path: Path) -> None:
    world = a_world(tmp_path, rehearse=REHEARSE)
    world.has(planned(a_plan(pool(), digest="0" * 64)))
    await world.deliver()
    failed = world.incident().last(ev.RehearsalFailed)
    assert failed and failed.rehearsal.reason.endswith("the plan was made for 000000000000")
    assert not world.rehearsal.asked


async def test_a_plan_that_cannot_be_allowed_is_refused_without_a_rehearsal(tmp_path: Path) -> None:
    world = a_world(tmp_path, rehearse=REHEARSE)
    world.has(planned(plan_of(pool(99), Scale(replicas=2))))
    await world.run()
    assert world.story() == ["planned", "rehearsed", "refused"]
    refused = world.incident().last(ev.Refused)
    assert refused and "from 1.0 to 50.0, is 99" in refused.reason
    assert "scale is not supported by this target's runtime" in refused.reason
    assert not world.rehearsal.asked


# --- the ladder -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rung", "ends"),
    [
        ("observe", ["proposed"]),
        ("suggest", ["proposed"]),
        ("approve", ["approval_requested"]),
        ("auto", ["applying", "applied"]),
    ],
)
async def test_each_rung_goes_as_far_as_it_may(tmp_path: Path, rung: str, ends: list[str]) -> None:
    world = a_world(tmp_path, autonomy={"default": rung})
    world.has(rehearsed(plan_of(pool(), RELOAD)))
    await world.run()
    assert world.story() == ["planned", "rehearsed", *ends]
    assert world.file.read_bytes() == (POOL_20 if rung == "auto" else CONFIG)
    assert world.runtime.effects == (["reload"] if rung == "auto" else [])


async def test_an_unrehearsed_plan_asks_a_person_and_a_rehearsed_one_does_not(tmp_path: Path) -> None:
    world = a_world(tmp_path, autonomy={"default": "auto"})
    world.has(rehearsed(plan_of(pool()), passed=False))
    await world.run()
    asked = world.incident().last(ev.ApprovalRequested)
    assert asked and asked.why == "the plan was not rehearsed"


async def test_an_approved_plan_is_applied_and_says_by_whom(tmp_path: Path) -> None:
    world = a_world(tmp_path, autonomy={"default": "approve"})
    plan = plan_of(pool())
    world.has(rehearsed(plan))
    await world.run()
    assert world.file.read_bytes() == CONFIG
    world.says(ev.Approved(plan_hash=plan.hash, person="ann"))
    await world.run()
    claim = world.incident().last(ev.Applying)
    assert claim and (claim.rung, claim.rule, claim.approved_by, claim.rehearsed) == ("approve", "all", ("ann",), True)
    assert world.file.read_bytes() == POOL_20


async def test_of_two_persons_the_first_only_waits(tmp_path: Path) -> None:
    policy = "rules:\n- {name: two, actions: [set_config], targets: ['*'], two_persons: true}\n"
    world = a_world(tmp_path, policy)
    plan = plan_of(pool())
    world.has(rehearsed(plan))
    await world.run()
    world.says(ev.Approved(plan_hash=plan.hash, person="ann"))
    await world.run()
    assert world.incident().state is State.AWAITING
    assert world.file.read_bytes() == CONFIG
    world.says(ev.Approved(plan_hash=plan.hash, person="bob"))
    await world.run()
    claim = world.incident().last(ev.Applying)
    assert claim and claim.approved_by == ("ann", "bob")


async def test_a_request_expires_by_its_timer_and_not_before(tmp_path: Path) -> None:
    world = a_world(tmp_path, autonomy={"default": "approve"})
    world.has(rehearsed(plan_of(pool())))
    await world.run()
    incident = world.incident()
    stored = incident.last_stored(ev.ApprovalRequested)
    assert stored
    assert world.chassis.timers.due["one", "expiry"] == NOW + timedelta(seconds=901)
    expire = world.room.timers["expiry"]
    assert await expire(Heard(incident, stored)) == []
    world.chassis.clock.at += timedelta(seconds=901)
    assert [e.name for e in await expire(Heard(incident, stored))] == ["expired"]
    assert await expire(Heard(add(incident, ev.Rejected(plan_hash=plan_of(pool()).hash, person="p", reason="r")), stored)) == []


async def test_an_approval_after_the_expiry_is_refused(tmp_path: Path) -> None:
    world = a_world(tmp_path, autonomy={"default": "approve"})
    plan = plan_of(pool())
    world.has(rehearsed(plan))
    await world.run()
    world.chassis.clock.at += timedelta(hours=1)
    world.says(ev.Approved(plan_hash=plan.hash, person="ann"))
    await world.run()
    refused = world.incident().last(ev.Refused)
    assert refused and "after the request had expired" in refused.reason
    assert world.file.read_bytes() == CONFIG


async def test_a_target_that_drifted_while_people_thought_is_stale(tmp_path: Path) -> None:
    world = a_world(tmp_path, autonomy={"default": "approve"})
    plan = plan_of(pool())
    world.has(rehearsed(plan))
    await world.run()
    world.file.write_bytes(CONFIG + b"\n")
    world.says(ev.Approved(plan_hash=plan.hash, person="ann"))
    await world.run()
    assert world.story()[-1] == "stale"
    assert world.incident().state is State.DIAGNOSED


async def test_nobody_is_asked_about_a_target_that_drifted_already(tmp_path: Path) -> None:
    world = a_world(tmp_path, autonomy={"default": "approve"})
    world.has(rehearsed(plan_of(RESTART)))
    world.runtime.number = 2
    await world.run()
    stale = world.incident().last(ev.Stale)
    assert stale and stale.reason == "instance is i2, the plan was made for i1"


# --- fail closed ----------------------------------------------------------------------------------------------------


def _bad_policy(world: World) -> None:
    world.policy.write_text("rules: [{name: x}]")


def _silenced(world: World) -> None:
    world.chassis.asker.answers[rq.Silenced] = rq.SilenceState(status="silenced", reason="maintenance")


def _silence_unknown(world: World) -> None:
    world.chassis.asker.answers[rq.Silenced] = rq.SilenceState(status="unknown", reason="Alertmanager is away")


def _recheck_unknown(world: World) -> None:
    world.chassis.asker.answers[rq.Recheck] = rq.Rechecked(status="unknown", reason="no samples")


def _missing(*what: str) -> Callable[[World], None]:
    return lambda world: world.chassis.missing.update(what)


def _no_engine(world: World) -> None:
    world.runtime.broken["inspect"] = Unavailable("docker", "no engine")


@pytest.mark.parametrize(
    ("guard", "on", "says"),
    [
        (no_policy, "policy", "nothing is applied"),
        (_bad_policy, "policy", "rules.0.actions"),
        (paused, "pause", "ann pulled the brake"),
        (_missing("control"), "control", "taken away"),
        (_missing("monitor"), "monitor", "taken away"),
        (_missing("validator"), "validator", "taken away"),
        (_missing("records"), "records", "taken away"),
        (_silenced, "silence", "maintenance"),
        (_silence_unknown, "silence", "Alertmanager is away"),
        (_recheck_unknown, "prometheus", "no samples"),
        (held, "hold", "ann holds payments: migration"),
        (_no_engine, "docker", "no engine"),
    ],
)
@pytest.mark.parametrize("state", ["rehearsed", "approved"])
async def test_while_a_guard_cannot_say_yes_nothing_changes_and_then_it_goes_on(
    tmp_path: Path, guard: Callable[[World], None], on: str, says: str, state: str
) -> None:
    world = a_world(tmp_path, autonomy={"default": "auto" if state == "rehearsed" else "approve"})
    plan = plan_of(pool(), RELOAD)
    world.has(rehearsed(plan))
    if state == "approved":
        await world.run()
        world.says(ev.Approved(plan_hash=plan.hash, person="ann"))
    fresh = a_world(tmp_path)
    guard(world)
    with pytest.raises((RetryLater, Unavailable)) as told:
        await world.deliver()
    error: Any = told.value
    assert (error.on if isinstance(error, RetryLater) else error.service) == on
    assert says in error.reason
    assert world.file.read_bytes() == CONFIG
    assert world.runtime.effects == []
    assert str(world.incident().state) == state
    world.policy.write_text("rules:\n- {name: all, actions: [set_config, reload], targets: ['*']}\n")
    world.chassis.missing.clear()
    world.chassis.control.why = ""
    world.chassis.asker.answers = fresh.chassis.asker.answers
    world.chassis.records.kept.clear()
    world.runtime.broken.clear()
    await world.run()
    assert world.story()[-1] == "applied"


async def test_without_an_engine_a_plan_waits_before_its_rehearsal(tmp_path: Path) -> None:
    world = a_world(tmp_path, rehearse=REHEARSE)
    world.has(planned(plan_of(pool())))
    for error in (None, Unavailable("docker", "no image")):
        if error is None:
            _no_engine(world)
        world.rehearsal.error = error
        with pytest.raises(Unavailable, match="docker"):
            await world.deliver()
        world.runtime.broken.clear()
    assert world.incident().state is State.PLANNED


async def test_a_green_check_closes_the_incident_instead(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    applying(world, pool())
    world.chassis.asker.answers[rq.Recheck] = rq.Rechecked(status="green", reason="p95 0.05 s")
    await world.run()
    assert world.incident().state is State.CLOSED
    assert world.file.read_bytes() == CONFIG


async def test_a_plan_that_changes_nothing_is_refused(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    applying(world, pool(10))
    await world.run()
    refused = world.incident().last(ev.Refused)
    assert refused and "there already" in refused.reason


async def test_a_target_without_its_file_is_rejected(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    applying(world, pool())
    world.chassis.targets.known.clear()
    with pytest.raises(Reject, match="no target file for 'payments'"):
        await world.deliver()


async def test_a_cool_down_waits_and_the_hourly_rate_refuses(tmp_path: Path) -> None:
    world = a_world(tmp_path, "rules:\n- {name: slow, actions: [set_config], targets: ['*'], cool_down_s: 60, max_per_hour: 2}\n")
    world.chassis.records.kept["payments"] = (TargetRecord(actions=(NOW - timedelta(seconds=50),)), 1)
    applying(world, pool())
    with pytest.raises(RetryLater, match="cool-down until 12:00:10"):
        await world.deliver()
    world.chassis.clock.at += timedelta(seconds=11)
    await world.run()
    assert len(world.chassis.records.kept["payments"][0].actions) == 2
    world.says(ev.Recovered(comparisons=()))
    world.has(rehearsed(plan_of(pool()), "two"))
    world.chassis.clock.at += timedelta(seconds=61)
    await world.deliver(incident_id="two")
    refused = world.incident("two").last(ev.Refused)
    assert refused and "2 actions per hour" in refused.reason


# --- one at a time --------------------------------------------------------------------------------------------------


async def test_while_one_incident_acts_another_waits_and_is_measured_again(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    applying(world, pool())
    await world.deliver()
    world.has(rehearsed(plan_of(timeout()), "two"))
    with pytest.raises(RetryLater, match="incident one acts on payments"):
        await world.deliver(incident_id="two")
    await world.run()
    with pytest.raises(RetryLater):
        await world.deliver(incident_id="two")
    world.says(ev.Recovered(comparisons=()))
    world.chassis.asker.answers[rq.Recheck] = rq.Rechecked(status="green")
    await world.deliver(incident_id="two")
    assert world.incident("two").state is State.CLOSED
    assert world.file.read_bytes() == POOL_20


@pytest.mark.parametrize("state", ["terminal", "diagnosed again", "awaiting"])
async def test_a_holder_that_does_not_act_is_displaced(tmp_path: Path, state: str) -> None:
    world = a_world(tmp_path)
    plan = plan_of(pool())
    other = rehearsed(plan, "other")
    if state == "terminal":
        other = add(other, ev.Refused(plan_hash=plan.hash, rule="r", reason="x"))
    elif state == "awaiting":
        other = add(other, ev.ApprovalRequested(plan_hash=plan.hash, why="w", expires_at=NOW))
    else:
        other = add(other, ev.Stale(reason="x"))
    world.has(other)
    world.chassis.records.kept["payments"] = (TargetRecord(holder="other"), 5)
    applying(world, pool())
    await world.run()
    assert world.story()[-1] == "applied"
    assert world.chassis.records.kept["payments"][0].holder == "one"


async def test_two_that_take_the_target_at_once_do_not_both_get_it(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    applying(world, pool())
    world.has(rehearsed(plan_of(timeout()), "two"))
    calls: list[int] = []

    def rival() -> None:
        if not calls:
            calls.append(1)
            world.chassis.records.kept["payments"] = (TargetRecord(holder="two"), 1)

    world.chassis.records.before_put = rival
    with pytest.raises(RetryLater, match="incident two acts on payments"):
        await world.deliver()
    assert world.incident().state is State.REHEARSED
