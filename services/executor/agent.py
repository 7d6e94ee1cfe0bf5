"""What to do about each event: pure decisions over the incident, the target and what the world answered."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import assert_never

from autopatch.contract import events as ev
from autopatch.contract.actions import PatchCode, RollbackRelease, SetConfig, describe
from autopatch.contract.errors import OperatorError
from autopatch.contract.lifecycle import Incident, State
from autopatch.contract.plan import Plan, StepResult, UndoRecord
from autopatch.contract.target import Target
from services.executor.policy import Verdict

_SIGNAL = re.compile(r"\{signal:([^{}]+)\}")
KEPT = timedelta(hours=24)
"""How far back a target's record remembers actions."""


def not_rehearsable(target: Target, plan: Plan) -> str:
    """Why this plan cannot be rehearsed; '' when it can."""
    if patches(plan):
        return ""
    if target.rehearse is None:
        return "the target names no rehearse command"
    if not any(isinstance(step.action, SetConfig | RollbackRelease) for step in plan.steps):
        return f"nothing that a rehearsal could show is changed: {', '.join(describe(step.action) for step in plan.steps)}"
    return ""


def patches(plan: Plan) -> bool:
    """Does it patch code? Then its rehearsal are the repository's tests."""
    return any(isinstance(step.action, PatchCode) for step in plan.steps)


def after_rehearsal(verdict: Verdict, plan: Plan, target: Target, now: datetime) -> ev.Event | None:
    """What the policy's verdict leads to; None means that the gate is next."""
    why = "; ".join(verdict.reasons)
    match verdict.rung:
        case "refuse":
            return ev.Refused(plan_hash=plan.hash, rule=verdict.rule, reason=why)
        case "observe" | "suggest":
            return ev.Proposed(plan_hash=plan.hash, why=why)
        case "approve":
            return ev.ApprovalRequested(
                plan_hash=plan.hash, why=why, approvers=target.approvers, needed=verdict.people,
                expires_at=now + timedelta(seconds=target.approval_ttl_s),
            )
        case "auto":
            return None
        case _:
            assert_never(verdict.rung)


def not_approved(incident: Incident, plan: Plan) -> str:
    """Why the approval does not hold for this plan; '' when it does."""
    asked, given = incident.last(ev.ApprovalRequested), incident.last_stored(ev.Approved)
    if asked is None or given is None:
        return "nobody approved it"
    if asked.plan_hash != plan.hash:
        return f"approved was plan {asked.plan_hash[:12]}, this is {plan.hash[:12]}"
    if given.envelope.at > asked.expires_at:
        return f"approved at {given.envelope.at:%H:%M:%S}, after the request had expired at {asked.expires_at:%H:%M:%S}"
    return ""


def approvers(incident: Incident) -> tuple[str, ...]:
    """Who approved what was asked last."""
    return tuple(s.envelope.data.person for s in incident.since(ev.ApprovalRequested) if isinstance(s.envelope.data, ev.Approved))


def forbidden(verdict: Verdict, people: Sequence[str]) -> str:
    """Why a policy that was changed since does not allow what these people approved; '' when it does."""
    if verdict.rung not in ("approve", "auto"):
        return "; ".join(verdict.reasons)
    return f"by now {verdict.people} people must approve it" if len(people) < verdict.people else ""


def holds(other: Incident) -> bool:
    """Does that incident keep the target it holds? Yes while it acts, and while it may be about to."""
    return other.state in (State.REHEARSED, State.APPROVED, State.APPLYING, State.APPLIED, State.UNDO_DUE, State.ROLLING_BACK)


def stopped(plan: Plan, results: Sequence[StepResult], reason: str, *, untouched: bool = True) -> ev.ApplyFailed | ev.Stale:
    """A step could not be done, or a person cancelled: what was done, or begun, must be undone; else there is nothing to undo."""
    if not untouched or any(result.done for result in results):
        return ev.ApplyFailed(plan_hash=plan.hash, results=tuple(results), reason=reason)
    return ev.Stale(reason=f"{reason}; nothing was changed")


def failed(plan: Plan, results: Sequence[StepResult], step: int, reason: str) -> ev.ApplyFailed:
    """A step was begun and did not end well: it counts as done in part."""
    failure = StepResult(step=step, done=False, detail=reason)
    return ev.ApplyFailed(plan_hash=plan.hash, results=(*results, failure), reason=f"step {step + 1}: {reason}")


def why_not_undone(step: int, record: UndoRecord, reason: str) -> str:
    """With both digests of the file, so that a person can tell whose bytes are there."""
    digests = f" (before {record.digest_before[:12]}, after {record.digest_after[:12]})" if record.digest_after else ""
    return f"step {step + 1}: {reason}{digests}"


def cancelled_by(incident: Incident) -> str:
    """Who cancelled it, as a reason."""
    event = incident.last(ev.Cancelled)
    return f"cancelled by {event.person}" if event else "cancelled"


def undo_order(plan: Plan) -> tuple[int, ...]:
    """What was changed is put back last change first; then reload and restart are done again in their order."""
    changes = [i for i, step in enumerate(plan.steps) if isinstance(step.action, SetConfig | RollbackRelease | PatchCode)]
    return (*reversed(changes), *(i for i in range(len(plan.steps)) if i not in changes))


def remembered(actions: Sequence[datetime], now: datetime) -> tuple[datetime, ...]:
    """Times of actions with this one, as far back as any rule looks."""
    return (*(at for at in actions if now - at < KEPT), now)[-100:]


def under_load(target: Target, incident: Incident) -> Target:
    """The target with {signal:NAME} in its rehearse command replaced by what was measured while red.

    Raises OperatorError for a signal that has no measurement: a rehearsal under another load would prove nothing.
    """
    reproduced = incident.last(ev.Reproduced)
    measured = {m.signal: m.last for m in (reproduced.checks if reproduced else ()) if m.last is not None}
    if target.rehearse is None:
        return target
    command = tuple(_SIGNAL.sub(lambda found: _measured(found.group(1), measured), part) for part in target.rehearse.command)
    return target.model_copy(update={"rehearse": target.rehearse.model_copy(update={"command": command})})


def _measured(name: str, measured: Mapping[str, float]) -> str:
    if name not in measured:
        raise OperatorError(
            f"rehearse.command wants {{signal:{name}}}, which was not measured while red",
            tip="name a check or a traffic signal of the target",
        )
    return f"{measured[name]:.4g}"
