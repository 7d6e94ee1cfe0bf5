"""Keeps a local model quiet while a soak is measured, by leases that every process on this machine sees."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime

from autopatch.chassis.clock import Clock
from autopatch.chassis.llm import cores as llm


class FreeCores:
    """No model computes on this machine, so nothing has to be kept quiet."""

    async def begin_measuring(self, incident_id: str) -> datetime | None:
        """At once."""
        return None

    async def end_measuring(self, incident_id: str) -> None:
        """Nothing to give back."""

    def measured(self) -> Sequence[str]:
        """None is ever kept."""
        return ()


@dataclass
class _Held:
    lease: llm.Lease
    since: datetime
    stack: AsyncExitStack


class LeasedCores:
    """One lease per incident. A lease that was lost, or held by a process that died, is taken anew: the soak begins again."""

    def __init__(self, cores: Callable[[], Awaitable[llm.Cores]], clock: Clock) -> None:
        self._cores = cores
        self._clock = clock
        self._held: dict[str, _Held] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def begin_measuring(self, incident_id: str) -> datetime | None:
        """Returns once no model computes, and since when. Raises Unavailable."""
        async with self._locks[incident_id]:
            held = self._held.get(incident_id)
            if held and held.lease.kept:
                return held.since
            await self._drop(incident_id)
            cores = await self._cores()
            async with AsyncExitStack() as entering:
                lease = await entering.enter_async_context(cores.measuring(incident_id))
                held = self._held[incident_id] = _Held(lease, self._clock.now(), entering.pop_all())
            return held.since

    async def end_measuring(self, incident_id: str) -> None:
        """The model may compute again."""
        async with self._locks[incident_id]:
            await self._drop(incident_id)
        self._locks.pop(incident_id, None)

    def measured(self) -> Sequence[str]:
        """Incidents that this process holds a lease for."""
        return tuple(self._held)

    async def _drop(self, incident_id: str) -> None:
        held = self._held.pop(incident_id, None)
        if held:
            await held.stack.aclose()
