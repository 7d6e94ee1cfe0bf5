"""The room's own PromQL watches: for signals without an alert rule. State is in memory, alerts go the common way."""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, assert_never

import structlog

from autopatch.chassis.chassis import Targets
from autopatch.chassis.prometheus import Failed, Nothing, Value
from autopatch.contract.errors import AutoPatchError, OperatorError
from services.monitor.adapters.sources import edge
from services.monitor.ingest import Ingest
from services.monitor.ports import Metrics, MetricsOf, MonitorChassis
from services.monitor.settings import Watch

log = structlog.get_logger("monitor")


@dataclass
class _Watched:
    watch: Watch
    metrics: Metrics
    since: datetime | None = None
    problem: str = ""


class Watches:
    """Polls each watch; a failed query changes nothing."""

    def __init__(
        self, chassis: MonitorChassis, ingest: Ingest, watches: tuple[Watch, ...], metrics_of: MetricsOf, every_s: float
    ) -> None:
        self._chassis = chassis
        self._ingest = ingest
        self._every_s = every_s
        self._watched = [_watched(i, watch, chassis.targets, metrics_of) for i, watch in enumerate(watches)]

    async def run(self) -> None:
        """Until cancelled; ends at once without watches."""
        while self._watched:
            await self.once()
            await self._chassis.clock.sleep(self._every_s)

    async def once(self) -> None:
        """One look at each."""
        await asyncio.gather(*(self._look(watched) for watched in self._watched))

    async def aclose(self) -> None:
        """Close connections."""
        for watched in self._watched:
            await watched.metrics.aclose()

    async def _look(self, watched: _Watched) -> None:
        try:
            result = await watched.metrics.query(watched.watch.expr)
            match result:
                case Value():
                    await self._true(watched)
                case Nothing():
                    await self._false(watched)
                case Failed(reason=reason):
                    raise OperatorError(reason)
                case _:
                    assert_never(result)
            watched.problem = ""
        except AutoPatchError as error:
            if str(error) != watched.problem:
                log.warning("watch cannot be measured", watch=watched.watch.name, error=str(error))
            watched.problem = str(error)

    async def _true(self, watched: _Watched) -> None:
        now = self._chassis.clock.now()
        watched.since = watched.since or now
        if now - watched.since >= timedelta(seconds=watched.watch.for_s):
            await self._tell(watched.watch, watched.since, None, "firing", now)

    async def _false(self, watched: _Watched) -> None:
        now = self._chassis.clock.now()
        await self._tell(watched.watch, watched.since or now, now, "resolved", now)
        watched.since = None

    async def _tell(
        self, watch: Watch, start: datetime, end: datetime | None, status: Literal["firing", "resolved"], now: datetime
    ) -> None:
        labels = {**watch.labels, "alertname": watch.name}
        annotations = {"summary": watch.name, "expression": watch.expr}
        told = edge.told(labels, annotations, start, end, status=status, source="watch", now=now)
        await self._ingest.take((told,), {})


def _watched(index: int, watch: Watch, targets: Targets, metrics_of: MetricsOf) -> _Watched:
    claimed = targets.claimed_by(watch.labels)
    if len(claimed) != 1:
        raise OperatorError(
            f"monitor.watches.{index} ({watch.name}): its labels belong to {len(claimed)} targets",
            tip="give it the labels that the target's `match` names (AUTOPATCH_MONITOR_WATCHES)",
        )
    return _Watched(watch, metrics_of(claimed[0]))
