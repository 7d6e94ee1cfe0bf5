"""A chassis in memory that keeps the real one's promises: compare-and-set, legality, a log that can be followed."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from autopatch.chassis.chassis import TargetRecord
from autopatch.chassis.settings import Common
from autopatch.chassis.telemetry import carrier
from autopatch.contract.envelope import Envelope
from autopatch.contract.errors import Conflict, Unavailable
from autopatch.contract.events import Event
from autopatch.contract.evidence import BlobRef
from autopatch.contract.lifecycle import Incident, Stored, apply
from autopatch.contract.model import digest
from autopatch.contract.requests import Found
from autopatch.contract.target import Target

BEGIN = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


class FakeClock:
    """Stands still until told."""

    def __init__(self) -> None:
        self.at = BEGIN

    def now(self) -> datetime:
        return self.at

    def pass_s(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


class FakeLog:
    """`rival` is appended by somebody else just before the next append; `down` makes everything Unavailable."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.stored: list[Stored] = []
        self.rivals: list[tuple[str, Event]] = []
        self.down = False
        self.full = False
        self.followers = 0

    async def load(self, incident_id: str) -> Incident:
        self._check()
        await asyncio.sleep(0)
        incident = Incident(incident_id)
        for stored in self.stored:
            if stored.envelope.incident_id == incident_id:
                incident = apply(incident, stored)
        return incident

    async def append(
        self, incident: Incident, events: Sequence[Event], *, by: str, caused_by: str = "", key: str = ""
    ) -> Incident:
        self._check()
        while self.rivals:
            name, event = self.rivals.pop()
            self.say(incident.id, event, by=name)
        if (await self.load(incident.id)).last_sequence != incident.last_sequence:
            raise Conflict("moved on")
        for event in events:
            incident = apply(incident, self.say(incident.id, event, by=by, caused_by=caused_by))
        return incident

    async def ids(self) -> list[str]:
        self._check()
        return list(dict.fromkeys(s.envelope.incident_id for s in self.stored))

    async def room_left(self) -> bool:
        self._check()
        return not self.full

    async def follow(self, after_sequence: int, incident_id: str = "") -> AsyncIterator[Stored]:
        self.followers += 1
        try:
            while True:
                self._check()
                for stored in list(self.stored):
                    if stored.sequence > after_sequence and incident_id in ("", stored.envelope.incident_id):
                        after_sequence = stored.sequence
                        yield stored
                await asyncio.sleep(0.01)
        finally:
            self.followers -= 1

    def say(self, incident_id: str, event: Event, *, by: str = "", caused_by: str = "") -> Stored:
        """Write one event as a room would."""
        chain = [s.envelope for s in self.stored if s.envelope.incident_id == incident_id]
        envelope = Envelope(
            event_id=str(uuid.uuid4()), incident_id=incident_id, event=event.name, version=event.version,
            at=self.clock.now(), by=by, caused_by=caused_by, previous_hash=chain[-1].hash if chain else "", data=event,
        ).sealed()
        stored = Stored(len(self.stored) + 1, envelope, carrier())
        self.stored.append(stored)
        return stored

    def _check(self) -> None:
        if self.down:
            raise Unavailable("nats", "not connected")


class FakeRecords:
    """Compare-and-set; `rivals` write first."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[TargetRecord, int]] = {}
        self.rivals: list[TargetRecord] = []

    async def get(self, target: str) -> tuple[TargetRecord, int]:
        return self.found.get(target, (TargetRecord(), 0))

    async def put(self, target: str, record: TargetRecord, revision: int) -> int:
        now = (await self.get(target))[1]
        if self.rivals:
            now += 1
            self.found[target] = (self.rivals.pop(), now)
        if now != revision:
            raise Conflict("written by somebody else")
        self.found[target] = (record, now + 1)
        return now + 1


class FakeControl:
    def __init__(self) -> None:
        self.reason = ""

    async def paused(self) -> str:
        return self.reason

    async def pause(self, reason: str) -> None:
        self.reason = reason


class FakeTargets:
    def __init__(self, *targets: Target) -> None:
        self._targets = {t.name: t for t in targets}

    def get(self, name: str) -> Target | None:
        return self._targets.get(name)

    def all(self) -> Sequence[Target]:
        return [self._targets[name] for name in sorted(self._targets)]

    def claimed_by(self, labels: dict[str, str]) -> Sequence[Target]:
        return [t for t in self._targets.values() if t.claims(labels)]


class FakeAsker:
    """Knowledge that knows `found`."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.found = Found(items=())

    async def ask(self, request: Any, reply: Any) -> Any:
        self.asked.append(request)
        return self.found


class FakeLive:
    def __init__(self) -> None:
        self.told: list[str] = []

    async def cancelled(self, incident_id: str) -> None:
        self.told.append(incident_id)


class FakeUnmatched:
    def __init__(self) -> None:
        self.alerts: list[dict[str, Any]] = []

    async def newest(self, limit: int = 100) -> list[dict[str, Any]]:
        return self.alerts[-limit:]


class FakeBlobs:
    """Under their digests, as the object store has them."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}
        self.down = False

    async def put(self, data: bytes) -> BlobRef:
        if self.down:
            raise Unavailable("nats", "not connected")
        self.held[digest(data)] = data
        return BlobRef(name=digest(data), size=len(data), digest=digest(data))

    async def get(self, ref: BlobRef) -> bytes:
        if ref.name not in self.held:
            raise Unavailable("nats", "not in the object store")
        return self.held[ref.name]


class FakeTimers:
    async def set(self, incident_id: str, purpose: str, at: datetime) -> None:
        raise AssertionError("the gateway sets no timers")


class FakeChassis(SimpleNamespace):
    """All of it, with the spans that were made in `spans`."""

    def __init__(self, *targets: Target) -> None:
        self.spans = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.spans))
        clock = FakeClock()
        super().__init__(
            name="gateway", clock=clock, log=FakeLog(clock), records=FakeRecords(), control=FakeControl(),
            targets=FakeTargets(*targets), asker=FakeAsker(), live=FakeLive(), unmatched=FakeUnmatched(), timers=FakeTimers(),
            blobs=FakeBlobs(),
            tracer=provider.get_tracer("test"), common=Common(trace_url="http://jaeger.test/trace/{trace_id}"),
        )
