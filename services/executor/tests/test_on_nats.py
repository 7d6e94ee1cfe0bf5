"""The room on a real nats-server, acting on a real process and a real file."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace

from autopatch.chassis import asking, main
from autopatch.chassis.bus import connect
from autopatch.chassis.clock import SystemClock
from autopatch.chassis.log import EventLog
from autopatch.chassis.settings import Common
from autopatch.chassis.tests.nats_server import NatsServer
from autopatch.contract import events as ev
from autopatch.contract import requests as rq
from autopatch.contract.errors import OperatorError
from autopatch.contract.evidence import TargetState
from autopatch.contract.lifecycle import Incident, State, chain_faults
from autopatch.contract.plan import Plan, Precondition
from autopatch.contract.target import ProcessRuntime
from services.executor.adapters.delivery.start import look_around
from services.executor.adapters.runtimes.engine import Engine
from services.executor.adapters.runtimes.process import ProcessOfTarget
from services.executor.service import build
from services.executor.settings import Settings
from services.executor.tests.given import CONFIG, RELOAD, RESTART, a_plan, planned, pool
from services.executor.tests.test_process import stop

TARGET = """
name: payments
match: {{service: payments}}
prometheus: {{url: http://127.0.0.1:9}}
runtime:
  kind: process
  command: [{python}, service.py, "{{release}}", "{{config:main}}"]
  pidfile: {folder}/pid
  workdir: {folder}
  log: {folder}/log
  releases: [r1, r2]
  reload_signal: SIGHUP
configs:
- name: main
  path: {folder}/config.json
  format: json
  editable:
    database.pool_size: {{type: int, min: 1, max: 50}}
signals:
  p95: {{query: q, role: check, threshold: 0.2}}
autonomy: {{default: {rung}, unrehearsed: [set_config, reload, restart, rollback_release]}}
approval_ttl_s: {ttl}
"""
SERVICE = """
import re, signal, sys, time
def load(*_):
    print("pool", re.search(r'"pool_size": (\\d+)', open(sys.argv[2]).read())[1], flush=True)
signal.signal(signal.SIGHUP, load)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
load()
while True:
    time.sleep(0.05)
"""


@dataclass
class Bench:
    """The running room and the log as another room sees it."""

    folder: Path
    log: EventLog
    asker: asking.BusAsker
    room: main.Running

    async def plan(self, *actions: Any) -> Plan:
        """A plan for the target as it is now."""
        state = await self.asker.ask(rq.Inspect(target="payments"), TargetState)
        return a_plan(*actions, digest=state.configs[0].digest, instance=state.instance, release=state.release)

    async def begin(self, plan: Plan, incident_id: str = "one") -> None:
        """An incident with that plan."""
        events = [stored.envelope.data for stored in planned(plan, incident_id).log]
        await self.log.append(Incident(incident_id), events, by="test", key=incident_id)

    async def says(self, *events: ev.Event, incident_id: str = "one") -> None:
        """Somebody else appends."""
        await self.log.append(await self.log.load(incident_id), events, by="test")

    async def reaches(self, state: State, incident_id: str = "one", timeout_s: float = 20) -> Incident:
        """Waits for a state."""
        incident = Incident(incident_id)
        try:
            async with asyncio.timeout(timeout_s):
                while (incident := await self.log.load(incident_id)).state is not state:
                    await asyncio.sleep(0.05)
        except TimeoutError:
            story = [s.envelope.data for s in incident.log[4:]]
            raise AssertionError(f"{incident.state}, wanted {state}: {story}") from None
        return incident

    def logged(self) -> list[str]:
        return (self.folder / "log").read_text().splitlines()

    async def read_anew(self, pool: int) -> None:
        """The service heard the signal and has read its file, in its own time."""
        async with asyncio.timeout(20):
            while self.logged()[-1] != f"pool {pool}":
                await asyncio.sleep(0.05)

    def file(self) -> bytes:
        return (self.folder / "config.json").read_bytes()


@pytest.fixture
async def bench(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    """Everything started; monitor and validator answer that nothing is in the way."""
    rung, ttl = getattr(request, "param", ("auto", 900))
    (tmp_path / "config.json").write_bytes(CONFIG)
    (tmp_path / "service.py").write_text(SERVICE)
    (tmp_path / "targets").mkdir()
    text = TARGET.format(folder=tmp_path, python=sys.executable, rung=rung, ttl=ttl)
    (tmp_path / "targets" / "payments.yaml").write_text(text)
    policy = tmp_path / "policy.yaml"
    policy.write_text("rules:\n- {name: all, actions: [set_config, reload, restart, rollback_release], targets: ['*']}\n")
    server = NatsServer(tmp_path).start()
    common = Common(nats_url=server.url, targets=str(tmp_path / "targets"), retry_s=0.2, ack_wait_s=2)
    given: dict[str, Any] = {
        "policy": str(policy),
        "locks": str(tmp_path / "locks"),
        "docker_host": f"unix://{tmp_path}/none.sock",
        "stop_grace_s": 1,
    }
    try:
        await main.prepare(common)
        async with AsyncExitStack() as stack:
            running = await main.start(main.Blueprint("executor", Settings, build, given), common, stack)
            buses = {name: await connect(server.url, name) for name in ("validator", "monitor", "planner")}
            for bus in buses.values():
                stack.push_async_callback(bus.close)

            async def red(_: rq.Recheck) -> rq.Rechecked:
                return rq.Rechecked(status="red")

            async def active(_: rq.Silenced) -> rq.SilenceState:
                return rq.SilenceState(status="active")

            tracer = trace.get_tracer("test")
            for room, responders in (("validator", {rq.Recheck: red}), ("monitor", {rq.Silenced: active})):
                answering = asking.Answering(buses[room], tracer, responders)
                stack.push_async_callback(answering.stop)
                await answering.start()
            log = EventLog(buses["planner"], SystemClock())
            made = Bench(tmp_path, log, asking.BusAsker(buses["planner"]), running)
            spec = made.room.desk.targets.get("payments")
            assert spec and isinstance(spec.runtime, ProcessRuntime)
            process = ProcessOfTarget(
                spec.runtime, {"main": spec.configs[0].path}, health="", path="/usr/bin:/bin", grace_s=1, patience_s=5
            )
            await process.run_release("r1", Precondition())
            yield made
    finally:
        stop(tmp_path)
        server.kill()


POOL_20 = CONFIG.replace(b'"pool_size": 10', b'"pool_size": 20')


async def test_applied_and_rolled_back_on_the_real_log(bench: Bench) -> None:
    await bench.begin(await bench.plan(pool(), RELOAD))
    incident = await bench.reaches(State.APPLIED)
    assert bench.file() == POOL_20
    await bench.read_anew(20)
    assert chain_faults(incident) == []
    claim = incident.last(ev.Applying)
    assert claim and [(r.kind, r.old, r.new) for r in claim.undo] == [("splice", "10", "20"), ("none", "", "")]
    await bench.says(ev.NotRecovered(reason="still red"))
    incident = await bench.reaches(State.DIAGNOSED)
    assert bench.file() == CONFIG
    await bench.read_anew(10)
    record, _ = await bench.room.desk.records.get("payments")
    assert record.holder == "one"
    assert len(record.actions) == 1


@pytest.mark.parametrize("bench", [("approve", 900)], indirect=True)
async def test_nothing_happens_before_a_person_agrees(bench: Bench) -> None:
    plan = await bench.plan(RESTART)
    await bench.begin(plan)
    await bench.reaches(State.AWAITING)
    before = len(bench.logged())
    await asyncio.sleep(0.5)
    assert len(bench.logged()) == before
    await bench.says(ev.Approved(plan_hash=plan.hash, person="ann"))
    incident = await bench.reaches(State.APPLIED)
    assert len(bench.logged()) == before + 1
    applied = incident.last(ev.Applied)
    assert applied and not applied.results[0].already


@pytest.mark.parametrize("bench", [("approve", 1)], indirect=True)
async def test_a_request_that_nobody_answers_expires_by_itself(bench: Bench) -> None:
    await bench.begin(await bench.plan(pool()))
    await bench.reaches(State.AWAITING)
    incident = await bench.reaches(State.ESCALATED)
    assert incident.log[-1].envelope.event == "expired"
    assert bench.file() == CONFIG


async def test_cancelled_in_the_middle_of_a_step_everything_is_as_before(bench: Bench) -> None:
    await bench.begin(await bench.plan(pool(), RESTART))
    await bench.reaches(State.APPLYING)
    while bench.file() == CONFIG:
        await asyncio.sleep(0.02)
    await bench.says(ev.Cancelled(person="ann"))
    await bench.reaches(State.CANCELLED)
    assert bench.file() == CONFIG
    await bench.read_anew(10)


async def test_two_incidents_at_once_one_waits_and_says_so(bench: Bench) -> None:
    plan = await bench.plan(pool())
    await bench.begin(plan)
    await bench.reaches(State.APPLIED)
    await bench.begin(await bench.plan(pool(30)), "two")
    await asyncio.sleep(1)
    waiting = (await bench.log.load("two")).last(ev.Waiting)
    assert waiting and waiting.on == "target"
    assert bench.file() == POOL_20
    await bench.says(ev.Recovered(comparisons=()))
    await bench.reaches(State.APPLIED, "two")
    assert b'"pool_size": 30' in bench.file()


async def test_a_mistake_in_the_policy_stops_the_start_and_a_missing_one_does_not(tmp_path: Path) -> None:
    engine = Engine(f"unix://{tmp_path}/none.sock")
    settings = Settings(policy=str(tmp_path / "policy.yaml"), locks=str(tmp_path / "locks"))
    await look_around(settings, engine)
    (tmp_path / "policy.yaml").write_text("rules: 3")
    with pytest.raises(OperatorError, match=r"policy.yaml:1: rules"):
        await look_around(settings, engine)
    (tmp_path / "file").touch()
    with pytest.raises(OperatorError, match="no place for locks"):
        await look_around(Settings(locks=str(tmp_path / "file")), engine)
