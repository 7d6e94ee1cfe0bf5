"""A target, incidents by their events, and rooms that answer what they are told to."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

from autopatch.chassis.chassis import Chassis
from autopatch.chassis.room import Heard
from autopatch.contract import events as ev
from autopatch.contract.actions import Action, Reload, SetConfig
from autopatch.contract.envelope import Envelope
from autopatch.contract.evidence import Cause, ConfigState, Evidence, ModelUse, Rehearsal, RehearsalRun, TargetState
from autopatch.contract.lifecycle import Incident, Stored, fold
from autopatch.contract.plan import Basis, Plan, Precondition, Step, SuccessCheck
from autopatch.contract.requests import Inspect, Lesson, Recall, Recalled, Request, RunbookPlan
from autopatch.contract.target import Target
from services.planner.ports import Failure, Question

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
SIGNATURE = "payments:latency:pool_exhausted"
OFF = ModelUse(mode="off")
POOL = SetConfig(file="main", key="database.pool_size", value=20)


def target(**changed: Any) -> Target:
    """Two files (one needs a restart), two releases."""
    facts: dict[str, Any] = {
        "name": "payments",
        "match": {"service": "payments"},
        "runtime": {"kind": "docker", "container": "c", "image": "i", "releases": ["1", "2"], "reload_url": "http://x/reload"},
        "configs": [
            {
                "name": "main",
                "path": "main.json",
                "format": "json",
                "editable": {
                    "database.pool_size": {"type": "int", "min": 1, "max": 50},
                    "cache": {"type": "bool"},
                    "level": {"type": "str", "choices": ["info", "debug"]},
                    "ratio": {"type": "float", "min": 0, "max": 1},
                    "absent": {"type": "int"},
                },
            },
            {
                "name": "boot",
                "path": "boot.env",
                "format": "env",
                "effective_by": "restart",
                "editable": {"WORKERS": {"type": "int"}},
            },
        ],
        "signals": {"latency": {"query": "q", "unit": "s", "role": "check", "threshold": 0.2, "alerts": ["PaymentsSlow"]}},
        "prometheus": {"url": "http://p"},
        "autonomy": {"default": "auto"},
        "soak": {"settle_s": 30, "soak_s": 20},
    }
    return Target.model_validate({**facts, **changed})


def state(**changed: Any) -> TargetState:
    values: dict[str, Any] = {"database.pool_size": 10, "cache": False, "level": "info", "ratio": 0.5}
    facts: dict[str, Any] = {
        "target": "payments",
        "at": START,
        "running": True,
        "release": "2",
        "releases": ("1", "2"),
        "instance": "c1",
        "configs": (
            ConfigState(file="main", digest="d-main", values=values),
            ConfigState(file="boot", digest="d-boot", values={"WORKERS": 4}),
        ),
    }
    return TargetState.model_validate({**facts, **changed})


def plan(actions: Iterable[Action] = (POOL, Reload()), *, cause: str = "pool_exhausted") -> Plan:
    steps = tuple(Step(action=a, precondition=Precondition(release="2", instance="old")) for a in actions)
    return Plan(
        target="payments",
        summary="set database.pool_size to 20; reload",
        cause=cause,
        steps=steps,
        success=SuccessCheck(signal="latency", settle_s=30, soak_s=20),
        basis=Basis(kind="runbook", ref="pool", why="w"),
    )


def runbook(*actions: Mapping[str, Any], name: str = "pool", cause: str = "pool_exhausted") -> RunbookPlan:
    return RunbookPlan.model_validate({"name": name, "title": name, "causes": (cause,), "actions": actions})


def lesson(made: Plan | None = None, *, id: str = "lesson-1", trust: float = 0.5) -> Lesson:
    return Lesson(
        id=id,
        signature=SIGNATURE,
        target="payments",
        cause="pool_exhausted",
        plan=made or plan(),
        recovered=1,
        failed=0,
        trust=trust,
        last_outcome_at=START,
    )


def diagnosed(*causes: str) -> ev.Diagnosed:
    made = [
        Cause(id=c, summary=f"{c} is why", confidence=0.9 - n / 10, cites=("m1",))
        for n, c in enumerate(causes or ("pool_exhausted",))
    ]
    return ev.Diagnosed(
        causes=tuple(made),
        evidence=(Evidence(id="m1", source="metric", summary="pool in use 10 of 10"),),
        state=state(),
        signature=SIGNATURE,
        model=OFF,
        explanation="The pool is exhausted.",
    )


def until_diagnosed(*causes: str) -> list[ev.Event]:
    alert = ev.Alert(identity="a", alertname="PaymentsSlow", labels={}, starts_at=START)
    return [
        ev.Opened(target="payments", title="PaymentsSlow", alert=alert),
        ev.Reproduced(signal="latency", checks=()),
        diagnosed(*causes),
    ]


def failed_rehearsal(made: Plan | None = None) -> list[ev.Event]:
    """An attempt that stayed red in the sandbox."""
    made = made or plan()
    runs = (
        RehearsalRun(label="unchanged", outcome="red", exit_code=1, seconds=9, figures={"p95_ms": 910.0}),
        RehearsalRun(label="changed", outcome="red", exit_code=1, seconds=9, figures={"p95_ms": 870.0}),
    )
    rehearsal = Rehearsal(runs=runs, passed=False, reason="still red with the change")
    return [ev.Planned(plan=made, plan_hash=made.hash, model=OFF), ev.RehearsalFailed(plan_hash=made.hash, rehearsal=rehearsal)]


def stale_attempt(made: Plan | None = None) -> list[ev.Event]:
    made = made or plan()
    passed = ev.Rehearsed(plan_hash=made.hash, rehearsal=Rehearsal(passed=True))
    return [ev.Planned(plan=made, plan_hash=made.hash, model=OFF), passed, ev.Stale(reason="digest changed")]


def rolled_back_attempt(*between: ev.Event, made: Plan | None = None) -> list[ev.Event]:
    """Applied (unless told otherwise by `between`), and taken back."""
    made = made or plan()
    return [
        ev.Planned(plan=made, plan_hash=made.hash, model=OFF),
        ev.Rehearsed(plan_hash=made.hash, rehearsal=Rehearsal(passed=True)),
        ev.Applying(plan_hash=made.hash, undo=(), rung="auto", rule="r", rehearsed=True),
        *between,
        ev.RollingBack(reason="r"),
        ev.RolledBack(results=()),
    ]


def incident(events: Iterable[ev.Event]) -> Incident:
    stored = []
    for number, event in enumerate(events, 1):
        envelope = Envelope(event_id=f"e{number}", incident_id="i1", event=event.name, version=1, at=START, by="test", data=event)
        stored.append(Stored(number, envelope))
    return fold("i1", stored)


def heard(events: Iterable[ev.Event]) -> Heard:
    made = incident(events)
    return Heard(made, made.log[-1])


def question(*, recalled: Mapping[str, Recalled] | None = None, failures: tuple[Failure, ...] = (), **facts: Any) -> Question:
    return Question(
        incident=incident(until_diagnosed()),
        target=facts.get("target") or target(),
        state=facts.get("state") or state(),
        diagnosed=facts.get("diagnosed") or diagnosed(),
        signal="latency",
        recalled=recalled or {},
        failures=failures,
    )


class Rooms:
    """Knowledge and the executor. An exception in the place of an answer is raised."""

    def __init__(
        self, recalled: Mapping[str, Recalled] | Exception | None = None, seen: TargetState | Exception | None = None
    ) -> None:
        self.recalled = recalled or {}
        self.seen = seen or state()
        self.asked: list[Request] = []

    async def ask(self, request: Request, reply: Any) -> Any:
        self.asked.append(request)
        match request:
            case Recall():
                return _given(self.recalled, lambda known: known.get(request.cause, Recalled()))
            case Inspect():
                return _given(self.seen, lambda seen: seen)
            case _:
                raise AssertionError(request)


def _given(value: Any, read: Callable[[Any], Any]) -> Any:
    if isinstance(value, Exception):
        raise value
    return read(value)


def chassis(rooms: Rooms, known: Target | None = None) -> Chassis:
    made = known or target()
    return cast(
        Chassis, SimpleNamespace(asker=rooms, targets=SimpleNamespace(get=lambda name: made if name == made.name else None))
    )
