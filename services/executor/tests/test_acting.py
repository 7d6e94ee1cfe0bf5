"""From the claim to the effect and back, with real files and a counting runtime: every death, every cancellation."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from autopatch.contract import events as ev
from autopatch.contract.actions import Action
from autopatch.contract.errors import StaleTarget, Unavailable
from autopatch.contract.lifecycle import State
from autopatch.contract.model import digest
from services.executor.ports import Failed
from services.executor.tests.fakes import Died, World
from services.executor.tests.given import (
    CONFIG,
    RELEASE,
    RELOAD,
    RESTART,
    pool,
    timeout,
)
from services.executor.tests.worlds import POOL_20, a_world, applying, plan_of, held, no_policy, paused


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


async def restarted_and_died(folder: Path) -> World:
    """The restart happened, and nobody was told."""
    world = a_world(folder)
    applying(world, RESTART)
    await world.deliver()
    world.dies_at = ("after_effect", 1)
    with pytest.raises(Died):
        await world.deliver()
    return world


async def test_the_crash_test_would_notice_a_missing_probe(tmp_path: Path) -> None:
    world = await restarted_and_died(tmp_path)
    world.runtime.number -= 1
    await world.run()
    assert world.runtime.effects == ["restart", "restart"]


async def test_a_restart_that_happened_is_not_taken_for_somebody_elses_while_the_target_is_not_well_yet(tmp_path: Path) -> None:
    world = await restarted_and_died(tmp_path)
    world.born()
    world.runtime.unwell = True
    await world.run()
    assert world.incident().state is State.APPLIED and world.runtime.effects == ["restart"]


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
    paused(world)
    held(world)
    no_policy(world)
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


@pytest.mark.parametrize(("actions", "cut", "undone"), [
    ((RELEASE,), "half way", "release r1"),
    ((RELEASE,), "stopped", "release r1"),
    ((RESTART,), "stopped", "restart"),
    ((RELOAD, RESTART), "stopped", "restart"),
    ((pool(), RESTART), "stopped", "restart"),
])
async def test_cancelled_while_a_step_is_half_done_what_it_stopped_runs_again(
    tmp_path: Path, actions: tuple[Action, ...], cut: str, undone: str
) -> None:
    world = a_world(tmp_path)
    applying(world, *actions)
    await world.deliver()
    world.runtime.cut = cut
    with pytest.raises(Unavailable):
        await world.deliver()
    assert not world.runtime.running
    world.says(CANCEL)
    await world.run()
    assert world.story()[-4:] == ["cancelled", "apply_failed", "rolling_back", "rolled_back"]
    assert world.incident().state is State.CANCELLED
    assert (world.runtime.running, world.runtime.release, world.runtime.half_way) == (True, "r1", False)
    assert world.runtime.effects[-1] == undone
    told = world.incident().last(ev.RolledBack)
    assert told and told.detail == ""
    assert world.file.read_bytes() == CONFIG


@pytest.mark.parametrize("action", [pool(), RESTART, RELEASE])
async def test_cancelled_before_the_first_step_an_unwell_target_is_left_as_it_is(tmp_path: Path, action: Action) -> None:
    world = a_world(tmp_path)
    applying(world, action)
    await world.deliver()
    world.runtime.unwell = True
    world.says(CANCEL)
    await world.run()
    assert world.story()[-2:] == ["cancelled", "stale"]
    assert (world.incident().state, world.runtime.effects) == (State.CANCELLED, [])


async def test_cancelled_after_a_reload_that_leaves_no_trace_the_edit_behind_it_is_seen(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    applying(world, RELOAD, pool())
    await world.deliver()
    world.dies_at = ("after_effect", 2)
    with pytest.raises(Died):
        await world.deliver()
    assert world.file.read_bytes() == POOL_20
    world.born()
    world.says(CANCEL)
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
