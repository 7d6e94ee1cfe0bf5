"""From a told alert to the log: load what is known, decide, write by compare-and-set; decide again when somebody was first."""

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, assert_never

import structlog

from autopatch.chassis.telemetry import scope, span
from autopatch.contract.errors import AutoPatchError, Conflict, ContractError, Unavailable
from autopatch.contract.lifecycle import Incident, State
from autopatch.contract.model import Word
from services.monitor import agent
from services.monitor.agent import Decision, Nothing, Open, Rules, Seen, Tell, Told
from services.monitor.metrics import ALERTS, UNMATCHED
from services.monitor.ports import MonitorChassis

log = structlog.get_logger("monitor")
TRIES = 20
LOOKED_AT = 100
"""Of a target's newest incidents that somebody can reopen, before another one opens."""
REMEMBERED = 10_000


class Taken(Word):
    """What became of alerts."""

    opened: int = 0
    told: int = 0
    nothing: int = 0
    unmatched: int = 0


class Ingest:
    """One path for all sources. Returns only after everything it decided is acknowledged."""

    def __init__(self, chassis: MonitorChassis, rules: Rules, timeout_s: float) -> None:
        self._chassis = chassis
        self._rules = rules
        self._timeout_s = timeout_s
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._failures = 0
        self._over: set[str] = set()
        self._unmatched: OrderedDict[str, None] = OrderedDict()

    async def take(self, alerts: tuple[Told, ...], headers: Mapping[str, str]) -> Taken:
        """One by one. `headers` may carry a trace to join. Raises Unavailable at the first that is not acknowledged in time."""
        counts: dict[str, int] = defaultdict(int)
        for told in alerts:
            claimed = self._chassis.targets.claimed_by(told.labels)
            if told.fault or len(claimed) != 1:
                names = ", ".join(target.name for target in claimed)
                reason = told.fault or (f"claimed by {len(claimed)} targets: {names}" if claimed else "claimed by no target")
                outcome = await self._in_time(self._unclaimed(told, reason))
            else:
                outcome = await self.settle(claimed[0].name, told, headers)
            counts[outcome] += 1
            ALERTS.labels(told.alert.source, outcome).inc()
        return Taken(**counts)

    async def settle(self, target: str, told: Told, headers: Mapping[str, str]) -> str:
        """Record an alert that belongs to a target. Returns what became of it. Raises Unavailable."""
        try:
            return await self._in_turn(target, told, headers)
        except Unavailable:
            raise
        except AutoPatchError as error:
            log.error("alert could not be recorded on an incident", target=target, identity=told.alert.identity, error=str(error))
            return await self._in_time(self._unclaimed(told, f"target {target}: {error}"[:300]))

    async def _in_time(self, work: Coroutine[Any, Any, str]) -> str:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await work
        except TimeoutError as error:
            raise Unavailable("nats", f"no acknowledgement within {self._timeout_s:g} s") from error

    async def _in_turn(self, target: str, told: Told, headers: Mapping[str, str]) -> str:
        """One alert of a target at a time. Who waited while NATS failed another does not try it again."""
        failures = self._failures
        async with self._locks[target]:
            if failures != self._failures:
                raise Unavailable("nats", "it did not acknowledge another alert in time")
            try:
                return await self._in_time(self._settle(target, told, headers))
            except Unavailable:
                self._failures += 1
                raise

    async def _settle(self, target: str, told: Told, headers: Mapping[str, str]) -> str:
        for _ in range(TRIES):
            seen, revision = await self._look(target, told)
            now = self._chassis.clock.now()
            decision = agent.decide(seen, told, now, self._rules)
            if isinstance(decision, Open) and (reopened := await self._reopened(target)):
                decision = agent.decide(replace(seen, current=reopened), told, now, self._rules)
            with suppress(Conflict):
                return await self._act(seen, revision, decision, told, headers)
        raise Unavailable("nats", f"the record of {target} changed {TRIES} times while an alert was recorded")

    async def _look(self, target: str, told: Told) -> tuple[Seen, int]:
        record, revision = await self._chassis.records.get(target)
        current = await self._chassis.log.load(record.open_incident) if record.open_incident else None
        newest = agent.newest_id(record, current, target, told.alert)
        mine = current if current and current.id == newest else await self._chassis.log.load(newest)
        known = told.alert.identity in record.episodes
        return Seen(target, record, mine if known or mine.log else None, current), revision

    async def _reopened(self, target: str) -> Incident | None:
        """An open incident that the record does not name: a person reopened it, and whoever does that writes no record.

        One by one, newest first: what was read by then stays read when the alert's time is up and it is sent again.
        """
        ids = [i for i in await self._chassis.log.ids() if i not in self._over and agent.may_be_of(target, i)]
        for incident_id in reversed(ids[-LOOKED_AT:]):
            incident = await self._readable(incident_id)
            if agent.joinable(incident):
                return incident
            if agent.over(incident):
                self._over.add(incident_id)
        return None

    async def _readable(self, incident_id: str) -> Incident:
        """As if it were not there when it cannot be read: it must not keep others from opening."""
        try:
            return await self._chassis.log.load(incident_id)
        except ContractError as error:
            log.warning("incident cannot be read", incident=incident_id, error=str(error))
            return Incident(incident_id)

    async def _act(self, seen: Seen, revision: int, decision: Decision, told: Told, headers: Mapping[str, str]) -> str:
        match decision:
            case Nothing(why=why):
                log.debug("alert changes nothing", target=seen.target, identity=told.alert.identity, why=why)
                return "nothing"
            case Tell(incident=incident, event=event, record=record):
                if record is not None and record != seen.record:
                    await self._chassis.records.put(seen.target, record, revision)
                joined = {k: v for k, v in incident.log[-1].headers.items() if k in ("traceparent", "tracestate")}
                await self._append(incident, event, told, joined)
                return "told"
            case Open():
                return await self._open(seen, revision, decision, told, headers)
            case _:
                assert_never(decision)

    async def _open(self, seen: Seen, revision: int, decision: Open, told: Told, headers: Mapping[str, str]) -> str:
        if not await self._chassis.log.room_left():
            return await self._unclaimed(told, "the incidents' log is 80 % full: nothing new opens")
        incident = await self._chassis.log.load(decision.incident_id)
        while incident.state is not State.NONE:
            decision = agent.next_generation(decision)
            incident = await self._chassis.log.load(decision.incident_id)
        if decision.record != seen.record:
            await self._chassis.records.put(seen.target, decision.record, revision)
        await self._append(incident, decision.event, told, headers)
        log.info("incident opened", incident=incident.id, target=seen.target, source=told.alert.source)
        return "opened"

    async def _append(self, incident: Incident, event: agent.Event, told: Told, headers: Mapping[str, str]) -> None:
        with (
            scope(self._chassis.tracer, incident.id, headers),
            span(f"monitor {event.name}", source=told.alert.source, alertname=told.alert.alertname, alert=told.alert.identity),
        ):
            await self._chassis.log.append(incident, [event], by="monitor", key=told.alert.identity)

    async def _unclaimed(self, told: Told, reason: str) -> str:
        """Shown to people; a repeat of what was recorded is not recorded again.

        A resolved one needs no attention, unless it is at fault: what it would have ended may be open still.
        """
        key = f"{told.alert.identity}/{told.alert.starts_at}/{told.alert.status}/{reason}"
        if (told.alert.status == "firing" or told.fault) and key not in self._unmatched:
            await self._chassis.unmatched.add(told.alert, reason)
            UNMATCHED.inc()
            log.warning("alert belongs to no single target", alertname=told.alert.alertname, reason=reason)
            self._unmatched[key] = None
            while len(self._unmatched) > REMEMBERED:
                self._unmatched.popitem(last=False)
        return "unmatched"
