"""How a repair job ended, from its incident's events alone."""

from collections.abc import Mapping
from typing import assert_never

from autopatch.contract import events as ev
from autopatch.contract.code import Kind, RepairVerdict
from autopatch.contract.errors import ContractError
from autopatch.contract.evidence import ModelUse
from autopatch.contract.lifecycle import Incident, State
from autopatch.contract.plan import Basis

SANDBOX = ("docker", "sandbox", "executor")
TIPS: Mapping[Kind, str] = {
    "not_reproduced": "name a command whose tests fail, or add a test that shows the fault",
    "environment_error": "run that command by itself; name what it lacks in a dependency file, or give an image",
    "flaky": "make those tests steady, or leave them out of the command",
    "format_error": "another model: this one's answers could not be read",
    "no_fix_found": "narrow the fault down by one more test that fails; or ask a larger model",
    "sandbox_unavailable": "see to what it names; `autopatch doctor` looks whether an engine answers",
}
"""What a person may try next."""
ALONE = "let a model try too: `autopatch repair --model local`, or the gateway's AUTOPATCH_LLM_MODE"
"""For `no_fix_found` where no model could be asked."""
UNSEEN = "add a test that fails in the repository's own code: none of those that fail leads there"
"""For `no_fix_found` where no place was suspicious."""


def verdict_of(incident: Incident, trace: str = "") -> RepairVerdict | None:
    """The verdict; None while the incident is open. Raises ContractError for an incident that is no code job."""
    job = incident.opened.job
    if job is None:
        raise ContractError(f"incident {incident.id} is an alert, not a repair job: it has no verdict on code")
    ended = _ended(incident)
    if ended is None:
        return None
    kind, reason = ended
    reproduced, refused, planned = incident.last(ev.Reproduced), incident.last(ev.NotReproduced), incident.last(ev.Planned)
    recovered, missed = incident.last(ev.Recovered), incident.last(ev.NotRecovered)
    before = reproduced.tests if reproduced else refused.tests if refused else None
    after = recovered.tests if recovered else missed.tests if missed else None
    use = ModelUse.summed(incident.model_uses)
    return RepairVerdict(
        verdict=kind, reason=reason, incident=incident.id, repository=job.repository, attempts=incident.attempts, before=before,
        after=after, basis=_basis(planned.plan.basis) if planned and kind == "fixed" else "",
        model=use, seconds=_seconds(incident), trace=trace, tip=_tip(kind, incident, use),
    )


def _tip(kind: Kind, incident: Incident, use: ModelUse | None) -> str:
    """Where a person or the policy said no there is nothing to try: that was the answer."""
    if kind != "no_fix_found":
        return TIPS.get(kind, "")
    if incident.last(ev.Undiagnosed):
        return UNSEEN
    ended = incident.last(ev.Escalated)
    if ended is None or not ended.kind:
        return ""
    return ALONE if use and use.mode == "off" else TIPS[kind]


def _basis(basis: Basis) -> str:
    return f"{basis.kind} {basis.ref}".strip()


def _ended(incident: Incident) -> tuple[Kind, str] | None:
    match incident.state:
        case State.RESOLVED:
            return "fixed", "failing tests pass and no other broke, in a fresh sandbox"
        case State.CLOSED:
            return _closed(incident)
        case State.CANCELLED:
            cancelled = incident.last(ev.Cancelled)
            return "cancelled", _by(cancelled)
        case State.ESCALATED:
            return _escalated(incident)
        case State.OBSERVED | State.PROPOSED:
            return "no_fix_found", f"it ended as {incident.state}: nothing was handed over"
        case (
            State.NONE | State.OPEN | State.REPRODUCED | State.DIAGNOSED | State.PLANNED | State.REHEARSED | State.AWAITING
            | State.APPROVED | State.APPLYING | State.APPLIED | State.UNDO_DUE | State.ROLLING_BACK
        ):
            return None
        case _ as never:
            assert_never(never)


def _closed(incident: Incident) -> tuple[Kind, str]:
    refused = incident.last(ev.NotReproduced)
    if refused is None:
        return "not_reproduced", "it was closed from outside before anything was changed"
    return ("not_reproduced" if refused.kind == "green" else refused.kind), refused.reason


def _escalated(incident: Incident) -> tuple[Kind, str]:
    last = incident.log[-1].envelope.data
    ended = next((s.envelope.data for s in reversed(incident.log) if isinstance(s.envelope.data, ENDINGS)), last)
    reason = str(getattr(ended, "reason", "")) or f"a person is needed: {getattr(ended, 'name', 'the log ends here')}"
    if isinstance(ended, ev.Escalated) and ended.kind:
        return ended.kind, reason
    waited = _waited(incident)
    if waited is not None and waited.on in SANDBOX:
        return "sandbox_unavailable", f"{waited.on}: {waited.reason}"
    return "no_fix_found", reason


ENDINGS = (ev.Escalated, ev.Undiagnosed, ev.Refused, ev.Rejected, ev.Expired, ev.RollbackFailed)
"""Events that end as escalated."""


def _waited(incident: Incident) -> ev.Waiting | None:
    """What was waited for when it ended: a wait after which something else went on is over."""
    for stored in reversed(incident.log):
        event = stored.envelope.data
        if isinstance(event, ev.Waiting):
            return event
        if not isinstance(event, (*ENDINGS, ev.LessonRecorded, ev.AlertUpdated)):
            return None
    return None


def _by(cancelled: ev.Cancelled | None) -> str:
    if cancelled is None:
        return "it was cancelled"
    return f"cancelled by {cancelled.person}" + (f": {cancelled.reason}" if cancelled.reason else "")


def _seconds(incident: Incident) -> float:
    """From the first event to the one that ended it."""
    first = incident.log[0].envelope.at
    last = next((s.envelope.at for s in reversed(incident.log) if s.envelope.event_id == incident.moved_by), first)
    return max(0.0, (last - first).total_seconds())
