"""Doubles beside the tests: an embedder without a model, a clock that stands, incidents made by their events."""

import hashlib
import math
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from autopatch.chassis.room import Heard
from autopatch.contract import events as ev
from autopatch.contract.actions import Action, Reload, SetConfig
from autopatch.contract.envelope import Envelope
from autopatch.contract.evidence import Cause, Evidence, ModelUse, Rehearsal, RehearsalRun, TargetState
from autopatch.contract.lifecycle import Incident, Stored, fold
from autopatch.contract.plan import Basis, Plan, Precondition, Step, SuccessCheck

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
SIGNATURE = "payments/p95/pool_exhausted"
OFF = ModelUse(mode="off")
POOL = (SetConfig(file="main", key="database.pool_size", value=20), Reload())


class Clock:
    """Stands until it is moved."""

    def __init__(self, now: datetime = START) -> None:
        self.time = now

    def now(self) -> datetime:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


class Hashing:
    """Words hashed into 384 numbers: texts that share words are near."""

    name = "hashing"
    size = 384

    def __init__(self, *, name: str = "hashing", ready: bool = True) -> None:
        self.name = name
        self.ready = ready

    async def embed(self, texts: Sequence[str]) -> list[Sequence[float]]:
        self.ready = True
        return [self._one(text) for text in texts]

    async def close(self) -> None:
        pass

    def _one(self, text: str) -> list[float]:
        vector = [0.0] * self.size
        for word in re.findall(r"[a-z0-9]+", text.lower()):
            vector[int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big") % self.size] += 1.0
        length = math.sqrt(sum(x * x for x in vector)) or 1.0
        return [x / length for x in vector]


def plan(
    actions: Iterable[Action] = POOL, *, target: str = "payments", cause: str = "pool_exhausted", digest: str = "d1"
) -> Plan:
    return Plan(
        target=target,
        summary="set database.pool_size to 20; reload",
        cause=cause,
        steps=tuple(Step(action=a, precondition=Precondition(config_digest=digest, release="1")) for a in actions),
        success=SuccessCheck(signal="p95", settle_s=60, soak_s=300),
        basis=Basis(kind="runbook", ref="pool", why="it names the cause"),
    )


def opened(target: str = "payments") -> ev.Opened:
    alert = ev.Alert(
        identity="a1",
        alertname="PaymentLatencyHigh",
        labels={"service": target},
        starts_at=START,
        annotations={"summary": "p95 is over 200 ms"},
    )
    return ev.Opened(target=target, title="PaymentLatencyHigh", alert=alert)


def diagnosed(target: str = "payments", signature: str = SIGNATURE, cause: str = "pool_exhausted") -> ev.Diagnosed:
    return ev.Diagnosed(
        causes=(Cause(id=cause, summary="no connection in the pool is free", confidence=0.9, cites=("m1",)),),
        evidence=(Evidence(id="m1", source="metric", summary="pool in use 10 of 10"),),
        state=TargetState(target=target, at=START, running=True),
        signature=signature,
        model=OFF,
    )


def rehearsal(changed: str | None) -> Rehearsal:
    runs = [RehearsalRun(label="unchanged", outcome="red" if changed else "green", exit_code=1, seconds=9)]
    if changed:
        runs.append(RehearsalRun.model_validate({"label": "changed", "outcome": changed, "exit_code": 1, "seconds": 9}))
    return Rehearsal(runs=tuple(runs), passed=False, reason="p95 still 900 ms")


def until_applied(made: Plan | None = None, **named: str) -> list[ev.Event]:
    """A lifecycle up to applied."""
    made = made or plan(target=named.get("target", "payments"))
    return [
        opened(made.target),
        ev.Reproduced(signal="p95", checks=()),
        diagnosed(made.target, **named),
        ev.Planned(plan=made, plan_hash=made.hash, model=OFF),
        ev.Rehearsed(plan_hash=made.hash, rehearsal=Rehearsal(passed=True)),
        ev.Applying(plan_hash=made.hash, undo=(), rung="auto", rule="r", rehearsed=True),
        ev.Applied(plan_hash=made.hash, results=(), at=START),
    ]


def incident(events: Iterable[ev.Event], *, name: str = "i1", at: datetime = START) -> Incident:
    stored = []
    for number, event in enumerate(events, 1):
        envelope = Envelope(
            event_id=f"{name}-{number}",
            incident_id=name,
            event=event.name,
            version=1,
            at=at + timedelta(seconds=number),
            by="test",
            data=event,
        )
        stored.append(Stored(number, envelope))
    return fold(name, stored)


def heard(events: Iterable[ev.Event], *, name: str = "i1", at: datetime = START, which: int = -1) -> Heard:
    """The incident of these events, and its last one (or the one at `which`)."""
    made = incident(events, name=name, at=at)
    return Heard(made, made.log[which])
