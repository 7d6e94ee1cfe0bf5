"""Things that tests of this room are given: scenarios from folders, and fakes of everything outside."""

import csv
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import yaml

from autopatch.chassis.chassis import Asker, Targets
from autopatch.chassis.clock import Clock
from autopatch.chassis.prometheus import Failed, Nothing, Result, Series, Value
from autopatch.chassis.room import Heard
from autopatch.contract import events as ev
from autopatch.contract.envelope import Envelope
from autopatch.contract.errors import Unavailable
from autopatch.contract.evidence import ConfigState, Similar, TargetState
from autopatch.contract.lifecycle import Incident, Stored, apply
from autopatch.contract.model import Word
from autopatch.contract.requests import Found, Inspect, Lesson, LogLines, Logs, Recall, Recalled, Request, RunbookPlan, Search
from autopatch.contract.target import Target

SCENARIOS = sorted(p.parent for p in Path(__file__).parent.glob("scenarios/*/scenario.yaml"))
T0 = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
QUERIES = {
    "latency": 'histogram_quantile(0.95, sum by (le) (rate(app_request_seconds_bucket{job="app"}[1m])))',
    "errors": 'sum(rate(app_requests_total{job="app",status=~"5.."}[1m])) / sum(rate(app_requests_total{job="app"}[1m]))',
    "traffic": 'sum(rate(app_requests_total{job="app"}[1m]))',
}
R = TypeVar("R", bound=Word)


def after(seconds: float) -> datetime:
    """That long after the first sample."""
    return T0 + timedelta(seconds=seconds)


@dataclass
class Scenario:
    """One folder: metrics.csv, red.log, calm.log, and scenario.yaml with what is known and what is expected."""

    folder: Path
    columns: dict[str, list[float]] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.known: dict[str, Any] = yaml.safe_load((self.folder / "scenario.yaml").read_text())
        with (self.folder / "metrics.csv").open() as file:
            rows = list(csv.DictReader(file))
        self.seconds = [float(row["second"]) for row in rows]
        self.columns = {name: [float(row[name]) for row in rows] for name in rows[0] if name != "second"}

    def lines(self, name: str) -> tuple[str, ...]:
        """Of red.log or calm.log."""
        path = self.folder / name
        return tuple(path.read_text().splitlines()) if path.exists() else ()

    @property
    def now(self) -> datetime:
        """When the diagnosis begins."""
        return after(self.seconds[-1])

    @property
    def target(self) -> Target:
        """The target that broke."""
        check = self.known["check"]
        signals: dict[str, Any] = {n: {"query": q, "role": "guard"} for n, q in QUERIES.items()}
        signals["traffic"] |= {"role": "traffic", "bad": "below"}
        signals[check] |= {"role": "check", "threshold": 0.05 if check == "errors" else 0.2, "alerts": ["Broken"]}
        process = {"kind": "process", "command": ["app"], "pidfile": "app.pid"}
        source = self.known.get("source", "")
        sourced = {"kind": "docker", "container": "app", "image": "app", "releases": ["1", "2"], "source": source}
        return Target.model_validate({
            "name": "app", "match": {"service": "app"}, "signals": signals, "health": "http://127.0.0.1:9/healthz",
            "runtime": sourced if source else process,
            "prometheus": {"url": "http://127.0.0.1:9"},
        })

    @property
    def state(self) -> TargetState:
        """What the executor would see."""
        told = self.known["state"]
        return TargetState(
            target="app", at=self.now, running=True, release=told["release"], releases=tuple(told["releases"]),
            released_at=after(told["released"]),
            configs=(ConfigState(file="main", digest="d", values={"pool": 10}, modified=after(told["config"])),),
        )

    @property
    def opened(self) -> ev.Opened:
        """The alert."""
        alert = ev.Alert(
            identity="a", alertname="Broken", starts_at=after(self.known["fired"]), annotations={"summary": "app is broken"},
            labels={"alertname": "Broken", "service": "app"},
        )
        return ev.Opened(target="app", title="app is broken", alert=alert)

    def heard(self, opened: ev.Opened | None = None) -> Heard:
        """The incident when its check was reproduced."""
        incident = Incident("i1")
        for event in (opened or self.opened, ev.Reproduced(signal=self.known["check"], checks=())):
            envelope = Envelope(
                event_id=str(uuid.uuid4()), incident_id="i1", event=event.name, version=1, at=self.now, by="test", data=event,
                previous_hash=incident.last_hash,
            ).sealed()
            incident = apply(incident, Stored(incident.last_sequence + 1, envelope))
        return Heard(incident, incident.log[-1])


@dataclass
class Recorded:
    """A Prometheus that holds the columns of a scenario."""

    scenario: Scenario
    refused: tuple[str, ...] = ()
    away: bool = False

    async def query(self, expr: str, at: datetime | None = None) -> Result:
        if self.away:
            raise Unavailable("prometheus", "away")
        assert expr == 'count by (__name__) ({job="app"})'
        if "discovery" in self.refused:
            return Failed(reason="too many series")
        names = [n for n in self.scenario.columns if n not in QUERIES]
        series = tuple(Series(labels={"__name__": n}, times=(1.0,), values=(1.0,)) for n in names)
        return Value(series=series) if series else Nothing()

    async def query_range(self, expr: str, start: datetime, end: datetime, step_s: float) -> Result:
        if self.away:
            raise Unavailable("prometheus", "away")
        name = next((n for n, q in QUERIES.items() if q == expr), "")
        inner = re.fullmatch(r"sum\((?:rate\()?(\w+)\{job=\"app\"\}(?:\[60s\]\))?\)", expr)
        name = name or (inner.group(1) if inner else "")
        if name in self.refused:
            return Failed(reason="parse error")
        if name not in self.scenario.columns:
            return Nothing()
        points = [
            (T0.timestamp() + s, v) for s, v in zip(self.scenario.seconds, self.scenario.columns[name], strict=True)
            if start <= after(s) <= end
        ]
        return Value(series=(Series(labels={}, times=tuple(t for t, _ in points), values=tuple(v for _, v in points)),))

    def of(self, _: Target) -> "Recorded":
        return self

    async def aclose(self) -> None:
        return None


@dataclass
class Answers:
    """The other rooms."""

    scenario: Scenario
    lessons: dict[str, Lesson] = field(default_factory=dict)
    similar: tuple[Similar, ...] = ()
    away: frozenset[type[Request]] = frozenset()
    asked: list[Request] = field(default_factory=list)

    async def ask(self, request: Request, reply: type[R]) -> R:
        self.asked.append(request)
        if type(request) in self.away:
            raise Unavailable(request.subject.split(".")[0], "nobody answers")
        answer = self._answer(request)
        assert isinstance(answer, reply)
        return answer

    def _answer(self, request: Request) -> Word:
        match request:
            case Inspect():
                return self.scenario.state
            case Search():
                return Found(items=self.similar)
            case Recall(cause=cause, signature=signature):
                lesson = self.lessons.get(signature)
                name = self.scenario.known.get("runbooks", {}).get(cause)
                books = (RunbookPlan(name=name, title=name, causes=(cause,), alerts=("Broken",), actions=()),) if name else ()
                return Recalled(lessons=(lesson,) if lesson else (), runbooks=books)
            case Logs(end=end):
                if self.scenario.known["logs"] == "failed":
                    raise Unavailable("executor", "the log cannot be read")
                return LogLines(lines=self.scenario.lines("red.log" if end == self.scenario.now else "calm.log"))
            case _:
                raise AssertionError(request)


@dataclass
class Commits:
    """A repository's history."""

    all: tuple[tuple[datetime, str], ...] = ()

    async def commits(self, repository: str, since: datetime, limit: int) -> Sequence[tuple[datetime, str]]:
        return [c for c in self.all if c[0] >= since][:limit]


@dataclass
class Probe:
    """A health endpoint."""

    well: bool = True

    async def probe(self, url: str) -> tuple[bool, str]:
        return self.well, "HTTP 200" if self.well else "HTTP 503"

    async def aclose(self) -> None:
        return None


@dataclass
class Still:
    """A clock that stands."""

    at: datetime

    def now(self) -> datetime:
        return self.at

    async def sleep(self, seconds: float) -> None:
        return None


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


class Desk:
    """A chassis in memory."""

    name = "diagnosis"
    log: Any = None
    timers: Any = None
    records: Any = None
    control: Any = None
    blobs: Any = None

    def __init__(self, scenario: Scenario, answers: Answers) -> None:
        self.folder = OneTarget(scenario.target)
        self.asker: Asker = answers
        self.targets: Targets = self.folder
        self.clock: Clock = Still(scenario.now)
