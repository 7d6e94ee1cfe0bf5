"""Things that tests of this room are given: a target, incidents, a chassis in memory, a scripted Prometheus."""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from autopatch.chassis.chassis import Log, Targets, Timers
from autopatch.chassis.clock import Clock
from autopatch.chassis.prometheus import AlertRule, Nothing, Result, Series, Value
from autopatch.chassis.room import Heard
from autopatch.contract import events as ev
from autopatch.contract.actions import SetConfig
from autopatch.contract.envelope import Envelope
from autopatch.contract.errors import Conflict, Unavailable
from autopatch.contract.evidence import Measurement, ModelUse
from autopatch.contract.lifecycle import Incident, Stored, apply
from autopatch.contract.model import Word
from autopatch.contract.plan import Basis, Plan, Precondition, Step, SuccessCheck
from autopatch.contract.target import Target

T0 = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
P95 = "p95"
RATE = "rate"
ERRORS = "errors"
RULE = AlertRule(name="SlowAnswers", query="p95 > 0.2", duration=15, labels={"severity": "page"})
SOAK = SuccessCheck(signal="latency", settle_s=10, soak_s=60)


def after(seconds: float) -> datetime:
    """That long after the start of all tests."""
    return T0 + timedelta(seconds=seconds)


def target(**changes: Any) -> Target:
    """A target with one check, one guard and traffic."""
    parts: dict[str, Any] = {
        "name": "shop", "match": {"service": "shop"},
        "runtime": {"kind": "process", "command": ["true"], "pidfile": "shop.pid"},
        "signals": {
            "latency": {"query": P95, "unit": "s", "role": "check", "threshold": 0.2, "alerts": ["SlowAnswers"]},
            "errors": {"query": ERRORS, "role": "guard"},
            "requests": {"query": RATE, "unit": "1/s", "role": "traffic", "bad": "below"},
        },
        "prometheus": {"url": "http://127.0.0.1:9"},
        "soak": {"settle_s": 10, "soak_s": 60, "step_s": 5},
    }
    return Target.model_validate(parts | changes)


ALERT = ev.Alert(
    identity="a1", alertname="SlowAnswers", starts_at=T0,
    labels={"alertname": "SlowAnswers", "service": "shop", "severity": "page"},
)
PLAN = Plan(
    target="shop", summary="a larger pool", cause="pool_exhausted",
    steps=(Step(action=SetConfig(file="main", key="pool", value=20), precondition=Precondition(config_digest="d")),),
    success=SOAK, basis=Basis(kind="runbook", ref="pool", why="it says so"),
)
SEEN = (
    Measurement(signal="latency", query=P95, start=T0, end=T0, status="value", last=0.5, mean=0.5, red_share=1.0),
)
OPENED = ev.Opened(target="shop", title="slow", alert=ALERT)


def up_to_applied(
    applying_s: float = 100, applied_s: float = 101, checks: tuple[Measurement, ...] = SEEN
) -> list[tuple[float, ev.Event]]:
    """What leads to a soak, with the second at which each event came."""
    return [
        (1, OPENED), (2, ev.Reproduced(signal="latency", checks=checks)), (3, _diagnosed()),
        (4, ev.Planned(plan=PLAN, plan_hash=PLAN.hash, model=ModelUse(mode="off"))),
        (90, _rehearsed()),
        (applying_s, ev.Applying(plan_hash=PLAN.hash, undo=(), rung="auto", rule="r", rehearsed=True)),
        (applied_s, ev.Applied(plan_hash=PLAN.hash, results=(), at=after(applied_s))),
    ]


def up_to_rehearsed() -> list[tuple[float, ev.Event]]:
    """What leads to the last recheck."""
    return up_to_applied()[:5]


def incident(events: Sequence[tuple[float, ev.Event]]) -> Incident:
    """The incident that these events make."""
    made = Incident("i1")
    for second, event in events:
        made = apply(made, stored(made, event, after(second)))
    return made


def stored(before: Incident, event: ev.Event, at: datetime, by: str = "test", caused_by: str = "") -> Stored:
    """The next event of an incident."""
    envelope = Envelope(
        event_id=str(uuid.uuid4()), incident_id=before.id, event=event.name, version=1, at=at, by=by, caused_by=caused_by,
        previous_hash=before.last_hash, data=event,
    ).sealed()
    return Stored(before.last_sequence + 1, envelope)


def heard(of: Incident) -> Heard:
    """What a handler gets."""
    return Heard(of, next(s for s in of.log if s.envelope.event_id == of.moved_by))


def _diagnosed() -> ev.Diagnosed:
    from autopatch.contract.evidence import Cause, TargetState

    return ev.Diagnosed(
        causes=(Cause(id="pool_exhausted", summary="s", confidence=0.9, cites=()),), evidence=(), signature="s",
        state=TargetState(target="shop", at=T0, running=True), model=ModelUse(mode="off"),
    )


def _rehearsed() -> ev.Rehearsed:
    from autopatch.contract.evidence import Rehearsal

    return ev.Rehearsed(plan_hash=PLAN.hash, rehearsal=Rehearsal(passed=True))


@dataclass
class Hands:
    """A clock that is set by hand."""

    at: datetime = T0

    def now(self) -> datetime:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


@dataclass
class MemoryLog:
    """One incident, by compare-and-set. `meanwhile` happens right before the next append."""

    incident: Incident
    meanwhile: list[ev.Event] = field(default_factory=list)

    async def load(self, incident_id: str) -> Incident:
        return self.incident if incident_id == self.incident.id else Incident(incident_id)

    async def append(
        self, seen: Incident, events: Sequence[ev.Event], *, by: str, caused_by: str = "", key: str = ""
    ) -> Incident:
        while self.meanwhile:
            self.incident = apply(self.incident, stored(self.incident, self.meanwhile.pop(0), T0))
        if seen.last_sequence != self.incident.last_sequence:
            raise Conflict("somebody was first")
        for event in events:
            self.incident = apply(self.incident, stored(self.incident, event, T0, by, caused_by))
        return self.incident

    async def ids(self) -> list[str]:
        return [self.incident.id]


@dataclass
class MemoryTimers:
    """The newest time per purpose."""

    due: dict[str, datetime] = field(default_factory=dict)

    async def set(self, incident_id: str, purpose: str, at: datetime) -> None:
        self.due[purpose] = at


@dataclass
class OneTarget:
    """A folder with one target file, or none."""

    only: Target | None

    def get(self, name: str) -> Target | None:
        return self.only if self.only and self.only.name == name else None

    def all(self) -> Sequence[Target]:
        return [self.only] if self.only else []

    def claimed_by(self, labels: dict[str, str]) -> Sequence[Target]:
        return [t for t in self.all() if t.claims(labels)]


@dataclass
class Desk:
    """A chassis in memory."""

    memory: MemoryLog
    folder: OneTarget
    hands: Hands = field(default_factory=Hands)
    set_to: MemoryTimers = field(default_factory=MemoryTimers)
    name: str = "validator"
    asker: Any = None
    records: Any = None
    control: Any = None
    blobs: Any = None

    def __post_init__(self) -> None:
        self.log: Log = self.memory
        self.targets: Targets = self.folder
        self.clock: Clock = self.hands
        self.timers: Timers = self.set_to


Curve = Callable[[float], float | None]
"""Seconds since T0 to a value; None where there is no sample."""


@dataclass
class Scripted:
    """A Prometheus whose queries are curves."""

    curves: dict[str, Curve | Result]
    known: tuple[AlertRule, ...] = ()
    away: bool = False
    asked: list[str] = field(default_factory=list)

    async def query(self, expr: str, at: datetime | None = None) -> Result:
        assert at is not None
        return self._at(expr, [at.timestamp()])

    async def query_range(self, expr: str, start: datetime, end: datetime, step_s: float) -> Result:
        count = int((end - start).total_seconds() / step_s + 1e-6) + 1
        return self._at(expr, [start.timestamp() + i * step_s for i in range(count)])

    async def rules(self) -> tuple[AlertRule, ...]:
        if self.away:
            raise Unavailable("prometheus", "away")
        return self.known

    def _at(self, expr: str, times: Sequence[float]) -> Result:
        if self.away:
            raise Unavailable("prometheus", "away")
        self.asked.append(expr)
        curve = self.curves.get(expr, Nothing())
        if not callable(curve):
            return curve
        points = [(t, v) for t in times if (v := curve(t - T0.timestamp())) is not None]
        if not points:
            return Nothing()
        return Value(series=(Series(labels={}, times=tuple(t for t, _ in points), values=tuple(v for _, v in points)),))

    def of(self, _: Target) -> "Scripted":
        return self

    async def aclose(self) -> None:
        return None


@dataclass
class Probe:
    """A health endpoint that answers as told."""

    well: bool = True

    async def probe(self, url: str) -> tuple[bool, str]:
        return self.well, "HTTP 200" if self.well else "HTTP 503"

    async def aclose(self) -> None:
        return None


@dataclass
class Quiet:
    """Cores that became quiet at `since`."""

    since: datetime | None = None
    began: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)

    async def begin_measuring(self, incident_id: str) -> datetime | None:
        self.began.append(incident_id)
        return self.since

    async def end_measuring(self, incident_id: str) -> None:
        self.ended.append(incident_id)

    def measured(self) -> Sequence[str]:
        return [i for i in self.began if i not in self.ended]


def cured(at: float, red: float = 1.5, green: float = 0.08) -> Curve:
    """Red until `at`, green from then on, with a little ripple."""
    return lambda t: (red if t < at else green) * (1 + 0.01 * ((int(t) * 7) % 5))


def steady(value: float) -> Curve:
    """The same with a ripple of a percent."""
    return lambda t: value * (1 + 0.01 * ((int(t) * 7) % 3))


def same(word: Word) -> str:
    """For comparing words."""
    return word.model_dump_json()
