"""A local process as a target: started, stopped, fenced by its start time."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from autopatch.contract.actions import Action
from autopatch.contract.errors import OperatorError, Refused, StaleTarget
from autopatch.contract.plan import Precondition
from autopatch.contract.target import ProcessRuntime
from services.executor.adapters.delivery.hands import TargetHands
from services.executor.adapters.runtimes.process import ProcessOfTarget, start_ticks
from services.executor.ports import Failed
from services.executor.tests.fakes import FakePatches
from services.executor.tests.given import NOW, RELEASE, RESTART, a_plan, a_target

SERVICE = """
import json, os, signal, subprocess, sys, time
release, config, stubborn = sys.argv[1:4]
if release == "broken":
    sys.exit(3)
if stubborn == "yes":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, lambda *_: print(json.dumps({"time": time.time(), "message": "reloaded"}), flush=True))
child = subprocess.Popen(["sleep", "300"])
started = {"time": time.time(), "message": f"release {release} {config}", "child": child.pid, "env": sorted(os.environ)}
print(json.dumps(started), flush=True)
while True:
    time.sleep(0.05)
"""


def living(group: int) -> list[int]:
    """Processes of a group that are no zombies."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = entry.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(its_group) == group and state != "Z":
            found.append(int(entry.parent.name))
    return found


def make(folder: Path, *, stubborn: bool = False, reload_signal: str = "SIGHUP", grace_s: float = 5) -> ProcessOfTarget:
    (folder / "service.py").write_text(SERVICE)
    spec = ProcessRuntime(
        kind="process",
        command=(sys.executable, "service.py", "{release}", "{config:main}", "yes" if stubborn else "no"),
        pidfile=str(folder / "pid"),
        workdir=str(folder),
        log=str(folder / "log"),
        releases=("r1", "r2", "broken"),
        reload_signal=reload_signal,
    )
    return ProcessOfTarget(spec, {"main": "/c.json"}, health="", path="/usr/bin:/bin", grace_s=grace_s, patience_s=3)


@pytest.fixture
async def process(tmp_path: Path) -> AsyncIterator[ProcessOfTarget]:
    made = make(tmp_path)
    yield made
    stop(tmp_path)


def stop(folder: Path) -> None:
    """Ends what a test left running, by the id in the file."""
    if (folder / "pid").exists():
        pid, ticks = map(int, (folder / "pid").read_text().split()[:2])
        if start_ticks(pid) == ticks:
            os.killpg(pid, signal.SIGKILL)


async def logged(folder: Path, text: str) -> None:
    for _ in range(200):
        if text in (folder / "log").read_text():
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{text!r} is not in the log")


async def test_a_release_is_started_with_its_arguments_and_no_environment_of_ours(
    process: ProcessOfTarget, tmp_path: Path
) -> None:
    os.environ["AUTOPATCH_SECRET_FOR_TEST"] = "x"
    try:
        await process.run_release("r1", Precondition())
    finally:
        del os.environ["AUTOPATCH_SECRET_FOR_TEST"]
    state = await process.inspect()
    assert state.running
    assert state.release == "r1"
    assert state.started_at and abs(state.started_at - datetime.now(UTC)) < timedelta(seconds=2)
    await logged(tmp_path, "release r1 /c.json")
    assert "AUTOPATCH" not in (tmp_path / "log").read_text()


async def test_a_restart_makes_another_instance_of_the_same_release_and_ends_the_old_group(
    process: ProcessOfTarget, tmp_path: Path
) -> None:
    await process.run_release("r2", Precondition())
    await logged(tmp_path, "release r2")
    first = await process.inspect()
    await process.restart(Precondition(instance=first.instance, release="r2"))
    second = await process.inspect()
    assert second.running
    assert second.release == "r2"
    assert second.instance != first.instance
    assert second.released_at == first.released_at
    assert not start_ticks(int(first.instance.split(":")[0]))
    assert not living(int(first.instance.split(":")[0]))


async def test_an_instance_that_is_another_one_by_now_is_not_touched(process: ProcessOfTarget) -> None:
    await process.run_release("r1", Precondition())
    before = await process.inspect()
    for wrong in (Precondition(instance="1:1"), Precondition(release="r2")):
        for act in (process.restart, process.reload):
            with pytest.raises(StaleTarget, match="the plan was made for"):
                await act(wrong)
    assert await process.inspect() == before or (await process.inspect()).instance == before.instance


async def test_a_recycled_process_id_is_not_taken_for_the_target(process: ProcessOfTarget, tmp_path: Path) -> None:
    (tmp_path / "pid").write_text(f"{os.getpid()} 1 r1 0\n")
    state = await process.inspect()
    assert not state.running
    assert state.instance == f"{os.getpid()}:1"


async def test_a_restart_that_was_interrupted_after_the_stop_is_finished(process: ProcessOfTarget) -> None:
    await process.run_release("r1", Precondition())
    first = await process.inspect()
    os.killpg(int(first.instance.split(":")[0]), signal.SIGKILL)
    while (await process.inspect()).running:
        await asyncio.sleep(0.01)
    await process.restart(Precondition(instance=first.instance))
    assert (await process.inspect()).running


@pytest.mark.parametrize("action", [RESTART, RELEASE])
async def test_hands_see_that_a_process_was_stopped_half_way_and_start_it_again(
    process: ProcessOfTarget, tmp_path: Path, action: Action
) -> None:
    hands = TargetHands(a_target(tmp_path, configs=()), process, tmp_path / "locks", lambda: NOW, FakePatches())
    await process.run_release("r1", Precondition())
    first = await process.inspect()
    plan = a_plan(action, instance=first.instance)
    undo = (await hands.prepare(plan)).undo
    assert await hands.is_untouched(plan, undo, 0)
    os.killpg(int(first.instance.split(":")[0]), signal.SIGKILL)
    while (await process.inspect()).running:
        await asyncio.sleep(0.01)
    assert not await hands.has_effect(plan, undo, 0)
    assert not await hands.is_untouched(plan, undo, 0) and not await hands.is_undone(plan, undo, 0, NOW)
    await hands.take_back(plan, undo, 0)
    assert await hands.is_undone(plan, undo, 0, NOW)
    assert (await process.inspect()).release == "r1"


async def test_a_process_that_ignores_the_polite_signal_is_ended_after_the_grace(tmp_path: Path) -> None:
    process = make(tmp_path, stubborn=True, grace_s=0.3)
    await process.run_release("r1", Precondition())
    await logged(tmp_path, "release r1")
    first = await process.inspect()
    begun = time.monotonic()
    await process.restart(Precondition(instance=first.instance))
    assert 0.3 <= time.monotonic() - begun < 5
    stop(tmp_path)


async def test_a_release_that_does_not_stay_up_is_a_failure(process: ProcessOfTarget) -> None:
    with pytest.raises(Failed, match="not well after 3 s: it does not run"):
        await process.run_release("broken", Precondition())
    await process.run_release("r1", Precondition(release="broken"))
    assert (await process.inspect()).release == "r1"


async def test_a_reload_is_a_signal_to_that_very_process(process: ProcessOfTarget, tmp_path: Path) -> None:
    await process.run_release("r1", Precondition())
    await logged(tmp_path, "release r1")
    state = await process.inspect()
    assert await process.reload(Precondition(instance=state.instance)) == "sent SIGHUP"
    await logged(tmp_path, "reloaded")


async def test_a_target_without_a_way_to_reload_says_what_to_add(tmp_path: Path) -> None:
    process = make(tmp_path, reload_signal="")
    await process.run_release("r1", Precondition())
    with pytest.raises(Refused, match=r"runtime\.reload_url"):
        await process.reload(Precondition())
    stop(tmp_path)


async def test_log_lines_are_picked_by_time(process: ProcessOfTarget, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(
        '{"time": 1700000000, "m": "old"}\n  its trace\n{"ts": "2026-01-01T00:00:05Z", "m": "in"}\n  its trace\n'
        "2026-01-01 00:00:07,5 text\n2026-01-01T03:00:00+01:00 late\n"
    )
    start = datetime(2026, 1, 1, tzinfo=UTC)
    lines = await process.logs(start, start + timedelta(minutes=1), 10)
    assert [line[-9:] for line in lines] == ['"m": "in"}'[-9:], "its trace", "07,5 text"]
    assert len(await process.logs(start, start + timedelta(minutes=1), 1)) == 1


async def test_a_damaged_process_id_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "pid").write_text("not a number")
    with pytest.raises(OperatorError, match="pid: is not a process id file"):
        await make(tmp_path).inspect()
