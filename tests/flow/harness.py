"""All seven rooms in one process, on a real nats-server with users and permissions, around a scripted world."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx2

from autopatch.chassis import logs, permissions
from autopatch.chassis.log import EventLog
from autopatch.chassis.main import Blueprint, Running, prepare, start
from autopatch.chassis.settings import Common
from autopatch.chassis.tests.nats_server import NatsServer
from autopatch.contract import events as ev
from autopatch.contract.catalogue import ROOMS
from autopatch.contract.lifecycle import Incident, State
from services.gateway.adapters.http import tokens
from tests.flow.hands import ScriptedHands, rehearsed_green
from tests.flow.world import World

WEBHOOK_TOKEN = "a-webhook-token-of-the-tests"

Given = dict[str, dict[str, Any]]


@dataclass
class Flow:
    """What a test holds."""

    nats: NatsServer
    world: World
    common: Common
    rooms: dict[str, Running]
    token: str
    hands: ScriptedHands
    urls: dict[str, str] = field(default_factory=dict)
    """Where a room is that runs in another process."""
    starts: dict[str, datetime] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
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
        starts = starts or datetime.now(UTC)
        alert = {
            "labels": {"alertname": "Slow", "service": name, **labels}, "annotations": {"summary": "slow"},
            "startsAt": starts.isoformat(), "endsAt": "0001-01-01T00:00:00Z", "fingerprint": f"{name}{labels or ''}", "generatorURL": "",
        }
        body = {
            "version": "4", "groupKey": "g", "status": status, "receiver": "autopatch", "truncatedAlerts": 0,
            "alerts": [{**alert, "status": status}],
        }
        if status == "firing":
            self.world.alerts[name] = alert
        else:
            self.world.alerts.pop(name, None)
        return await self.post(body)

    async def post(self, body: Any) -> httpx2.Response:
        """To the monitor's webhook."""
        headers = {"Authorization": f"Bearer {WEBHOOK_TOKEN}"}
        return await self.http.post(f"{self.url('monitor')}/v1/webhooks/alertmanager", json=body, headers=headers)

    async def person(self, method: str, path: str, body: Any = None) -> httpx2.Response:
        """A person at the gateway."""
        return await self.http.request(
            method, f"{self.url('gateway')}{path}", json=body, headers={"Authorization": f"Bearer {self.token}"}
        )

    async def only(self) -> Incident:
        """The one incident that there is."""
        ids = await self.log.ids()
        assert len(ids) == 1, ids
        return await self.log.load(ids[0])

    async def wait(self, *states: State, incident_id: str = "", timeout_s: float = 20) -> Incident:
        """Until the (only) incident is in one of these states."""
        incident: Incident | None = None
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    ids = [incident_id] if incident_id else await self.log.ids()
                    if ids:
                        incident = await self.log.load(ids[0])
                        if incident.state in states:
                            return incident
                    await asyncio.sleep(0.03)
        except TimeoutError:
            raise AssertionError(f"not {'/'.join(states)} but {told(incident)}") from None


def told(incident: Incident | None) -> str:
    """What happened, for the message of a failed test."""
    if incident is None:
        return "no incident"
    return f"{incident.state}: " + " ".join(
        s.envelope.event + (f"({getattr(s.envelope.data, 'reason', '')[:160]})" if getattr(s.envelope.data, "reason", "") else "")
        for s in incident.log
    )


def names(incident: Incident) -> list[str]:
    """The events, notes left out."""
    notes = (ev.AlertUpdated, ev.Waiting, ev.LessonRecorded)
    return [s.envelope.event for s in incident.log if not isinstance(s.envelope.data, notes)]


def settings_for(folder: Path, world: World) -> Given:
    """What each room is given; every path is inside the test's folder."""
    secret = folder / "webhook-token"
    secret.write_text(WEBHOOK_TOKEN)
    policy = folder / "policy.yaml"
    if not policy.exists():
        policy.write_text("rules:\n  - name: everything\n    actions: [set_config, reload, restart, rollback_release]\n    targets: ['*']\n    max_per_hour: 1000\n    cool_down_s: 0\n")
    return {
        "monitor": {"alertmanager_token": WEBHOOK_TOKEN, "cool_down_s": 0.5, "alertmanager_url": world.url},
        "knowledge": {"folder": str(folder / "knowledge"), "embedder": "none", "runbooks": str(world.folder / "runbooks")},
        "executor": {"policy": str(policy)},
        "gateway": {"tokens_file": str(folder / "tokens.yaml")},
        "validator": {"share_cores": False, "retry_s": 0.2},
        "diagnosis": {"discover": False},
        "planner": {},
    }


def blueprint(room: str, given: Given, **adapters: Any) -> Blueprint:
    """A room with its settings and, where a test wants it, adapters of its own."""
    build: Callable[..., Any] = import_module(f"services.{room}.service").build
    settings = import_module(f"services.{room}.settings").Settings
    return Blueprint(room, settings, lambda s, c: build(s, c, **adapters), given.get(room, {}))


@asynccontextmanager
async def flow(
    folder: Path, names: Sequence[str] = ("payments",), *, rung: str = "auto", ttl: float = 900, given: Given | None = None,
    adapters: dict[str, dict[str, Any]] | None = None, rooms: Sequence[str] = ROOMS,
) -> AsyncIterator[Flow]:
    """Everything up; everything down again."""
    logs.set_up("WARNING")
    world = World(folder, list(names), rung, ttl)
    hands = ScriptedHands(folder / "journal")
    token, entry = tokens.mint("ada", "admin", person=True)
    tokens.write(folder / "tokens.yaml", [entry])
    keys = folder / "keys"
    server = NatsServer(folder, permissions.server_config(permissions.make_keys(keys))).start()
    common = Common(
        nats_url=server.url, nkey_folder=str(keys), targets=str(folder / "targets"), state=str(folder / "state"), ack_wait_s=3,
        retry_s=0.2, publish_budget_s=5,
    )
    settings = settings_for(folder, world)
    for room, more in (given or {}).items():
        settings[room] = {**settings.get(room, {}), **more}
    own: dict[str, dict[str, Any]] = {"executor": {"hands": hands, "rehearse": rehearsed_green}}
    for room, more in (adapters or {}).items():
        own[room] = {**own.get(room, {}), **more}
    running_world = asyncio.create_task(world.run())
    try:
        async with AsyncExitStack() as stack:
            await prepare(common)
            running = {r: await start(blueprint(r, settings, **own.get(r, {})), common, stack) for r in rooms}
            made = Flow(server, world, common, running, token, hands)
            stack.push_async_callback(made.http.aclose)
            await asyncio.sleep(0.3)
            yield made
    finally:
        running_world.cancel()
        with suppress(asyncio.CancelledError):
            await running_world
        server.kill()


def as_json(value: Any) -> str:
    """For messages."""
    return json.dumps(value, indent=1, default=str)
