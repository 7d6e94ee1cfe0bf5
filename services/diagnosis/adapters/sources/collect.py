"""Collects the facts: everything is asked at once, and what fails is said instead of failing the rest."""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeVar

from autopatch.chassis.chassis import Asker
from autopatch.chassis.prometheus import Failed, Nothing, Result, Value
from autopatch.chassis.redaction import redact
from autopatch.chassis.telemetry import span
from autopatch.contract import events as ev
from autopatch.contract.errors import Unavailable
from autopatch.contract.evidence import ReadingStatus, Similar, TargetState
from autopatch.contract.requests import Found, Inspect, LogLines, Logs, Recall, Recalled, RunbookPlan, Search
from autopatch.contract.target import DockerRuntime, Target
from services.diagnosis import agent
from services.diagnosis.adapters.logs import templates
from services.diagnosis.adapters.sources import changes, saturation, selectors, shifts
from services.diagnosis.facts import Facts, Health, Pattern, Raised, Shift, Track
from services.diagnosis.ports import Health as HealthPort
from services.diagnosis.ports import History, Metrics
from services.diagnosis.adapters.logs.raised import raised
from services.diagnosis.settings import Settings
from services.diagnosis.adapters.sources.shifts import Onset

AT_ONCE = 8
LOG_GAP_S = 5.0
"""Between the calm window and the onset: the first lines of a fault come before its numbers."""
COMMITS = 20
T = TypeVar("T")


@dataclass
class Collector:
    """Collects for one incident."""

    settings: Settings
    target: Target
    opened: ev.Opened
    check: str
    metrics: Metrics
    asker: Asker
    history: History
    health: HealthPort
    now: datetime
    rules: Sequence[str] = ()
    silent: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    async def facts(self) -> Facts:
        """All there is to know. Raises Unavailable where nothing can be said without an answer: the target's state, its check."""
        fired_at = min(self.opened.alert.starts_at, self.now) if self.opened.alert else self.now
        start = fired_at - timedelta(seconds=self.settings.lookback_s)
        state, tracks, similar, recalled, health, commits = await asyncio.gather(
            self._state(), self._tracks(start), self._tried("similar", self._similar()), self._tried("lessons", self._recalled()),
            self._tried("health", self._health()), self._tried("git", self._commits(start)),
        )
        check = next((t for t in tracks if t.name == self.check and t.status == "value"), Track(self.check, ""))
        onset = shifts.onset_of(check, self.target.signals[self.check].bad, fired_at, start)
        patterns, ends = await self._told(onset)
        moved, told = [t for t in tracks if t.status == "value"], recalled or {}
        return Facts(
            target=self.target.name, check=self.check, onset=onset.at, state=state,
            shifts=self._shifts(moved, onset, check), saturations=saturation.saturations(moved, onset), patterns=patterns,
            raised=ends, changes=changes.changes_of(state, commits or (), onset.at), similar=tuple(similar or ()), health=health,
            runbooks={c: b for c, r in told.items() if (b := self._book(r))},
            lessons={c: lesson for c, r in told.items() for lesson in r.lessons[:1]},
            silent=self.silent, failed=self.failed,
        )

    def _shifts(self, tracks: Sequence[Track], onset: Onset, check: Track) -> tuple[Shift, ...]:
        found = []
        for track in tracks:
            shift = shifts.shift_of(track, onset, check)
            if shift and (shift.strength or track.role):
                found.append(shift)
            elif shift is None and track.role:
                self.silent[track.name] = "too few samples before or after it began"
        return tuple(found)

    async def _tried(self, name: str, work: Awaitable[T]) -> T | None:
        with span(f"collect {name}") as opened:
            try:
                return await work
            except Unavailable as error:
                self.failed[name] = redact(str(error))
                opened.set_attribute("collect.failed", self.failed[name])
                return None

    async def _state(self) -> TargetState:
        with span("collect state"):
            return await self.asker.ask(Inspect(target=self.target.name), TargetState)

    async def _similar(self) -> tuple[Similar, ...]:
        text = redact(agent.alert_text(self.opened))
        with span("retrieval knowledge", gen_ai_operation_name="retrieval") as opened:
            question = Search(text=text, target=self.target.name, kinds=("incident", "runbook"), limit=5)
            found = await self.asker.ask(question, Found)
            opened.set_attribute("retrieval.found", [item.id for item in found.items])
        return tuple(s.model_copy(update={"title": redact(s.title), "text": redact(s.text[:2000])}) for s in found.items)

    async def _recalled(self) -> dict[str, Recalled]:
        """For every cause that is known: trusted lessons of this check, and runbooks."""
        with span("retrieval lessons", gen_ai_operation_name="retrieval") as opened:
            found = await asyncio.gather(*(self.asker.ask(self._recall(cause), Recalled) for cause in self.rules))
            opened.set_attribute("retrieval.found", [lesson.id for r in found for lesson in r.lessons])
        return dict(zip(self.rules, found, strict=True))

    def _recall(self, cause: str) -> Recall:
        alertname = self.opened.alert.alertname if self.opened.alert else ""
        known_as = agent.signature_of(self.target.name, self.check, cause)
        return Recall(signature=known_as, target=self.target.name, cause=cause, alertname=alertname)

    def _book(self, recalled: Recalled) -> RunbookPlan | None:
        """The runbook that names this very alert."""
        alert = self.opened.alert
        return next((b for b in recalled.runbooks if alert and alert.alertname in b.alerts), None)

    async def _health(self) -> Health | None:
        if not self.target.health:
            return None
        return Health(self.target.health, *await self.health.probe(self.target.health))

    async def _commits(self, start: datetime) -> Sequence[tuple[datetime, str]]:
        if not self.target.repository:
            return ()
        since = start - timedelta(seconds=changes.LONGEST_S)
        found = await self.history.commits(self.target.repository, since, COMMITS)
        return [(at, redact(subject)) for at, subject in found]

    async def _tracks(self, start: datetime) -> list[Track]:
        """Every series that is looked at. Raises Unavailable when Prometheus does not answer for the check."""
        with span("collect metrics") as opened:
            known = [Track(n, s.query, s.unit, s.role) for n, s in self.target.signals.items()]
            known += [Track(n, q) for n, q in self.settings.queries.get(self.target.name, {}).items()]
            turns = asyncio.Semaphore(AT_ONCE)
            wanted = known + await self._discovered([t.query for t in known])
            found = await asyncio.gather(*(self._track(t, start, turns) for t in wanted))
            opened.set_attribute("collect.series", len(found))
            opened.set_attribute("collect.queries", [t.query for t in known])
        return found

    async def _discovered(self, queries: Sequence[str]) -> list[Track]:
        """Series that carry the labels which all the target's own signals share; none when they share none."""
        if not self.settings.discover:
            return []
        labels = selectors.shared_labels([s.query for s in self.target.signals.values()])
        if not labels:
            self.silent["discovery"] = "the target's signals share no label by which its other series could be found"
            return []
        result = await self.metrics.query(selectors.names_query(labels), self.now)
        match result:
            case Failed(reason=reason):
                self.failed["discovery"] = redact(reason)
                return []
            case Nothing():
                self.silent["discovery"] = "no series carries the labels that the target's signals share"
                return []
        rate_s = selectors.rate_window_s(queries)
        names = sorted(s.labels.get("__name__", "") for s in result.series)
        made = [(n, selectors.query_for(n, labels, rate_s)) for n in names]
        usable = [Track(n, q) for n, q in made if q]
        limit = self.settings.discover_limit
        if len(usable) > limit:
            self.silent["discovery"] = f"of {len(usable)} series with the target's labels the first {limit} were looked at"
        return usable[:limit]

    async def _track(self, track: Track, start: datetime, turns: asyncio.Semaphore) -> Track:
        async with turns:
            try:
                found = _filled(track, await self.metrics.query_range(track.query, start, self.now, self._step_s(start)))
            except Unavailable as error:
                if track.name == self.check:
                    raise
                found = _without(track, "failed", str(error))
        if found.status == "nothing" and track.role:
            self.silent[track.name] = found.reason
        elif found.status == "failed":
            self.failed[f"metric {track.name}"] = redact(found.reason)
        return found

    def _step_s(self, start: datetime) -> float:
        """Fine enough for an alert of a few seconds, never finer than the target's own resolution or 1,200 points."""
        length = (self.now - start).total_seconds()
        age = length - self.settings.lookback_s
        return max(self.target.soak.step_s, length / 1200, min(length / self.settings.points, (age + 15) / 20))

    async def _told(self, onset: Onset) -> tuple[tuple[Pattern, ...], tuple[Raised, ...]]:
        """What the log says."""
        calm_end = onset.at - timedelta(seconds=LOG_GAP_S)
        red, calm = await asyncio.gather(
            self._tried("logs", self._lines(calm_end, self.now)),
            self._tried("logs before", self._lines(onset.calm_from, calm_end)),
        )
        if red is None:
            return (), ()
        if not red.lines:
            self.silent["logs"] = "no line since it began"
        red_s, calm_s = (self.now - calm_end).total_seconds(), (calm_end - onset.calm_from).total_seconds()
        if red.truncated or (calm and calm.truncated):
            red_s = calm_s = 60.0  # only the newest lines of each: their numbers are compared as they are
        runtime, before = self.target.runtime, calm.lines if calm else None
        source = runtime.source if isinstance(runtime, DockerRuntime) else ""
        found = await asyncio.to_thread(templates.patterns, red.lines, before or (), red_s, calm_s)
        ends = await asyncio.to_thread(raised, red.lines, before, source, red_s, calm_s)
        return tuple(_clean(p) for p in found), tuple(replace(one, error=redact(one.error)) for one in ends)

    async def _lines(self, start: datetime, end: datetime) -> LogLines:
        if (end - start).total_seconds() < LOG_GAP_S:
            raise Unavailable("window", "too short")
        request = Logs(target=self.target.name, start=start, end=end, limit=self.settings.log_lines)
        return await self.asker.ask(request, LogLines)


def _clean(pattern: Pattern) -> Pattern:
    return replace(pattern, template=redact(pattern.template), sample=redact(pattern.sample))


def _without(track: Track, status: ReadingStatus, reason: str) -> Track:
    return replace(track, status=status, reason=reason)


def _filled(track: Track, result: Result) -> Track:
    match result:
        case Failed(reason=reason):
            return _without(track, "failed", reason)
        case Nothing(reason=reason):
            return _without(track, "nothing", reason)
        case Value(series=(one,)):
            return replace(track, times=one.times, values=one.values)
        case Value(series=many):
            return _without(track, "failed", f"gives {len(many)} series where one number is needed")
