"""Fakes of the ports: a log, records and an Alertmanager in memory, with servers that can go away."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Tracer

from autopatch.chassis.alertmanager import AlertmanagerStatus, Cluster, HeldAlert
from autopatch.chassis.chassis import TargetRecord
from autopatch.chassis.http import application
from autopatch.chassis.prometheus import Result
from autopatch.chassis.room import Room
from autopatch.chassis.targets import FileTargets
from autopatch.chassis.telemetry import carrier
from autopatch.contract.envelope import Envelope
from autopatch.contract.errors import Conflict, Unavailable
from autopatch.contract.events import Event
from autopatch.contract.evidence import Alert
from autopatch.contract.lifecycle import Incident, Stored, apply
from autopatch.contract.target import ProcessRuntime, PrometheusSource, Signal, Target
from services.monitor.service import build
from services.monitor.settings import Settings

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


class Crash(BaseException):
    """The process dies here."""


@dataclass
class Clock:
    at: datetime = NOW

    def now(self) -> datetime:
        return self.at

    def later(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@dataclass
class Log:
    clock: Clock
    incidents: dict[str, Incident] = field(default_factory=dict)
    away: bool = False
    full: bool = False
    crash_before_append: bool = False
    sequence: int = 0

    async def load(self, incident_id: str) -> Incident:
        await _there(self.away)
        return self.incidents.get(incident_id, Incident(incident_id))

    async def append(
        self, incident: Incident, events: Sequence[Event], *, by: str, caused_by: str = "", key: str = ""
    ) -> Incident:
        await _there(self.away)
        if self.crash_before_append:
            self.crash_before_append = False
            raise Crash
        known = self.incidents.get(incident.id, Incident(incident.id))
        if known.last_sequence != incident.last_sequence:
            raise Conflict(incident.id)
        for event in events:
            self.sequence += 1
            envelope = Envelope(
                event_id=f"{incident.id}/{self.sequence}", incident_id=incident.id, event=event.name, version=event.version,
                at=self.clock.now(), by=by, caused_by=caused_by, previous_hash=known.last_hash, data=event,
            ).sealed()
            known = apply(known, Stored(self.sequence, envelope, carrier()))
        self.incidents[incident.id] = known
        return known

    async def ids(self) -> list[str]:
        return list(self.incidents)

    async def room_left(self) -> bool:
        return not self.full


@dataclass
class Records:
    kept: dict[str, tuple[TargetRecord, int]] = field(default_factory=dict)
    away: bool = False

    async def get(self, target: str) -> tuple[TargetRecord, int]:
        await _there(self.away)
        await asyncio.sleep(0)
        return self.kept.get(target, (TargetRecord(), 0))

    async def put(self, target: str, record: TargetRecord, revision: int) -> int:
        await _there(self.away)
        if self.kept.get(target, (None, 0))[1] != revision:
            raise Conflict(target)
        self.kept[target] = (record, revision + 1)
        return revision + 1


@dataclass
class Unmatched:
    added: list[tuple[Alert, str]] = field(default_factory=list)

    async def add(self, alert: Alert, reason: str) -> None:
        self.added.append((alert, reason))


@dataclass
class FakeAlertmanager:
    held: list[HeldAlert] = field(default_factory=list)
    away: bool = False
    started_at: datetime = NOW - timedelta(days=1)
    cluster: str = "ready"
    asked: int = 0

    async def alerts(self) -> tuple[HeldAlert, ...]:
        self.asked += 1
        if self.away:
            raise Unavailable("alertmanager", "refused")
        return tuple(self.held)

    async def status(self) -> AlertmanagerStatus:
        if self.away:
            raise Unavailable("alertmanager", "refused")
        return AlertmanagerStatus(uptime=self.started_at, cluster=Cluster.model_validate({"status": self.cluster}))

    async def aclose(self) -> None:
        pass


@dataclass
class Metrics:
    answer: Result | Unavailable

    async def query(self, expr: str) -> Result:
        if isinstance(self.answer, Unavailable):
            raise self.answer
        return self.answer

    async def aclose(self) -> None:
        pass


@dataclass
class Chassis:
    targets: FileTargets
    clock: Clock = field(default_factory=Clock)
    records: Records = field(default_factory=Records)
    unmatched: Unmatched = field(default_factory=Unmatched)
    tracer: Tracer = field(default_factory=lambda: TracerProvider().get_tracer("test"))
    log: Log = field(init=False)

    def __post_init__(self) -> None:
        self.log = Log(self.clock)

    @property
    def incidents(self) -> list[Incident]:
        return list(self.log.incidents.values())

    def told(self, index: int = 0) -> list[str]:
        """Names of the events of an incident, in order."""
        return [stored.envelope.event for stored in self.incidents[index].log]


async def _there(away: bool) -> None:
    if away:
        await asyncio.sleep(3600)


def target(name: str, **match: str) -> Target:
    return Target(
        name=name, match=match or {"service": name}, runtime=ProcessRuntime(kind="process", command=("x",), pidfile="p"),
        signals={"s": Signal(query="up")}, prometheus=PrometheusSource(url="http://p.test"),
    )


def chassis() -> Chassis:
    return Chassis(FileTargets([target("payments"), target("orders")]))


def alert(name: str = "Slow", *, status: str = "firing", start: float = 0, **changes: Any) -> dict[str, Any]:
    """An alert as a webhook tells it; `start` in seconds after NOW."""
    told = {
        "status": status, "labels": {"alertname": name, "service": "payments"}, "annotations": {"summary": f"{name} is firing"},
        "startsAt": (NOW + timedelta(seconds=start)).isoformat(), "generatorURL": "http://p.test/graph",
        "fingerprint": "0011223344556677",
        "endsAt": "0001-01-01T00:00:00Z" if status == "firing" else (NOW + timedelta(seconds=start + 60)).isoformat(),
    }
    return told | changes


def group(*alerts: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"version": "4", "groupKey": "{}:{}", "truncatedAlerts": 0, "status": "firing", "receiver": "autopatch",
            "groupLabels": {}, "commonLabels": {}, "alerts": list(alerts)} | changes


def held(name: str = "Slow", *, start: float = 0, silenced_by: tuple[str, ...] = (), service: str = "payments") -> HeldAlert:
    return HeldAlert.model_validate({
        "labels": {"alertname": name, "service": service}, "annotations": {"summary": "polled"},
        "startsAt": (NOW + timedelta(seconds=start)).isoformat(),
        "status": {"state": "suppressed" if silenced_by else "active", "silencedBy": list(silenced_by), "inhibitedBy": []},
    })


def settings(**changes: Any) -> Settings:
    given: dict[str, Any] = {"alertmanager_token": "am-token", "grafana_token": "gr-token", "ack_timeout_s": 0.3}
    return Settings(**given | changes)


def room(on: Chassis, alertmanager: FakeAlertmanager | None = None, **changes: Any) -> Room:
    return build(settings(**changes), on, alertmanager=alertmanager)


def http(made: Room) -> httpx2.AsyncClient:
    async def ready() -> dict[str, str]:
        return {}

    return httpx2.AsyncClient(
        transport=httpx2.ASGITransport(application("monitor", made.routers, ready)), base_url="http://monitor.test",
        headers={"authorization": "Bearer am-token"},
    )
