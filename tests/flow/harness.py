"""All seven rooms in one process, on a real nats-server with users and permissions, around a scripted world."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx2
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from autopatch.chassis import logs, permissions
from autopatch.chassis.clock import SystemClock
from autopatch.chassis.log import EventLog
from autopatch.chassis.main import Blueprint, Running, prepare, start
from autopatch.chassis.settings import Common
from autopatch.chassis.tests.nats_server import NatsServer
from autopatch.contract import events as ev
from autopatch.contract.catalogue import ROOMS
from autopatch.contract.lifecycle import Incident, State
from services.gateway.adapters.http import tokens
from tests.flow.checks import check
from tests.flow.hands import ScriptedHands, rehearsed_green
from tests.flow.sandbox import ScriptedSandbox
from tests.flow.world import World

WEBHOOK_TOKEN = "a-webhook-token-of-the-tests"
KNOWLEDGE_TOKEN = "what-the-gateway-shows-the-knowledge-room"

POLICY = """rules:
  - name: everything
    actions: [set_config, reload, restart, rollback_release]
    targets: ['*']
    max_per_hour: 1000
    cool_down_s: 0
"""

Given = dict[str, dict[str, Any]]
Predicate = Callable[[Incident], object]
PATIENCE_S = 30.0


class Impatient(SystemClock):
    """Looks again sooner than the executor would."""

    async def sleep(self, seconds: float) -> None:
        """Never long."""
        await asyncio.sleep(min(seconds, 0.2))


class Complaints(logging.Handler):
    """What was logged as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """structlog hands over a mapping."""
        self.seen.append(str(record.msg))


@dataclass
class Flow:
    """What a test holds."""

    nats: NatsServer
    world: World
    common: Common
    rooms: dict[str, Running]
    token: str
    hands: ScriptedHands
    sandbox: ScriptedSandbox
    """Of jobs, when the test brought one."""
    urls: dict[str, str] = field(default_factory=dict)
    """Where a room is that runs in another process."""
    starts: dict[str, datetime] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    spans: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    complaints: Complaints = field(default_factory=Complaints)
    blueprints: dict[str, Blueprint] = field(default_factory=dict)
    stacks: dict[str, AsyncExitStack] = field(default_factory=dict)
    checked: bool = True
    """At the end: is the log whole, and is the target as the log says?"""
    http: httpx2.AsyncClient = field(default_factory=lambda: httpx2.AsyncClient(timeout=10, trust_env=False))

    @property
    def log(self) -> EventLog:
        """The gateway's view of the log."""
        return self.rooms["gateway"].desk.log

    @property
    def any_log(self) -> EventLog:
        """The log as any room of this process sees it."""
        return next(iter(self.rooms.values())).desk.log

    def url(self, room: str) -> str:
        """Where a room serves HTTP."""
        return self.urls.get(room) or self.rooms[room].url

    async def alert(self, name: str, *, status: str = "firing", starts: datetime | None = None, **labels: str) -> httpx2.Response:
        """What Alertmanager would post for one service."""
        alert = self.world.alert(name, starts or datetime.now(UTC), **labels)
        if status == "firing":
            self.world.alerts[alert["fingerprint"]] = alert
        else:
            self.world.alerts.pop(alert["fingerprint"], None)
        return await self.group({**alert, "status": status})

    def silent_alert(self, name: str, **labels: str) -> dict[str, Any]:
        """Alertmanager holds it, and posts nothing."""
        alert = self.world.alert(name, datetime.now(UTC), **labels)
        self.world.alerts[alert["fingerprint"]] = alert
        return alert

    async def group(self, *alerts: dict[str, Any]) -> httpx2.Response:
        """One webhook with these alerts."""
        status = "firing" if any(a["status"] == "firing" for a in alerts) else "resolved"
        return await self.post({
            "version": "4", "groupKey": "g", "status": status, "receiver": "autopatch", "truncatedAlerts": 0,
            "alerts": list(alerts),
        })

    async def post(self, body: Any) -> httpx2.Response:
        """To the monitor's webhook."""
        headers = {"Authorization": f"Bearer {WEBHOOK_TOKEN}"}
        return await self.http.post(f"{self.url('monitor')}/v1/webhooks/alertmanager", json=body, headers=headers)

    async def person(self, method: str, path: str, body: Any = None) -> httpx2.Response:
        """A person at the gateway."""
        return await self.http.request(
            method, f"{self.url('gateway')}{path}", json=body, headers={"Authorization": f"Bearer {self.token}"}
        )

    async def say(self, incident: Incident, verb: str, **body: str) -> httpx2.Response:
        """A person's word about an incident: approve, reject, cancel, reopen. The plan is the one that is asked about."""
        asked = incident.last(ev.ApprovalRequested)
        if verb in ("approve", "reject"):
            body = {"plan_hash": asked.plan_hash if asked else "0" * 64, **body}
        if verb == "reject":
            body = {"reason": "not now", **body}
        return await self.person("POST", f"/v1/incidents/{incident.id}/{verb}", body)

    async def only(self) -> Incident:
        """The one incident that there is."""
        ids = await self.log.ids()
        assert len(ids) == 1, ids
        return await self.log.load(ids[0])

    async def until(self, wanted: Predicate, what: str, *, incident_id: str = "", timeout_s: float = PATIENCE_S) -> Incident:
        """Until this is true of the incident, by default of the oldest."""
        incident: Incident | None = None
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    ids = [incident_id] if incident_id else await self.log.ids()
                    if ids:
                        incident = await self.log.load(ids[0])
                        if wanted(incident):
                            return incident
                    await asyncio.sleep(0.03)
        except TimeoutError:
            raise AssertionError(f"not {what} but {told(incident)}") from None

    async def wait(self, *states: State, incident_id: str = "", timeout_s: float = PATIENCE_S) -> Incident:
        """Until the incident is in one of these states."""
        return await self.until(lambda i: i.state in states, "/".join(states), incident_id=incident_id, timeout_s=timeout_s)

    async def waits_on(self, what: str, state: State, *, incident_id: str = "") -> Incident:
        """Until a note says that it waits on this, in that state."""
        return await self.until(
            lambda i: i.state is state and what in [e.on for e in notes(i)[-1:]], f"{state} waiting on {what}",
            incident_id=incident_id,
        )

    async def untouched(self, seconds: float = 0.3) -> None:
        """Nothing is done to any target, now and for a while."""
        for _ in range(5):
            assert self.hands.lines() == []
            assert all(s.config.read_bytes() == s.original for s in self.world.services.values())
            await asyncio.sleep(seconds / 5)

    async def stop(self, room: str) -> None:
        """Without a warning to anybody."""
        await self.stacks.pop(room).aclose()

    async def start(self, room: str) -> None:
        """(Again.)"""
        self.stacks[room] = AsyncExitStack()
        clock = Impatient() if room == "executor" else None
        self.rooms[room] = await start(self.blueprints[room], self.common, self.stacks[room], clock=clock)
        processor: Any = self.rooms[room].desk.tracer
        processor.span_processor.add_span_processor(SimpleSpanProcessor(self.spans))

    async def close(self) -> None:
        """Everything down again."""
        logging.getLogger().removeHandler(self.complaints)
        await self.http.aclose()
        for room in reversed(list(self.stacks)):
            await self.stop(room)


def told(incident: Incident | None) -> str:
    """What happened, for the message of a failed test."""
    if incident is None:
        return "no incident"
    return f"{incident.state}: " + " ".join(
        s.envelope.event + (f"({getattr(s.envelope.data, 'reason', '')[:160]})" if getattr(s.envelope.data, "reason", "") else "")
        for s in incident.log
    )


def notes(incident: Incident) -> list[ev.Waiting]:
    """What it waited on since it last moved."""
    moved = next(n for n, s in enumerate(incident.log) if s.envelope.event_id == incident.moved_by)
    return [s.envelope.data for s in incident.log[moved:] if isinstance(s.envelope.data, ev.Waiting)]


def names(incident: Incident) -> list[str]:
    """The events, notes left out."""
    left_out = (ev.AlertUpdated, ev.Waiting, ev.LessonRecorded)
    return [s.envelope.event for s in incident.log if not isinstance(s.envelope.data, left_out)]


def settings_for(folder: Path, world: World) -> Given:
    """What each room is given; every path is inside the test's folder."""
    secret = folder / "webhook-token"
    secret.write_text(WEBHOOK_TOKEN)
    policy = folder / "policy.yaml"
    if not policy.exists():
        policy.write_text(POLICY)
    return {
        "monitor": {"alertmanager_token": WEBHOOK_TOKEN, "cool_down_s": 0.5, "alertmanager_url": world.url},
        "knowledge": {
            "folder": str(folder / "knowledge"), "embedder": "none", "runbooks": str(world.folder / "runbooks"),
            "token": KNOWLEDGE_TOKEN,
        },
        "executor": {"policy": str(policy), "docker_host": "tcp://127.0.0.1:1", "locks": str(folder / "locks")},
        "gateway": {"tokens_file": str(folder / "tokens.yaml")},
        "validator": {"retry_s": 0.2},
        "diagnosis": {"discover": False},
        "planner": {},
    }


def blueprint(room: str, given: Given, *, sandbox: ScriptedSandbox | None = None, **adapters: Any) -> Blueprint:
    """A room with its settings and, where a test wants it, adapters of its own. The executor is given the sandbox."""
    build: Callable[..., Any] = import_module(f"services.{room}.service").build
    settings = import_module(f"services.{room}.settings").Settings

    def made(own: Any, chassis: Any) -> Any:
        parts = {"workshop": sandbox.on(chassis)} if sandbox and room == "executor" else {}
        return build(own, chassis, **parts, **adapters)

    return Blueprint(room, settings, made, given.get(room, {}))


@asynccontextmanager
async def flow(
    folder: Path, names: Sequence[str] = ("payments",), *, rung: str = "auto", ttl: float = 900, given: Given | None = None,
    adapters: dict[str, dict[str, Any]] | None = None, rooms: Sequence[str] = ROOMS, world: dict[str, Any] | None = None,
    given_all: dict[str, Any] | None = None, log_level: str = "WARNING", sandbox: ScriptedSandbox | None = None,
) -> AsyncIterator[Flow]:
    """Everything up; everything down again. `world`: further arguments of World; `given_all`: settings that all rooms share."""
    logs.set_up(log_level)
    scene = World(folder, list(names), rung, ttl, **(world or {}))
    token, entry = tokens.mint("ada", "admin", person=True)
    tokens.write(folder / "tokens.yaml", [entry])
    keys = folder / "keys"
    server = NatsServer(folder, permissions.server_config(permissions.make_keys(keys)))
    common = Common(**{
        "nats_url": server.url, "nkey_folder": str(keys), "targets": str(folder / "targets"), "state": str(folder / "state"),
        "ack_wait_s": 3, "retry_s": 0.2, "publish_budget_s": 5, **(given_all or {}),
    })
    it = Flow(server, scene, common, {}, token, ScriptedHands(folder / "journal"), sandbox or ScriptedSandbox())
    own: dict[str, dict[str, Any]] = {"executor": {"hands": it.hands, "rehearse": rehearsed_green}}
    settings = settings_for(folder, scene)
    for room in ROOMS:
        parts = {**own.get(room, {}), **(adapters or {}).get(room, {})}
        own_settings = {room: {**settings[room], **(given or {}).get(room, {})}}
        it.blueprints[room] = blueprint(room, own_settings, sandbox=sandbox, **parts)
    async with AsyncExitStack() as stack:
        stack.callback(server.kill)
        server.start()
        stack.push_async_callback(_ended, asyncio.create_task(scene.run()))
        stack.push_async_callback(it.close)
        logging.getLogger().addHandler(it.complaints)
        await prepare(common)
        for room in rooms:
            await it.start(room)
        await scene.settled()
        yield it
        if it.checked:
            await check(it)


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def as_json(value: Any) -> str:
    """For messages."""
    return json.dumps(value, indent=1, default=str)
