"""From a plan to the effect and back, with real files and a counting runtime."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from autopatch.chassis.chassis import TargetRecord
from autopatch.chassis.room import Heard, Reject, RetryLater
from autopatch.chassis.telemetry import scope
from autopatch.contract import events as ev
from autopatch.contract import requests as rq
from autopatch.contract.actions import Action, Scale
from autopatch.contract.errors import OperatorError, StaleTarget, Unavailable
from autopatch.contract.evidence import Rehearsal
from autopatch.contract.lifecycle import Incident, State
from autopatch.contract.model import digest
from autopatch.contract.plan import Plan
from services.executor.ports import Failed
from services.executor.tests.fakes import Died, World
from services.executor.tests.given import (
    CONFIG,
    MODEL,
    NOW,
    RELEASE,
    RELOAD,
    RESTART,
    a_plan,
    a_target,
    add,
    planned,
    pool,
    rehearsed,
    timeout,
)

POOL_20 = CONFIG.replace(b'"pool_size": 10', b'"pool_size": 20')
REHEARSE = {"command": ["rehearse", "{config:main}"], "image": "i"}


def a_world(folder: Path, policy: str = "", **target: Any) -> World:
    (folder / "config.json").write_bytes(CONFIG)
    return World(folder, a_target(folder, **target), policy)


def plan_of(*actions: Action) -> Plan:
    return a_plan(*actions, digest=digest(CONFIG))


def applying(world: World, *actions: Action) -> Incident:
    """An incident whose rehearsed plan has been told to the room and has passed the gate."""
    return world.has(rehearsed(plan_of(*actions)))


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


def _no_policy(world: World) -> None:
    world.policy.unlink()


def _bad_policy(world: World) -> None:
    world.policy.write_text("rules: [{name: x}]")


def _paused(world: World) -> None:
    world.chassis.control.why = "ann pulled the brake"


def _silenced(world: World) -> None:
    world.chassis.asker.answers[rq.Silenced] = rq.SilenceState(status="silenced", reason="maintenance")


def _silence_unknown(world: World) -> None:
    world.chassis.asker.answers[rq.Silenced] = rq.SilenceState(status="unknown", reason="Alertmanager is away")


def _recheck_unknown(world: World) -> None:
    world.chassis.asker.answers[rq.Recheck] = rq.Rechecked(status="unknown", reason="no samples")


def _held(world: World) -> None:
    world.chassis.records.kept["payments"] = (TargetRecord(held_by_operator="ann", hold_reason="migration"), 1)


def _missing(*what: str) -> Callable[[World], None]:
    return lambda world: world.chassis.missing.update(what)


def _no_engine(world: World) -> None:
    world.runtime.broken["inspect"] = Unavailable("docker", "no engine")


@pytest.mark.parametrize(
    ("guard", "on", "says"),
    [
        (_no_policy, "policy", "nothing is applied"),
        (_bad_policy, "policy", "rules.0.actions"),
        (_paused, "pause", "ann pulled the brake"),
        (_missing("control"), "control", "taken away"),
        (_missing("monitor"), "monitor", "taken away"),
        (_missing("validator"), "validator", "taken away"),
        (_missing("records"), "records", "taken away"),
        (_silenced, "silence", "maintenance"),
        (_silence_unknown, "silence", "Alertmanager is away"),
        (_recheck_unknown, "prometheus", "no samples"),
        (_held, "hold", "ann holds payments: migration"),
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


# --- acting, failing, rolling back ----------------------------------------------------------------------------------


PLANS: dict[str, tuple[Action, ...]] = {
    "one edit": (pool(),),
    "edit and reload": (pool(), RELOAD),
    "two edits and a restart": (pool(), timeout(), RESTART),
    "release": (RELEASE,),
    "restart": (RESTART,),
    "release and edit": (RELEASE, pool()),
}


@pytest.mark.parametrize("name", list(PLANS))
async def test_what_was_applied_is_rolled_back_to_the_byte(tmp_path: Path, name: str) -> None:
    world = a_world(tmp_path)
    applying(world, *PLANS[name])
    await world.run()
    assert world.incident().state is State.APPLIED
    world.chassis.clock.at += timedelta(minutes=5)
    world.says(ev.NotRecovered(reason="still red"))
    await world.run()
    assert world.incident().state is State.DIAGNOSED
    assert world.file.read_bytes() == CONFIG
    assert world.runtime.release == "r1"
    told = world.incident().last(ev.RolledBack)
    assert told and told.detail == ("there was nothing to undo" if name == "restart" else "")
    twice = {"edit and reload": ["reload"] * 2, "two edits and a restart": ["restart"] * 2, "restart": ["restart"]}
    releases = ["release r2", "release r1"] if RELEASE in PLANS[name] else []
    assert world.runtime.effects == (releases or twice.get(name, []))


@pytest.mark.parametrize("point", ["received", "decided", "claimed", "before_effect", "after_effect", "before_return"])
@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("name", list(PLANS))
async def test_a_death_at_any_point_neither_doubles_nor_skips(tmp_path: Path, point: str, nth: int, name: str) -> None:
    world = a_world(tmp_path)
    applying(world, *PLANS[name])
    world.dies_at = (point, nth)
    await world.run()
    assert world.incident().state is State.APPLIED
    effects = [e for e in world.runtime.effects if e != "reload"]
    assert effects == [
        {"restart": "restart", "rollback_release": "release r2"}[a.kind]
        for a in PLANS[name]
        if a.kind in ("restart", "rollback_release")
    ]
    assert ("reload" in world.runtime.effects) == (RELOAD in PLANS[name])
    expected = CONFIG
    if pool() in PLANS[name]:
        expected = POOL_20
    if timeout() in PLANS[name]:
        expected = expected.replace(b"5000", b"900")
    assert world.file.read_bytes() == expected
    assert len(world.chassis.records.kept["payments"][0].actions) == 1
    world.chassis.clock.at += timedelta(minutes=5)
    world.says(ev.NotRecovered(reason="still red"))
    world.born()
    world.dies_at = (point, nth)
    await world.run()
    assert world.incident().state is State.DIAGNOSED
    assert world.file.read_bytes() == CONFIG
    assert world.runtime.release == "r1"
    undone = [e for e in world.runtime.effects if e != "reload"][len(effects) :]
    assert undone == (["release r1"] if RELEASE in PLANS[name] else ["restart"] if name == "two edits and a restart" else [])


async def test_the_crash_test_would_notice_a_missing_probe(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    applying(world, RESTART)
    await world.deliver()
    world.dies_at = ("after_effect", 1)
    with pytest.raises(Died):
        await world.deliver()
    world.runtime.number -= 1
    await world.run()
    assert world.runtime.effects == ["restart", "restart"]


@pytest.mark.parametrize("action", [pool(), RESTART, RELEASE])
async def test_an_executor_that_wakes_up_late_is_refused_by_the_target_itself(tmp_path: Path, action: Action) -> None:
    world = a_world(tmp_path)
    plan = plan_of(action)
    late, other = world.hands(world.target), world.hands(world.target)
    undo = (await late.prepare(plan)).undo
    assert not await late.has_effect(plan, undo, 0)
    await other.act(plan, undo, 0)
    with pytest.raises(StaleTarget):
        await late.act(plan, undo, 0)
    assert world.file.read_bytes() == (POOL_20 if action == pool() else CONFIG)
    assert len(world.runtime.effects) == (0 if action == pool() else 1)


async def test_two_executors_that_hear_the_same_claim_act_once(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    applying(world, pool(), RESTART)
    await world.deliver()

    async def dawdle() -> None:
        await asyncio.sleep(0.1)

    world.runtime.dawdle = dawdle
    await asyncio.gather(world.deliver(ev.Applying), world.deliver(ev.Applying), world.deliver(ev.Applying))
    assert world.runtime.effects == ["restart"]
    assert world.story()[-2:] == ["applying", "applied"]


async def test_a_file_that_changed_at_the_last_moment_is_stale_and_untouched(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    applying(world, pool())
    await world.deliver()
    world.file.write_bytes(CONFIG + b"// theirs\n")
    await world.run()
    assert world.incident().state is State.DIAGNOSED
    assert world.story()[-1] == "stale"
    assert world.file.read_bytes() == CONFIG + b"// theirs\n"


async def test_a_step_that_fails_takes_back_the_ones_before_it(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    applying(world, pool(), RELOAD)
    world.runtime.broken["reload"] = Failed("reload answered 500")
    await world.deliver()
    await world.deliver()
    failed = world.incident().last(ev.ApplyFailed)
    assert failed and failed.reason == "step 2: reload answered 500"
    world.runtime.broken.clear()
    await world.run()
    assert world.story()[-3:] == ["apply_failed", "rolling_back", "rolled_back"]
    assert world.file.read_bytes() == CONFIG


async def test_an_engine_that_goes_away_half_way_is_waited_for(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    applying(world, pool(), RESTART)
    await world.deliver()
    world.runtime.broken["restart"] = Unavailable("docker", "gone")
    with pytest.raises(Unavailable):
        await world.deliver()
    assert world.file.read_bytes() == POOL_20
    world.runtime.broken.clear()
    await world.run()
    assert world.story()[-1] == "applied"
    assert world.runtime.effects == ["restart"]


async def test_a_file_that_somebody_changed_after_us_is_not_overwritten_by_the_rollback(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    applying(world, pool())
    await world.run()
    theirs = world.file.read_bytes().replace(b"5000", b"7000")
    world.file.write_bytes(theirs)
    world.says(ev.NotRecovered(reason="still red"))
    await world.run()
    failed = world.incident().last(ev.RollbackFailed)
    assert failed and "somebody else changed it" in failed.reason
    assert digest(CONFIG)[:12] in failed.reason and digest(POOL_20)[:12] in failed.reason
    assert world.file.read_bytes() == theirs
    assert world.incident().state is State.ESCALATED


async def test_a_release_that_somebody_changed_after_us_is_left_alone(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    applying(world, RELEASE)
    await world.run()
    world.runtime.release = "r7"
    world.says(ev.NotRecovered(reason="still red"))
    await world.run()
    assert world.story()[-1] == "rollback_failed"
    assert world.runtime.effects == ["release r2"]


async def test_a_pause_does_not_stop_a_rollback(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    applying(world, pool())
    await world.run()
    _paused(world)
    _held(world)
    _no_policy(world)
    world.says(ev.NotRecovered(reason="still red"))
    await world.run()
    assert world.file.read_bytes() == CONFIG


# --- cancelling -----------------------------------------------------------------------------------------------------

CANCEL = ev.Cancelled(person="ann")


async def test_cancelled_before_the_first_step_nothing_is_changed(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    applying(world, pool(), RELOAD)
    await world.deliver()
    world.says(CANCEL)
    assert await world.deliver(ev.Applying) == []
    await world.deliver(ev.Cancelled)
    assert world.incident().state is State.CANCELLED
    assert world.file.read_bytes() == CONFIG


async def test_cancelled_during_a_step_the_step_ends_and_is_rolled_back(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    applying(world, pool(), RESTART)
    await world.deliver()
    inside = asyncio.Event()

    async def dawdle() -> None:
        inside.set()
        await asyncio.sleep(0.3)

    world.runtime.dawdle = dawdle
    step = asyncio.ensure_future(world.deliver(ev.Applying))
    await inside.wait()
    world.says(CANCEL)
    cancel = asyncio.ensure_future(world.deliver(ev.Cancelled))
    await asyncio.gather(step, cancel)
    world.chassis.clock.at += timedelta(seconds=9)
    await world.run()
    assert world.story()[-5:] == ["applying", "cancelled", "apply_failed", "rolling_back", "rolled_back"]
    assert world.incident().state is State.CANCELLED
    assert world.file.read_bytes() == CONFIG
    assert world.runtime.effects == ["restart", "restart"]


async def test_a_task_that_is_cancelled_lets_its_step_end(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    applying(world, RESTART)
    await world.deliver()
    inside = asyncio.Event()

    async def dawdle() -> None:
        inside.set()
        await asyncio.sleep(0.2)

    world.runtime.dawdle = dawdle
    step = asyncio.ensure_future(world.deliver())
    await inside.wait()
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step
    assert world.runtime.effects == ["restart"]
    world.runtime.dawdle = None
    await world.run()
    assert world.runtime.effects == ["restart"]
    assert world.incident().state is State.APPLIED


@pytest.mark.parametrize("point", ["before_effect", "after_effect", "before_return"])
async def test_died_while_acting_and_cancelled_meanwhile(tmp_path: Path, point: str) -> None:
    world = a_world(tmp_path)
    applying(world, pool(), RELOAD)
    await world.deliver()
    world.born()
    world.dies_at = (point, 1)
    with pytest.raises(Died):
        await world.deliver()
    world.born()
    world.says(CANCEL)
    await world.deliver(ev.Cancelled)
    await world.run()
    assert world.incident().state is State.CANCELLED
    assert world.file.read_bytes() == CONFIG


async def test_cancelled_once_applied_it_is_rolled_back(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    applying(world, pool())
    await world.run()
    world.says(CANCEL)
    await world.run()
    assert world.story()[-3:] == ["cancelled", "rolling_back", "rolled_back"]
    assert world.incident().state is State.CANCELLED
    assert world.file.read_bytes() == CONFIG


async def test_cancelled_while_rolling_back_the_rollback_is_ended_by_whoever_hears_it(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    applying(world, pool())
    await world.run()
    world.says(ev.NotRecovered(reason="red"))
    await world.deliver()
    world.says(CANCEL)
    assert await world.deliver(ev.RollingBack) == []
    await world.deliver(ev.Cancelled)
    assert world.incident().state is State.CANCELLED
    assert world.file.read_bytes() == CONFIG


# --- answers --------------------------------------------------------------------------------------------------------


async def test_inspect_shows_editable_values_only(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    state: Any = await world.room.responders[rq.Inspect](rq.Inspect(target="payments"))
    assert state.model_dump(include={"release", "instance", "running", "releases"}) == {
        "release": "r1",
        "instance": "i1",
        "running": True,
        "releases": ("r1", "r2"),
    }
    assert state.configs[0].values == {"database.pool_size": 10, "database.timeout_ms": 5000}
    assert state.configs[0].digest == digest(CONFIG)
    with pytest.raises(OperatorError, match="no target 'nope'"):
        await world.room.responders[rq.Inspect](rq.Inspect(target="nope"))


async def test_logs_are_redacted_also_of_the_configurations_own_secrets(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    answer: Any = await world.room.responders[rq.Logs](rq.Logs(target="payments", start=NOW, end=NOW, limit=10))
    assert "hunter2" not in "".join(answer.lines)
    assert answer.lines[-1] == "plain"
    assert not answer.truncated


async def test_a_plan_whose_hash_was_tampered_with_is_rejected(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    plan = plan_of(pool())
    incident = planned(plan)
    forged = incident.log[-1].envelope.model_copy(update={"data": ev.Planned(plan=plan, plan_hash="x", model=MODEL)})
    world.has(Incident("one", State.PLANNED, (*incident.log[:-1], type(incident.log[-1])(4, forged)), forged.event_id))
    with pytest.raises(Reject, match="hash"):
        await world.deliver()


# --- traces ---------------------------------------------------------------------------------------------------------


async def test_a_trace_shows_verdict_wait_actions_and_rollback(tmp_path: Path) -> None:
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    world = a_world(tmp_path, autonomy={"default": "approve"})
    plan = plan_of(pool(), RELOAD)
    with scope(provider.get_tracer("test"), "one"):
        world.has(rehearsed(plan))
        await world.run()
        world.chassis.clock.at += timedelta(seconds=90)
        world.says(ev.Approved(plan_hash=plan.hash, person="ann"))
        await world.run()
        world.says(ev.NotRecovered(reason="red"))
        await world.run()
    spans = kept.get_finished_spans()
    assert all((span.attributes or {})["incident.id"] == "one" for span in spans)
    names = [span.name for span in spans]
    assert names == ["policy verdict", "policy verdict", "human wait", "action", "action", "rollback", "rollback"]
    verdict, wait, action = ({**(spans[i].attributes or {})} for i in (0, 2, 3))
    assert (verdict["rung"], verdict["rule"], verdict["rehearsed"]) == ("approve", "all", True)
    assert verdict["reasons"] == (
        "the target's autonomy for set_config is approve",
        "the target's autonomy for reload is approve",
    )
    assert wait["people"] == ("ann",)
    assert spans[2].end_time and spans[2].start_time and spans[2].end_time - spans[2].start_time == 90 * 10**9
    assert action["action"] == "set database.pool_size to 20 in main"
