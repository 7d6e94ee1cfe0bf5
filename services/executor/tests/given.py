"""A target, plans for it, and incidents in any state, for the tests of this room."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from autopatch.contract import events as ev
from autopatch.contract.actions import Action, Reload, Restart, RollbackRelease, SetConfig
from autopatch.contract.envelope import Envelope
from autopatch.contract.evidence import Cause, ModelUse, Rehearsal, TargetState
from autopatch.contract.lifecycle import Incident, Stored, apply
from autopatch.contract.plan import Basis, Plan, Precondition, Step, SuccessCheck
from autopatch.contract.target import Target

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
MODEL = ModelUse(mode="off")
CONFIG = b"""{
  // the pool
  "database": {
    "password": "hunter2-secret", // never shown
    "pool_size": 10,
    "timeout_ms": 5000
  }
}
"""
RED_ALERT = ev.Alert(identity="a", alertname="Slow", labels={}, starts_at=NOW)


def a_target(folder: Path, **changes: Any) -> Target:
    """A process target with one JSON file in `folder`."""
    fields: dict[str, Any] = {
        "name": "payments",
        "match": {"service": "payments"},
        "prometheus": {"url": "http://p"},
        "runtime": {
            "kind": "process",
            "command": ["serve"],
            "pidfile": str(folder / "pid"),
            "releases": ["r1", "r2"],
            "reload_signal": "SIGHUP",
        },
        "configs": [
            {
                "name": "main",
                "path": str(folder / "config.json"),
                "format": "json",
                "editable": {
                    "database.pool_size": {"type": "int", "min": 1, "max": 50},
                    "database.timeout_ms": {"type": "int", "min": 50, "max": 9000},
                },
            }
        ],
        "signals": {"p95": {"query": "q", "role": "check", "threshold": 0.2}},
        "autonomy": {"default": "auto", "unrehearsed": ["set_config", "reload", "restart", "rollback_release"]},
    }
    return Target.model_validate(fields | changes)


def a_plan(*actions: Action, digest: str = "d", instance: str = "i1", release: str = "r1", **changes: Any) -> Plan:
    """One step per action with the preconditions that its kind needs."""

    def step(action: Action) -> Step:
        if isinstance(action, SetConfig):
            return Step(action=action, precondition=Precondition(config_digest=digest))
        known = Precondition(instance=instance, release=release)
        return Step(action=action, precondition=known)

    fields: dict[str, Any] = {
        "target": "payments",
        "summary": "s",
        "cause": "pool_exhausted",
        "steps": tuple(step(action) for action in actions),
        "success": SuccessCheck(signal="p95", settle_s=0, soak_s=1),
        "basis": Basis(kind="person", ref="p", why="w"),
    }
    return Plan(**(fields | changes))


def pool(size: Any = 20) -> SetConfig:
    """Another size of the pool."""
    return SetConfig(file="main", key="database.pool_size", value=size)


def timeout(ms: int = 900) -> SetConfig:
    """Another key of the same file."""
    return SetConfig(file="main", key="database.timeout_ms", value=ms)


RELOAD, RESTART, RELEASE = Reload(), Restart(), RollbackRelease(release="r2")


def add(incident: Incident, *events: ev.Event, at: datetime = NOW, by: str = "test") -> Incident:
    """The incident some events later."""
    for event in events:
        sequence = incident.last_sequence + 1
        envelope = Envelope(
            event_id=f"{incident.id}-{sequence}",
            incident_id=incident.id,
            event=event.name,
            version=1,
            at=at,
            by=by,
            previous_hash=incident.last_hash,
            data=event,
        )
        incident = apply(incident, Stored(sequence, envelope.sealed()))
    return incident


def planned(plan: Plan, incident_id: str = "one", at: datetime = NOW) -> Incident:
    """Opened, reproduced, diagnosed and planned."""
    return add(
        Incident(incident_id),
        ev.Opened(target="payments", title="t", alert=RED_ALERT),
        ev.Reproduced(signal="p95", checks=()),
        ev.Diagnosed(
            causes=(Cause(id="pool_exhausted", summary="s", confidence=0.9, cites=()),),
            evidence=(),
            state=TargetState(target="payments", at=NOW, running=True),
            signature="x",
            model=MODEL,
        ),
        ev.Planned(plan=plan, plan_hash=plan.hash, model=MODEL),
        at=at,
    )


def rehearsed(plan: Plan, incident_id: str = "one", *, passed: bool = True) -> Incident:
    """Planned and rehearsed."""
    rehearsal = Rehearsal(passed=passed, skipped="" if passed else "no rehearsal", diff="the diff")
    return add(planned(plan, incident_id), ev.Rehearsed(plan_hash=plan.hash, rehearsal=rehearsal))


def hours(count: float) -> timedelta:
    """So many hours."""
    return timedelta(hours=count)
