"""kill -9 of every room at named points, and of nats-server: nothing is lost, nothing is done twice, and everything ends."""

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import pytest

from autopatch.chassis.crash import POINTS
from autopatch.contract import events as ev
from autopatch.contract.catalogue import ROOMS
from autopatch.contract.lifecycle import TERMINAL, Incident, State, chain_faults
from tests.flow.harness import Flow, flow, settings_for, told
from tests.flow.sandbox import ScriptedSandbox

EXECUTOR_POINTS = ("executor_claimed", "executor_before_effect", "executor_after_effect", "executor_before_return")
PASSED_BY: dict[str, Sequence[str]] = {
    "monitor": ("before_put", "after_put", "before_append", "after_append"),
    "gateway": ("before_append", "after_append"),
    "executor": (*POINTS, *EXECUTOR_POINTS),
    **{room: [p for p in POINTS if not p.endswith("_put")] for room in ("diagnosis", "planner", "validator", "knowledge")},
}
"""Points that a room passes: the monitor and the gateway hear no events, only some rooms write records."""
BAR_S = 60.0
Record = Callable[[str, int, str, str], None]


class Victim:
    """A room in a process of its own, started again whenever it dies."""

    def __init__(self, folder: Path, room: str, it: Flow, *, guarded: bool = True) -> None:
        self._folder, self._room, self._it, self._guarded = folder, room, it, guarded
        self._process: subprocess.Popen[bytes] | None = None
        self.died_at = 0.0
        self.jobs = False
        """Is it given the scripted sandbox of jobs?"""

    def begin(self, point: str) -> None:
        """Start the room, ready to die at a point."""
        (self._folder / "armed").touch()
        settings = {**settings_for(self._folder, self._it.world)[self._room]}
        if self._room in ("monitor", "gateway"):
            settings["port"] = int(self._it.url(self._room).rsplit(":", 1)[1]) if self._room in self._it.urls else 0
        order = {
            "point": point, "guarded": self._guarded, "settings": settings,
            "common": self._it.common.model_dump(mode="json"), "jobs": self.jobs,
        }
        (self._folder / "victim.json").write_text(json.dumps(order))
        self.start()

    def start(self) -> None:
        """Run, and wait until it is there."""
        address = self._folder / "victim.url"
        address.unlink(missing_ok=True)
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.flow.victim", str(self._folder), self._room], env=environment, stdout=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 60
        while not address.exists() or not address.read_text():
            if self._process.poll() not in (None, -9) or time.monotonic() > deadline:
                raise AssertionError(f"{self._room} did not start")
            if self._process.poll() == -9:
                break
            time.sleep(0.05)
        if address.exists():
            self._it.urls[self._room] = address.read_text()

    async def watch(self) -> None:
        """Start it again when it died."""
        while True:
            await asyncio.sleep(0.1)
            if self._process and self._process.poll() is not None:
                self.died_at = time.monotonic()
                await asyncio.to_thread(self.start)

    def end(self) -> None:
        """Gone for good."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None


@asynccontextmanager
async def hunted(
    folder: Path, room: str, names: Sequence[str], *, guarded: bool = True, sandbox: ScriptedSandbox | None = None
) -> AsyncIterator[tuple[Flow, Victim]]:
    """All rooms but one in this process, that one in another."""
    rung = "approve" if room == "gateway" else "auto"
    async with flow(folder, names, rung=rung, rooms=[r for r in ROOMS if r != room], sandbox=sandbox) as it:
        victim = Victim(folder, room, it, guarded=guarded)
        try:
            yield it, victim
        finally:
            victim.end()


async def healed(it: Flow, name: str, victim: Victim) -> float:
    """Seconds from the victim's last start (or the alert) to the end of the incident."""
    began = time.monotonic()
    incident_id = ""
    while time.monotonic() < began + 3 * BAR_S:
        await _alerted(it, name)
        async for incident in _incidents_of(it, name):
            incident_id = incident
        if incident_id:
            incident_now = await it.any_log.load(incident_id)
            if incident_now.state in (State.APPLIED, State.RESOLVED):
                it.world.quiet(name)
            if incident_now.state is State.AWAITING:
                await _approved(it, incident_id, _plan_hash(incident_now))
            if incident_now.state in TERMINAL:
                assert incident_now.state is State.RESOLVED, told(incident_now)
                assert chain_faults(incident_now) == []
                return time.monotonic() - max(began, victim.died_at)
        await asyncio.sleep(0.3)
    raise AssertionError(f"{name} did not end")


async def _alerted(it: Flow, name: str) -> None:
    """As Alertmanager does: until it was taken."""
    if name in it.taken:
        return
    try:
        answer = await it.alert(name, starts=it.starts.setdefault(name, datetime.now(UTC)))
    except httpx2.HTTPError:
        return
    if answer.status_code == 200:
        it.taken.add(name)


async def _approved(it: Flow, incident_id: str, plan_hash: str) -> None:
    try:
        await it.person("POST", f"/v1/incidents/{incident_id}/approve", {"plan_hash": plan_hash})
    except httpx2.HTTPError:
        return


def _plan_hash(incident: Incident) -> str:
    planned = incident.last(ev.Planned)
    return planned.plan_hash if planned else ""


async def _incidents_of(it: Flow, name: str) -> AsyncIterator[str]:
    for incident_id in await it.any_log.ids():
        if (await it.any_log.load(incident_id)).target == name:
            yield incident_id


def applied(it: Flow, name: str) -> int:
    """How often the effect was there."""
    return sum(line.startswith(f"apply {name} ") for line in it.hands.lines())


async def _died(deaths: Path, times: int) -> None:
    """Until it did, but not for ever: knowledge hears of an incident only when it has ended."""
    for _ in range(200):
        if deaths.exists() and len(deaths.read_text().splitlines()) >= times:
            return
        await asyncio.sleep(0.1)


async def hunt(folder: Path, room: str, points: Sequence[str], record: Record | None = None) -> None:
    """One incident a point, the room killed once during each."""
    names = [f"service-{number}" for number in range(len(points))]
    slowest, deaths = 0.0, folder / "deaths"
    async with hunted(folder, room, names) as (it, victim):
        for number, (name, point) in enumerate(zip(names, points, strict=True), 1):
            victim.end()
            victim.begin(point)
            watching = asyncio.create_task(victim.watch())
            try:
                slowest = max(slowest, await healed(it, name, victim))
                await _died(deaths, number)
            finally:
                watching.cancel()
            assert applied(it, name) == 1, (point, it.hands.lines())
            assert deaths.exists() and deaths.read_text().splitlines()[-1] == point, f"{room} never passed {point}"
        assert len(await it.any_log.ids()) == len(names)
    if record:
        record(f"kill -9 of {room}", len(points), f"0 lost, 0 twice, slowest {slowest:.1f} s", f"0, 0, {BAR_S:.0f} s")
    assert slowest <= BAR_S


ONCE = {
    "monitor": "after_put", "validator": "after_append", "diagnosis": "decided", "planner": "before_append",
    "executor": "executor_after_effect", "knowledge": "before_ack", "gateway": "after_append",
}


@pytest.mark.parametrize("room", ROOMS)
async def test_a_room_that_is_killed_once_loses_nothing_and_does_nothing_twice(tmp_path: Path, room: str) -> None:
    await hunt(tmp_path, room, [ONCE[room]])


async def test_without_the_guards_the_same_kill_acts_twice(tmp_path: Path) -> None:
    async with hunted(tmp_path, "executor", ["payments"], guarded=False) as (it, victim):
        it.checked = False
        victim.begin("executor_after_effect")
        watching = asyncio.create_task(victim.watch())
        deadline = time.monotonic() + 40
        try:
            while applied(it, "payments") < 2 and time.monotonic() < deadline:
                await _alerted(it, "payments")
                await asyncio.sleep(0.3)
        finally:
            watching.cancel()
        assert applied(it, "payments") >= 2, "the test cannot see a double effect"


async def test_nats_server_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    await _nats_hunt(tmp_path, 1, seed=1)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("room", ROOMS)
async def test_long_kill_at_every_point(tmp_path: Path, room: str, record_figure: Record) -> None:
    await hunt(tmp_path, room, [*PASSED_BY[room]], record_figure)


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_long_kill_nats_server(tmp_path: Path, record_figure: Record) -> None:
    await _nats_hunt(tmp_path, 10, seed=int(time.time()), record=record_figure)


async def _nats_hunt(folder: Path, times: int, *, seed: int, record: Record | None = None) -> None:
    chance, names, slowest = random.Random(seed), [f"service-{n}" for n in range(times)], 0.0
    async with flow(folder, names) as it:
        for name in names:
            await _alerted(it, name)
            await asyncio.sleep(chance.uniform(0, 1.5))
            it.nats.kill()
            await asyncio.sleep(0.3)
            it.nats.start()
            back = time.monotonic()
            while True:
                await _alerted(it, name)
                found = [i async for i in _incidents_of(it, name)]
                incident = await it.any_log.load(found[0]) if found else None
                if incident and incident.state in TERMINAL:
                    break
                assert time.monotonic() - back < BAR_S, f"seed {seed}: {told(incident)}"
                await asyncio.sleep(0.2)
            slowest = max(slowest, time.monotonic() - back)
            assert incident.state is State.RESOLVED and applied(it, name) == 1, f"seed {seed}: {told(incident)}"
    if record:
        record("kill -9 of nats-server", times, f"0 lost, 0 twice, slowest {slowest:.1f} s (seed {seed})", f"0, 0, {BAR_S:.0f} s")
