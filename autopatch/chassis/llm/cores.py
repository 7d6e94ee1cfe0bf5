"""Who may use the processor: the local model while it computes, or soaks while they measure, never both.

Each holder writes a lease and then looks for leases of the other kind, so of two that start at once at least one sees the
other. A model that sees a soak takes its lease back and waits; a soak that sees a model keeps its own and waits. A holder
that dies is forgotten when its lease runs out. Leases are for one machine: all holders read the same clock.
"""

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal, Protocol

import nats.errors
from nats.js.kv import KV_DEL, KV_PURGE, KeyValue

from autopatch.contract.errors import Unavailable

Kind = Literal["model", "soak"]
OTHER: dict[Kind, Kind] = {"model": "soak", "soak": "model"}
LEASE_S = 30.0
ANSWER_S = 10.0  # for the store to show us what we wrote


@dataclass
class Lease:
    """What the `async with` gives. A soak that finds `kept` False at its end may have been disturbed, and proves nothing."""

    key: str
    incident: str
    clock: Callable[[], float]
    expires: float = 0.0
    lapsed: bool = False

    @property
    def kept(self) -> bool:
        """Has the lease held without a gap until now?"""
        return not self.lapsed and self.clock() <= self.expires


class Cores(Protocol):
    """The processor that the local model and the measured services share."""

    def computing(self, incident: str) -> AbstractAsyncContextManager[Lease]:
        """For a model call: waits for running soaks. Raises Unavailable without leases, also later, when its own runs out."""
        ...

    def measuring(self, incident: str) -> AbstractAsyncContextManager[Lease]:
        """For a soak: waits for a running model call; soaks may overlap. Raises Unavailable as above."""
        ...


@dataclass(frozen=True)
class Change:
    """One key of the store as of `revision`; `expires` (seconds since 1970) is None when the lease was taken back."""

    key: str
    revision: int
    expires: float | None


class Watch(Protocol):
    """Changes in order: first what is there, then what is new."""

    async def next(self, timeout_s: float) -> Change | None:
        """None when nothing came for so long. Raises Unavailable."""
        ...


class Store(Protocol):
    """Where leases are written. Revisions grow over all keys, and a watch shows a change after every earlier one."""

    async def put(self, key: str, incident: str, expires: float) -> int:
        """Returns the revision. Raises Unavailable."""
        ...

    async def delete(self, key: str) -> None:
        """Take a lease back. Raises Unavailable."""
        ...

    def watch(self) -> AbstractAsyncContextManager[Watch]:
        """Raises Unavailable."""
        ...


@dataclass
class _View:
    """What a watch has shown so far."""

    watch: Watch
    clock: Callable[[], float]
    revision: int = 0
    leases: dict[str, float] = field(default_factory=dict)

    async def reach(self, revision: int) -> None:
        """Until everything up to our own write was shown: only then does a missing lease mean that there is none."""
        deadline = time.monotonic() + ANSWER_S
        while self.revision < revision:
            if not await self._step(deadline - time.monotonic()):
                raise Unavailable("leases", f"the store did not show our own lease within {ANSWER_S:.0f} s")

    def running(self, kind: Kind) -> list[float]:
        """When the unexpired leases of a kind run out."""
        return [at for key, at in self.leases.items() if key.startswith(f"{kind}.") and at > self.clock()]

    async def until_none(self, kind: Kind) -> None:
        """Until the last lease of that kind was taken back or, as far as was shown, ran out."""
        while running := self.running(kind):
            await self._step(max(0.01, min(running) - self.clock()))

    async def _step(self, timeout_s: float) -> bool:
        change = await self.watch.next(max(0.0, timeout_s))
        if change is None:
            return False
        self.revision = max(self.revision, change.revision)
        if change.expires is None:
            self.leases.pop(change.key, None)
        else:
            self.leases[change.key] = change.expires
        return True


class LeasedCores:
    """Cores over a store of leases. `lease_s` is how long a killed holder still blocks the other kind."""

    def __init__(self, store: Store, *, lease_s: float = LEASE_S, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._lease_s = lease_s
        self._clock = clock

    def computing(self, incident: str) -> AbstractAsyncContextManager[Lease]:
        """See Cores."""
        return self._held("model", incident)

    def measuring(self, incident: str) -> AbstractAsyncContextManager[Lease]:
        """See Cores."""
        return self._held("soak", incident)

    @asynccontextmanager
    async def _held(self, kind: Kind, incident: str) -> AsyncIterator[Lease]:
        lease = Lease(f"{kind}.{uuid.uuid4().hex}", incident, self._clock)
        renewing = asyncio.create_task(self._renew(lease)) if kind == "soak" else None
        try:
            await self._acquire(kind, lease)
            lease.lapsed = False
            async with asyncio.timeout(self._lease_s if kind == "model" else None) as limit:
                renewing = renewing or asyncio.create_task(self._renew(lease, limit))
                yield lease
        except TimeoutError as error:
            if lease.kept:
                raise
            raise Unavailable("leases", f"a lease could not be renewed for {self._lease_s:g} s, so soaks may begin") from error
        finally:
            if renewing is not None:
                renewing.cancel()
                await asyncio.wait([renewing])
            with suppress(Unavailable):  # then it runs out by itself
                await self._store.delete(lease.key)

    async def _acquire(self, kind: Kind, lease: Lease) -> None:
        async with self._store.watch() as watch:
            view = _View(watch, self._clock)
            while True:
                await view.reach(await self._write(lease))
                if not view.running(OTHER[kind]):
                    return
                if kind == "model":
                    await self._store.delete(lease.key)
                await view.until_none(OTHER[kind])

    async def _renew(self, lease: Lease, limit: asyncio.Timeout | None = None) -> None:
        while True:
            await asyncio.sleep(self._lease_s / 3)
            with suppress(Unavailable):  # tried twice more before it runs out
                await self._write(lease)
                if limit is not None:
                    limit.reschedule(asyncio.get_running_loop().time() + self._lease_s)

    async def _write(self, lease: Lease) -> int:
        now = self._clock()
        lease.lapsed = lease.lapsed or bool(lease.expires and now > lease.expires)
        revision = await self._store.put(lease.key, lease.incident, now + self._lease_s)
        lease.expires = now + self._lease_s
        return revision


class MemoryStore:
    """Leases of one process: for tests, and for all rooms in one process without a server."""

    def __init__(self) -> None:
        self._leases: dict[str, Change] = {}
        self._watches: list[asyncio.Queue[Change]] = []
        self._revision = 0

    async def put(self, key: str, incident: str, expires: float) -> int:
        """See Store."""
        return self._tell(key, expires)

    async def delete(self, key: str) -> None:
        """See Store."""
        self._tell(key, None)

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[Watch]:
        """See Store."""
        queue: asyncio.Queue[Change] = asyncio.Queue()
        for change in sorted(self._leases.values(), key=lambda c: c.revision):
            queue.put_nowait(change)
        self._watches.append(queue)
        try:
            yield _MemoryWatch(queue)
        finally:
            self._watches.remove(queue)

    def _tell(self, key: str, expires: float | None) -> int:
        self._revision += 1
        change = Change(key, self._revision, expires)
        self._leases.pop(key, None)
        if expires is not None:
            self._leases[key] = change
        for queue in self._watches:
            queue.put_nowait(change)
        return self._revision


@dataclass(frozen=True)
class _MemoryWatch:
    queue: "asyncio.Queue[Change]"

    async def next(self, timeout_s: float) -> Change | None:
        try:
            return await asyncio.wait_for(self.queue.get(), timeout_s)
        except TimeoutError:
            return None


_NATS_ERRORS = (nats.errors.Error, TimeoutError, OSError)


class KvStore:
    """Leases in a NATS key-value bucket, for rooms in several processes: `model.<id>`, `soak.<id>`: {"incident", "expires"}."""

    def __init__(self, bucket: KeyValue) -> None:
        self._bucket = bucket

    async def put(self, key: str, incident: str, expires: float) -> int:
        """See Store."""
        try:
            return await self._bucket.put(key, json.dumps({"incident": incident, "expires": expires}).encode())
        except _NATS_ERRORS as error:
            raise _no_leases(error) from error

    async def delete(self, key: str) -> None:
        """See Store."""
        try:
            await self._bucket.delete(key)
        except _NATS_ERRORS as error:
            raise _no_leases(error) from error

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[Watch]:
        """See Store."""
        try:
            watcher = await self._bucket.watchall()
        except _NATS_ERRORS as error:
            raise _no_leases(error) from error
        try:
            yield _KvWatch(watcher)
        finally:
            with suppress(*_NATS_ERRORS):
                await watcher.stop()  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class _KvWatch:
    watcher: KeyValue.KeyWatcher

    async def next(self, timeout_s: float) -> Change | None:
        try:
            entry = await self.watcher.updates(timeout=timeout_s)  # type: ignore[no-untyped-call]
            if entry is None:  # the end of what was there already
                entry = await self.watcher.updates(timeout=timeout_s)  # type: ignore[no-untyped-call]
        except TimeoutError:
            return None
        except _NATS_ERRORS as error:
            raise _no_leases(error) from error
        if entry.operation in (KV_DEL, KV_PURGE):
            return Change(entry.key, entry.revision, None)
        try:
            return Change(entry.key, entry.revision, float(json.loads(entry.value)["expires"]))
        except (ValueError, TypeError, KeyError) as error:
            raise Unavailable("leases", f"key {entry.key} is not a lease", tip="delete it from the bucket") from error


def _no_leases(error: Exception) -> Unavailable:
    return Unavailable("leases", str(error) or type(error).__name__, tip="is NATS reachable, and is its bucket LEASES there?")
