"""How an incident goes, event by event: a pool that is too small."""

from datetime import timedelta

from autopatch.chassis.telemetry import scope, span
from autopatch.contract import events as ev
from autopatch.contract.actions import Reload, SetConfig
from autopatch.contract.evidence import (
    Cause,
    Comparison,
    Evidence,
    Measurement,
    ModelUse,
    Rehearsal,
    RehearsalRun,
    TargetState,
)
from autopatch.contract.plan import Alternative, Basis, Plan, Precondition, Step, StepResult, SuccessCheck, UndoRecord
from autopatch.contract.target import ProcessRuntime, PrometheusSource, Signal, Target
from services.gateway.tests.fakes import BEGIN, FakeChassis

ID = "payments-1a2b3c-1"
DIFF = '--- config.json\n+++ config.json\n@@ -3 +3 @@\n-    "pool_size": 10,\n+    "pool_size": 20,\n'
OFF = ModelUse(mode="off", note="a runbook answers it")


def target(approvers: tuple[str, ...] = ()) -> Target:
    return Target(
        name="payments", match={"service": "payments"}, runtime=ProcessRuntime(kind="process", command=("x",), pidfile="p"),
        signals={"p95": Signal(query="p95", unit="s", role="check", threshold=0.2)},
        prometheus=PrometheusSource(url="http://p.test"), approvers=approvers,
    )


def plan(size: int = 20, basis: Basis | None = None) -> Plan:
    return Plan(
        target="payments", summary=f"raise the pool to {size}", cause="pool_exhausted",
        steps=(
            Step(
                action=SetConfig(file="main", key="database.pool_size", value=size),
                precondition=Precondition(config_digest="d" * 64),
                undo=SetConfig(file="main", key="database.pool_size", value=10),
            ),
            Step(action=Reload(), precondition=Precondition(instance="42")),
        ),
        success=SuccessCheck(signal="p95", settle_s=10, soak_s=60),
        basis=basis or Basis(kind="runbook", ref="pool-exhaustion", why="it answers the cause"),
        rejected=(Alternative(summary="restart", why_not="the pool would fill again"),),
    )


def measured(mean: float, signal: str = "p95") -> Measurement:
    return Measurement(
        signal=signal, query=signal, unit="s", start=BEGIN, end=BEGIN + timedelta(seconds=60), status="value", mean=mean,
        blocks=(mean,),
    )


COMPARED = (
    Comparison(
        signal="p95", role="check", before=measured(0.86), after=measured(0.12), p_value=0.01, effect=-0.86, verdict="better",
    ),
    Comparison(
        signal="errors", role="guard", before=measured(0.0, "errors"),
        after=Measurement(signal="errors", query="e", start=BEGIN, end=BEGIN, status="nothing"), verdict="unknown", why="no data",
    ),
)


def opened() -> ev.Opened:
    alert = ev.Alert(
        identity="1a2b3c", alertname="PaymentsSlow", labels={"service": "payments", "severity": "page"}, starts_at=BEGIN,
    )
    return ev.Opened(target="payments", title="PaymentsSlow", alert=alert)


def diagnosed() -> ev.Diagnosed:
    return ev.Diagnosed(
        causes=(Cause(id="pool_exhausted", summary="the connection pool is full", confidence=0.91, cites=("m1",)),),
        evidence=(Evidence(id="m1", source="metric", summary="pool in use is at its bound", before=3, after=10),),
        missing=("log: no lines",), state=TargetState(target="payments", at=BEGIN, running=True),
        signature="payments/p95/pool_exhausted", model=OFF,
    )


def rehearsed(made: Plan) -> ev.Rehearsed:
    runs = (
        RehearsalRun(label="unchanged", outcome="red", exit_code=1, seconds=8.0),
        RehearsalRun(label="changed", outcome="green", exit_code=0, seconds=7.5),
    )
    return ev.Rehearsed(plan_hash=made.hash, rehearsal=Rehearsal(runs=runs, passed=True, diff=DIFF))


def requested(made: Plan, *, needed: int = 1, approvers: tuple[str, ...] = ()) -> ev.ApprovalRequested:
    return ev.ApprovalRequested(
        plan_hash=made.hash, why="the target's rung is approve", needed=needed, approvers=approvers,
        expires_at=BEGIN + timedelta(seconds=900),
    )


def awaiting(
    chassis: FakeChassis, incident_id: str = ID, *, made: Plan | None = None, needed: int = 1, approvers: tuple[str, ...] = ()
) -> Plan:
    """An incident that waits for a person, a second after each other, in one trace."""
    made = made or plan()
    steps: tuple[tuple[str, ev.Event], ...] = (
        ("monitor", opened()),
        ("validator", ev.Reproduced(signal="p95", checks=(measured(0.86),))),
        ("diagnosis", diagnosed()),
        ("planner", ev.Planned(plan=made, plan_hash=made.hash, model=OFF)),
        ("executor", rehearsed(made)),
        ("executor", requested(made, needed=needed, approvers=approvers)),
    )
    with scope(chassis.tracer, incident_id), span("monitor opened"):
        for room, event in steps:
            chassis.log.say(incident_id, event, by=room)
            chassis.clock.pass_s(1)
    return made


def resolve(chassis: FakeChassis, made: Plan, incident_id: str = ID) -> None:
    """From approved to the lesson."""
    undo = (UndoRecord(step=0, kind="splice", file="main", offset=30, old="10", new="20"),)
    steps: tuple[tuple[str, ev.Event], ...] = (
        ("executor", ev.Applying(
            plan_hash=made.hash, undo=undo, rung="approve", rule="config-within-bounds", rehearsed=True, approved_by=("ann",)
        )),
        ("executor", ev.Applied(
            plan_hash=made.hash, results=(StepResult(step=0, done=True, detail="pool_size is 20"),), diff=DIFF, at=BEGIN
        )),
        ("validator", ev.Recovered(comparisons=COMPARED)),
        ("knowledge", ev.LessonRecorded(lesson_id="L1", signature="s", outcome="recovered", trust=0.5)),
    )
    for room, event in steps:
        chassis.clock.pass_s(1)
        chassis.log.say(incident_id, event, by=room)
