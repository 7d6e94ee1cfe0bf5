"""The event log over JetStream: read an incident, append to it by compare-and-set."""

import asyncio
import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence

from nats.js.errors import APIError, NotFoundError

from autopatch.chassis.bus import TRANSIENT, Bus
from autopatch.chassis.clock import Clock
from autopatch.chassis.crash import Crash, no_crash
from autopatch.chassis.telemetry import carrier
from autopatch.contract.catalogue import INCIDENTS
from autopatch.contract.envelope import Envelope, decode, subject_of
from autopatch.contract.errors import Conflict, Unavailable
from autopatch.contract.events import Event
from autopatch.contract.lifecycle import Incident, Stored, apply, next_state

_SPACE = uuid.UUID("6f1b6b1e-4a0f-5b52-9d3f-0a6c2a1f7c55")
WRONG_LAST_SEQUENCE = (10071, 10164)
STREAM_FULL = 10077
CACHED = 2000


class EventLog:
    """Incidents are cached; a load fetches only what was appended since."""

    def __init__(self, bus: Bus, clock: Clock, crash: Crash = no_crash) -> None:
        self._bus = bus
        self._crash = crash
        self._clock = clock
        self._cache: OrderedDict[str, Incident] = OrderedDict()
        self._ids: list[str] = []
        self._listed = 0
        self._listing = asyncio.Lock()

    async def load(self, incident_id: str) -> Incident:
        """The incident as it is now; state NONE when there is none. Raises Unavailable, ContractError."""
        incident = self._cache.get(incident_id) or Incident(incident_id)
        async for stored in self._after(incident.last_sequence, subject_of(incident_id)):
            incident = apply(incident, stored)
        return self._remember(incident)

    async def append(
        self, incident: Incident, events: Sequence[Event], *, by: str, caused_by: str = "", key: str = ""
    ) -> Incident:
        """Append after what was loaded, one by one, each linked to the one before.

        Raises Conflict when another writer was first, ContractError when not legal (nothing is written then), Unavailable when
        NATS is away. A repeat after a lost answer finds its own event and counts as written.
        """
        probe = incident
        for event in events:
            next_state(probe, event)
            probe = apply(probe, Stored(probe.last_sequence + 1, self._envelope(probe, event, by, caused_by, key)))
        for event in events:
            incident = await self._append_one(incident, self._envelope(incident, event, by, caused_by, key))
        return incident

    async def ids(self) -> list[str]:
        """Ids of all incidents on the log, oldest first. Those that were archived meanwhile load as empty."""
        async with self._listing:
            async for stored in self._after(self._listed, subject_of("*", "opened")):
                self._listed = stored.sequence
                self._ids.append(stored.envelope.incident_id)
            return list(self._ids)

    async def room_left(self) -> bool:
        """False from 80 % of the stream's limit on: nothing new opens, so that running incidents can end."""
        info = await self._bus.patiently(lambda: self._bus.js.stream_info(INCIDENTS))
        limit = info.config.max_bytes or 0
        return limit <= 0 or info.state.bytes < 0.8 * limit

    async def follow(self, after_sequence: int, incident_id: str = "") -> AsyncIterator[Stored]:
        """Every event after a sequence, then what comes; ends only when the caller stops or NATS is away for the whole budget."""
        subject = subject_of(incident_id or "*")
        while True:
            async for stored in self._after(after_sequence, subject):
                after_sequence = stored.sequence
                yield stored
            await self._clock.sleep(0.2)

    async def _append_one(self, incident: Incident, envelope: Envelope) -> Incident:
        headers = {
            "Nats-Msg-Id": envelope.event_id,
            "Nats-Expected-Last-Subject-Sequence": str(incident.last_sequence),
            "Nats-Expected-Last-Subject-Sequence-Subject": subject_of(incident.id),
            **carrier(),
        }

        async def attempt() -> int:
            try:
                return await self._bus.publish(envelope.subject, envelope.encode(), headers)
            except APIError as error:
                if error.err_code not in WRONG_LAST_SEQUENCE:
                    raise
                return 0
            except TRANSIENT:
                if await self._ours(incident, envelope):
                    return 0
                raise

        await self._crash("before_append")
        try:
            sequence = await self._bus.patiently(attempt)
        except APIError as error:
            if error.err_code == STREAM_FULL:
                raise Unavailable("nats", "the incidents' log is full", tip="raise stream_bytes or archive") from error
            raise Unavailable("nats", str(error)) from error
        await self._crash("after_append")
        if sequence:
            return self._remember(apply(incident, Stored(sequence, envelope, headers)))
        written = await self._ours(incident, envelope)
        if written:
            return self._remember(written)
        raise Conflict(f"incident {incident.id} moved on while {envelope.event} was decided")

    async def _ours(self, incident: Incident, envelope: Envelope) -> Incident | None:
        """After a refusal or an unknown outcome: is the event after ours-to-follow our own?"""
        async for stored in self._after(incident.last_sequence, subject_of(incident.id)):
            return apply(incident, stored) if stored.envelope.event_id == envelope.event_id else None
        return None

    def _envelope(self, incident: Incident, event: Event, by: str, caused_by: str, key: str) -> Envelope:
        name = "/".join((incident.id, caused_by, by, key, event.name, str(incident.last_sequence)))
        planned = incident.attempts + (1 if event.name == "planned" else 0)
        return Envelope(
            event_id=str(uuid.uuid5(_SPACE, name)), incident_id=incident.id, event=event.name, version=event.version,
            at=self._clock.now(), by=by, caused_by=caused_by, attempt=planned, previous_hash=incident.last_hash, data=event,
        ).sealed()

    async def _after(self, sequence: int, subject: str) -> AsyncIterator[Stored]:
        while True:
            wanted = sequence + 1
            try:
                raw = await self._bus.patiently(
                    lambda: self._bus.js.get_msg(INCIDENTS, seq=wanted, subject=subject, direct=True, next=True)  # noqa: B023
                )
            except NotFoundError:
                return
            sequence = raw.seq or 0
            yield Stored(sequence, decode(raw.data or b""), {k.lower(): v for k, v in (raw.headers or {}).items()})

    def _remember(self, incident: Incident) -> Incident:
        if incident.log:
            known = self._cache.get(incident.id)
            if known is None or known.last_sequence <= incident.last_sequence:
                self._cache[incident.id] = incident
            self._cache.move_to_end(incident.id)
            while len(self._cache) > CACHED:
                self._cache.popitem(last=False)
        return incident
