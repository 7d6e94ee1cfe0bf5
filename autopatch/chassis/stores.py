"""What lives on NATS beside the log: timers, target records, the pause, unmatched alerts, live cancellation, large objects."""

import json
from collections import OrderedDict
from datetime import UTC, datetime
from typing import Any

from nats.js.errors import APIError, KeyDeletedError, KeyNotFoundError, KeyWrongLastSequenceError, NotFoundError
from nats.js.kv import KeyValue
from nats.js.object_store import ObjectStore

from autopatch.chassis.bus import TRANSIENT, Bus
from autopatch.chassis.chassis import TargetRecord
from autopatch.chassis.crash import Crash, no_crash
from autopatch.contract import catalogue as cat
from autopatch.contract.errors import Conflict, Unavailable
from autopatch.contract.events import Alert
from autopatch.contract.evidence import BlobRef
from autopatch.contract.model import digest


class BusTimers:
    """JetStream scheduled messages: they survive restarts of everybody."""

    def __init__(self, bus: Bus, room: str) -> None:
        self._bus = bus
        self._room = room

    async def set(self, incident_id: str, purpose: str, at: datetime) -> None:
        """Calls the room's timer handler of that purpose at `at`; setting it again replaces it. Raises Unavailable."""
        subject, fires_on = cat.timer_subjects(self._room, incident_id, purpose)
        body = json.dumps({"incident_id": incident_id, "purpose": purpose}).encode()
        headers = {
            "Nats-Schedule": f"@at {at.astimezone(UTC).isoformat(timespec='seconds').replace('+00:00', 'Z')}",
            "Nats-Schedule-Target": fires_on,
        }
        await self._bus.patiently(lambda: self._bus.publish(subject, body, headers))


class Bucket:
    """One key-value bucket, bound on first use. Missing keys are None; NATS being away is Unavailable."""

    def __init__(self, bus: Bus, name: str) -> None:
        self._bus = bus
        self._name = name
        self._bound: KeyValue | None = None

    async def kv(self) -> KeyValue:
        """The bucket itself."""
        if self._bound is None:
            self._bound = await self._bus.patiently(lambda: self._bus.js.key_value(self._name))
        return self._bound

    async def get(self, key: str) -> tuple[bytes | None, int]:
        """Value and revision; (None, revision) when it was deleted, (None, 0) when it never was."""
        kv = await self.kv()
        try:
            entry = await self._bus.patiently(lambda: kv.get(key))
        except KeyDeletedError as error:
            return None, (error.entry.revision or 0) if error.entry else 0
        except KeyNotFoundError:
            return None, 0
        return entry.value or b"", entry.revision or 0

    async def put(self, key: str, value: bytes, revision: int) -> int:
        """Compare-and-set. Raises Conflict; an unknown outcome is looked up."""
        kv = await self.kv()

        async def attempt() -> int:
            try:
                return await kv.update(key, value, last=revision)
            except KeyWrongLastSequenceError:
                return 0
            except TRANSIENT as error:
                if isinstance(error, APIError):
                    raise
                found, at = await self.get(key)
                if found == value and at > revision:
                    return at
                raise

        written = await self._bus.patiently(attempt)
        if not written:
            found, at = await self.get(key)
            if found == value and at > revision:
                return at
            raise Conflict(f"{self._name}/{key} was written by somebody else")
        return written


class BusRecords:
    """One record per target, by compare-and-set."""

    def __init__(self, bus: Bus, crash: Crash = no_crash) -> None:
        self._bucket = Bucket(bus, cat.TARGETS_BUCKET)
        self._crash = crash

    async def get(self, target: str) -> tuple[TargetRecord, int]:
        """The record and its revision."""
        value, revision = await self._bucket.get(target)
        return (TargetRecord.model_validate_json(value) if value else TargetRecord()), revision

    async def put(self, target: str, record: TargetRecord, revision: int) -> int:
        """Returns the new revision. Raises Conflict, Unavailable."""
        await self._crash("before_put")
        written = await self._bucket.put(target, record.model_dump_json().encode(), revision)
        await self._crash("after_put")
        return written


class BusControl:
    """The kill switch: one key that everybody reads before acting."""

    KEY = "paused"

    def __init__(self, bus: Bus) -> None:
        self._bucket = Bucket(bus, cat.CONTROL_BUCKET)

    async def paused(self) -> str:
        """Why everything is paused; '' when it is not. Raises Unavailable."""
        value, _ = await self._bucket.get(self.KEY)
        return value.decode() if value else ""

    async def pause(self, reason: str) -> None:
        """Engage or, with an empty reason, release."""
        while True:
            _, revision = await self._bucket.get(self.KEY)
            try:
                await self._bucket.put(self.KEY, reason.encode(), revision)
                return
            except Conflict:
                continue


class BusUnmatched:
    """Alerts that no target, or more than one, claims: kept for a week and shown."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def add(self, alert: Alert, reason: str) -> None:
        """Recorded once per alert, start and reason. Raises Unavailable."""
        body = json.dumps({"reason": reason, "alert": alert.model_dump(mode="json")}).encode()
        key = digest(f"{alert.identity}/{alert.starts_at.isoformat()}/{alert.status}/{reason}".encode())[:32]
        await self._bus.patiently(lambda: self._bus.publish(cat.UNMATCHED_SUBJECT, body, {"Nats-Msg-Id": key}))

    async def newest(self, limit: int = 100) -> list[dict[str, Any]]:
        """Oldest first. Raises Unavailable."""
        info = await self._bus.patiently(lambda: self._bus.js.stream_info(cat.UNMATCHED))
        sequence, found = max(info.state.first_seq, info.state.last_seq - limit + 1), list[dict[str, Any]]()
        while True:
            try:
                raw = await self._bus.patiently(
                    lambda: self._bus.js.get_msg(  # noqa: B023
                        cat.UNMATCHED, seq=max(sequence, 1), subject=cat.UNMATCHED_SUBJECT, direct=True, next=True  # noqa: B023
                    )
                )
            except NotFoundError:
                return found
            found.append(json.loads(raw.data or b"{}"))
            sequence = (raw.seq or 0) + 1


class BusLive:
    """Told at once to whoever works on an incident; a word that is lost is found by the next heartbeat."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def cancelled(self, incident_id: str) -> None:
        """Best effort."""
        try:
            await self._bus.client.publish(cat.live_subject(incident_id), b"")
            await self._bus.flush(timeout_s=1)
        except TRANSIENT:
            return


class Blobs:
    """Claim checks: the object store holds it, the event names it. Reads are cached by digest."""

    def __init__(self, bus: Bus, cached: int = 64) -> None:
        self._bus = bus
        self._cached = cached
        self._cache: OrderedDict[str, bytes] = OrderedDict()
        self._store: ObjectStore | None = None

    async def put(self, data: bytes) -> BlobRef:
        """Stored under its digest, so that storing it again is free. Raises Unavailable."""
        name, store = digest(data), await self._bound()

        async def attempt() -> None:
            try:
                await store.get_info(name)
            except NotFoundError:
                await store.put(name, data)

        if name not in self._cache:
            await self._bus.patiently(attempt)
            self._keep(name, data)
        return BlobRef(name=name, size=len(data), digest=name)

    async def get(self, ref: BlobRef) -> bytes:
        """Raises Unavailable, also when it is gone, or when what comes back is not what was stored."""
        if ref.digest in self._cache:
            return self._cache[ref.digest]
        store = await self._bound()
        try:
            found = await self._bus.patiently(lambda: store.get(ref.name))
        except NotFoundError as error:
            raise Unavailable("nats", f"object {ref.name[:12]} is not in the object store") from error
        data = found.data or b""
        if digest(data) != ref.digest:
            raise Unavailable("nats", f"object {ref.name[:12]} does not match its digest")
        self._keep(ref.digest, data)
        return data

    async def _bound(self) -> ObjectStore:
        if self._store is None:
            self._store = await self._bus.patiently(lambda: self._bus.js.object_store(cat.BLOBS_BUCKET))
        return self._store

    def _keep(self, name: str, data: bytes) -> None:
        self._cache[name] = data
        while len(self._cache) > self._cached:
            self._cache.popitem(last=False)
