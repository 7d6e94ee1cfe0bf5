"""Who may do what, and which event a person's decision becomes. Pure."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

from autopatch.contract import events as ev
from autopatch.contract.catalogue import ROOMS
from autopatch.contract.errors import AutoPatchError, ContractError, Refused
from autopatch.contract.lifecycle import Incident, State, Stored, next_state
from autopatch.contract.target import Target

Role = Literal["viewer", "operator", "approver", "admin"]
ROLES: tuple[str, ...] = get_args(Role)
"""Each may do what the ones before it may."""

Deed = Literal["read", "hold", "pause", "cancel", "reopen", "decide", "ingest", "repair"]
NEEDS: dict[Deed, Role] = {
    "read": "viewer", "hold": "operator", "pause": "operator", "cancel": "operator", "reopen": "operator",
    "decide": "approver", "ingest": "admin", "repair": "operator",
}


class Forbidden(Refused):
    """This caller may not do this."""


class NotFound(AutoPatchError):
    """There is no such thing."""


@dataclass(frozen=True)
class Caller:
    """Who asks. `person` says that the token belongs to one human being; only such tokens decide."""

    name: str
    role: Role
    person: bool = False

    @property
    def signature(self) -> str:
        """How the log names them."""
        return f"person:{self.name}"


def permit(caller: Caller, deed: Deed) -> None:
    """Raises Forbidden."""
    needed = NEEDS[deed]
    if ROLES.index(caller.role) < ROLES.index(needed):
        raise Forbidden(f"this needs the role {needed}, your token has {caller.role}", tip="ask an admin for another token")


def approve(
    incident: Incident, target: Target | None, caller: Caller, plan_hash: str, comment: str, now: datetime
) -> ev.Approved | None:
    """None when this person said so already. Raises Forbidden, ContractError."""
    asked = _asked(incident, plan_hash)
    request = _request(asked)
    _may_decide(incident, request, caller)
    if target is None:
        raise Forbidden(f"target {incident.target} is not described any more", tip="reject, or bring its target file back")
    _listed(caller, target.approvers)
    if _said(asked, ev.Approved, caller):
        return None
    if now >= request.expires_at:
        raise ContractError("the request for approval has expired", tip="reopen the incident when it has ended")
    _still_asked(incident, asked)
    event = ev.Approved(plan_hash=plan_hash, person=caller.name, comment=comment)
    next_state(incident, event)
    return event


def reject(incident: Incident, caller: Caller, plan_hash: str, reason: str) -> ev.Rejected | None:
    """None when this person said so already. Raises Forbidden, ContractError."""
    asked = _asked(incident, plan_hash)
    _may_decide(incident, _request(asked), caller)
    if _said(asked, ev.Rejected, caller):
        return None
    _still_asked(incident, asked)
    event = ev.Rejected(plan_hash=plan_hash, person=caller.name, reason=reason)
    next_state(incident, event)
    return event


def cancel(incident: Incident, caller: Caller, reason: str) -> ev.Cancelled | None:
    """None when it is cancelled, or about to be, already. Raises ContractError."""
    if incident.state is State.CANCELLED or (incident.cancel_requested and not incident.terminal):
        return None
    if incident.terminal:
        raise ContractError(f"the incident has ended: {incident.state}")
    event = ev.Cancelled(person=caller.name, reason=reason)
    next_state(incident, event)
    return event


def reopen(incident: Incident, caller: Caller, reason: str) -> ev.Reopened | None:
    """None when this person reopened it already and it is still open. Raises ContractError."""
    before = incident.last(ev.Reopened)
    if not incident.terminal and before and before.person == caller.name:
        return None
    if not incident.terminal:
        raise ContractError(f"the incident is open: {incident.state}")
    if incident.state in (State.RESOLVED, State.CLOSED):
        raise ContractError(f"the incident is {incident.state}", tip="if the fault comes back, its alert opens the next one")
    event = ev.Reopened(person=caller.name, reason=reason)
    next_state(incident, event)
    return event


def asked_by(incident: Incident) -> Stored:
    """The event that a decision answers: its trace is continued. The last event when no decision was asked for."""
    return incident.last_stored(ev.ApprovalRequested) or incident.log[-1]


def _asked(incident: Incident, plan_hash: str) -> tuple[Stored, ...]:
    asked = incident.since(ev.ApprovalRequested)
    if not asked:
        raise ContractError(f"no decision is asked for: the incident is {incident.state}")
    if _request(asked).plan_hash != plan_hash:
        raise ContractError("the plan that is asked about is not the one you decided about", tip="look at it again, then decide")
    return asked


def _request(asked: tuple[Stored, ...]) -> ev.ApprovalRequested:
    request = asked[0].envelope.data
    assert isinstance(request, ev.ApprovalRequested)
    return request


def _may_decide(incident: Incident, request: ev.ApprovalRequested, caller: Caller) -> None:
    permit(caller, "decide")
    if not caller.person or caller.name in ROOMS:
        raise Forbidden("a decision needs a person's own token", tip="set `person: true` on it in the tokens file")
    planned = incident.last(ev.Planned)
    if planned and planned.plan.basis.kind == "person" and planned.plan.basis.ref == caller.name:
        raise Forbidden("whoever proposed a plan does not decide about it", tip="ask somebody else")
    _listed(caller, request.approvers)


def _listed(caller: Caller, approvers: tuple[str, ...]) -> None:
    if not approvers or caller.name in approvers:
        return
    rank = ROLES.index(caller.role)
    if not any(name in ROLES and ROLES.index(name) <= rank for name in approvers):
        raise Forbidden("you are not among the approvers of this target", tip="its target file names them under `approvers`")


def _said(asked: tuple[Stored, ...], kind: type[ev.Approved] | type[ev.Rejected], caller: Caller) -> bool:
    said = (s.envelope.data for s in asked if isinstance(s.envelope.data, kind))
    return any(data.person == caller.name for data in said)


def _still_asked(incident: Incident, asked: tuple[Stored, ...]) -> None:
    if incident.state is State.AWAITING:
        return
    for said in (stored.envelope.data for stored in asked):
        if isinstance(said, ev.Approved | ev.Rejected):
            tip = "to stop it, cancel the incident" if isinstance(said, ev.Approved) else "to try again, reopen the incident"
            raise ContractError(f"{said.person} has {said.name} it already", tip=tip)
    raise ContractError(f"no decision is asked for any more: the incident is {incident.state}")
