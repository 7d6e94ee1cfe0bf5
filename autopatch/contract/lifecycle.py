"""The state machine of an incident: a table, and a pure fold of its events over it. What the table does not hold is refused."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

from autopatch.contract import events as ev
from autopatch.contract.envelope import Envelope, Unknown
from autopatch.contract.errors import ContractError
from autopatch.contract.evidence import ModelUse


class State(StrEnum):
    """Where an incident is."""

    NONE = "none"
    OPEN = "open"
    REPRODUCED = "reproduced"
    DIAGNOSED = "diagnosed"
    PLANNED = "planned"
    REHEARSED = "rehearsed"
    AWAITING = "awaiting"
    APPROVED = "approved"
    APPLYING = "applying"
    APPLIED = "applied"
    UNDO_DUE = "undo_due"
    ROLLING_BACK = "rolling_back"
    CLOSED = "closed"
    OBSERVED = "observed"
    PROPOSED = "proposed"
    RESOLVED = "resolved"
    ESCALATED = "escalated"
    CANCELLED = "cancelled"


TERMINAL = frozenset({State.CLOSED, State.OBSERVED, State.PROPOSED, State.RESOLVED, State.ESCALATED, State.CANCELLED})
OPEN_STATES = frozenset(State) - TERMINAL - {State.NONE}
UNTOUCHED = frozenset({
    State.OPEN, State.REPRODUCED, State.DIAGNOSED, State.PLANNED, State.REHEARSED, State.AWAITING, State.APPROVED,
})
"""Open, and nothing was done to the target by the current attempt."""

E = TypeVar("E", bound=ev.Event)

S = State
TABLE: dict[tuple[State, type[ev.Event]], State] = {
    (S.NONE, ev.Opened): S.OPEN,
    (S.OPEN, ev.Reproduced): S.REPRODUCED,
    (S.OPEN, ev.NotReproduced): S.CLOSED,
    (S.REPRODUCED, ev.Diagnosed): S.DIAGNOSED,
    (S.REPRODUCED, ev.Undiagnosed): S.ESCALATED,
    (S.DIAGNOSED, ev.Planned): S.PLANNED,
    (S.DIAGNOSED, ev.Observed): S.OBSERVED,
    (S.PLANNED, ev.Rehearsed): S.REHEARSED,
    (S.PLANNED, ev.RehearsalFailed): S.DIAGNOSED,
    (S.REHEARSED, ev.Applying): S.APPLYING,
    (S.REHEARSED, ev.ApprovalRequested): S.AWAITING,
    (S.REHEARSED, ev.Proposed): S.PROPOSED,
    (S.REHEARSED, ev.Refused): S.ESCALATED,
    (S.REHEARSED, ev.NotReproduced): S.CLOSED,
    (S.AWAITING, ev.Approved): S.APPROVED,
    (S.AWAITING, ev.Rejected): S.ESCALATED,
    (S.AWAITING, ev.Expired): S.ESCALATED,
    (S.APPROVED, ev.Applying): S.APPLYING,
    (S.APPROVED, ev.Refused): S.ESCALATED,
    (S.APPROVED, ev.NotReproduced): S.CLOSED,
    (S.APPLYING, ev.Applied): S.APPLIED,
    (S.APPLYING, ev.ApplyFailed): S.UNDO_DUE,
    (S.APPLIED, ev.Recovered): S.RESOLVED,
    (S.APPLIED, ev.NotRecovered): S.UNDO_DUE,
    (S.APPLIED, ev.Inconclusive): S.APPLIED,
    (S.UNDO_DUE, ev.RollingBack): S.ROLLING_BACK,
    (S.ROLLING_BACK, ev.RolledBack): S.DIAGNOSED,
    (S.ROLLING_BACK, ev.RollbackFailed): S.ESCALATED,
    (S.REHEARSED, ev.Stale): S.DIAGNOSED,
    (S.AWAITING, ev.Stale): S.DIAGNOSED,
    (S.APPROVED, ev.Stale): S.DIAGNOSED,
    (S.APPLYING, ev.Stale): S.DIAGNOSED,
    **{(state, ev.Cleared): S.CLOSED for state in UNTOUCHED},
    **{(state, ev.Cancelled): S.CANCELLED for state in UNTOUCHED},
    (S.APPLYING, ev.Cancelled): S.APPLYING,
    (S.APPLIED, ev.Cancelled): S.UNDO_DUE,
    (S.UNDO_DUE, ev.Cancelled): S.UNDO_DUE,
    (S.ROLLING_BACK, ev.Cancelled): S.ROLLING_BACK,
    **{(state, ev.Escalated): S.ESCALATED for state in OPEN_STATES},
    **{(state, ev.Reopened): S.OPEN for state in TERMINAL - {State.RESOLVED, State.CLOSED}},
}

NOTES: tuple[type[ev.Event], ...] = (ev.AlertUpdated, ev.Cleared, ev.Waiting, ev.LessonRecorded, Unknown)
"""Legal in every state but NONE; where the table says nothing of them they change none."""

AFTER_CANCEL: dict[tuple[State, type[ev.Event]], State] = {
    (S.APPLYING, ev.Applied): S.UNDO_DUE,
    (S.APPLYING, ev.Stale): S.CANCELLED,
    (S.ROLLING_BACK, ev.RolledBack): S.CANCELLED,
}
"""Where a cancelled incident goes instead: the step ends, it is undone, and nothing new begins."""


@dataclass(frozen=True)
class Stored:
    """An envelope where the log holds it. `sequence` is the stream's; `headers` carry the trace context."""

    sequence: int
    envelope: Envelope
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Incident:
    """A fold of one incident's events. `attempts` are plans made since it was (re)opened, stale ones not counted."""

    id: str
    state: State = State.NONE
    log: tuple[Stored, ...] = ()
    moved_by: str = ""
    attempts: int = 0
    cancel_requested: bool = False

    @property
    def last_sequence(self) -> int:
        """What the next append must expect; 0 for a new incident."""
        return self.log[-1].sequence if self.log else 0

    @property
    def last_hash(self) -> str:
        """What the next event chains to."""
        return self.log[-1].envelope.hash if self.log else ""

    @property
    def terminal(self) -> bool:
        """Nothing happens any more unless a person reopens it."""
        return self.state in TERMINAL

    def last(self, kind: type[E]) -> E | None:
        """The newest event of a kind."""
        found = self.last_stored(kind)
        return found.envelope.data if found and isinstance(found.envelope.data, kind) else None

    def last_stored(self, kind: type[ev.Event]) -> Stored | None:
        """The newest event of a kind with its envelope."""
        return next((s for s in reversed(self.log) if isinstance(s.envelope.data, kind)), None)

    @property
    def opened(self) -> ev.Opened:
        """The first event. Raises ContractError for an incident that is not there."""
        first = self.log[0].envelope.data if self.log else None
        if not isinstance(first, ev.Opened):
            raise ContractError(f"incident {self.id} does not begin with opened")
        return first

    @property
    def target(self) -> str:
        """Name of the target."""
        return self.opened.target

    @property
    def silenced(self) -> bool:
        """By the last word of the alert's sender."""
        update = self.last(ev.AlertUpdated)
        alert = update.alert if update else self.opened.alert
        return bool(alert and alert.silenced)

    @property
    def model_uses(self) -> tuple[ModelUse, ...]:
        """What was asked of models, event by event."""
        found = (getattr(stored.envelope.data, "model", None) for stored in self.log)
        return tuple(use for use in found if isinstance(use, ModelUse))

    def since(self, kind: type[ev.Event]) -> tuple[Stored, ...]:
        """The newest event of a kind and everything after it; empty when there is none."""
        for index in range(len(self.log) - 1, -1, -1):
            if isinstance(self.log[index].envelope.data, kind):
                return self.log[index:]
        return ()


def next_state(incident: Incident, event: ev.Event) -> State:
    """Raises ContractError when the event is not legal now."""
    key = (incident.state, type(event))
    if isinstance(event, ev.Approved | ev.Rejected) and incident.state is S.AWAITING:
        return _decided(incident, event)
    if incident.cancel_requested and key in AFTER_CANCEL:
        return AFTER_CANCEL[key]
    if key in TABLE:
        return TABLE[key]
    if isinstance(event, NOTES) and incident.state is not State.NONE:
        return incident.state
    raise ContractError(f"{event.name} is not legal while incident {incident.id} is {incident.state}")


def _decided(incident: Incident, event: ev.Approved | ev.Rejected) -> State:
    asked = incident.since(ev.ApprovalRequested)
    request = asked[0].envelope.data
    assert isinstance(request, ev.ApprovalRequested)
    if event.plan_hash != request.plan_hash:
        raise ContractError(f"the decision is about plan {event.plan_hash[:12]}, asked was about {request.plan_hash[:12]}")
    if isinstance(event, ev.Rejected):
        return S.ESCALATED
    people = {s.envelope.data.person for s in asked if isinstance(s.envelope.data, ev.Approved)}
    if event.person in people:
        raise ContractError(f"{event.person} has approved this plan already")
    return S.APPROVED if len(people) + 1 >= request.needed else S.AWAITING


def apply(incident: Incident, stored: Stored) -> Incident:
    """One event later. Raises ContractError when it is not legal."""
    event = stored.envelope.data
    state = next_state(incident, event)
    note = isinstance(event, NOTES) and state is incident.state
    attempts = incident.attempts
    match event:
        case ev.Planned():
            attempts += 1
        case ev.Stale():
            attempts = max(0, attempts - 1)
        case ev.Reopened():
            attempts = 0
        case _:
            pass
    cancelled = isinstance(event, ev.Cancelled) or (incident.cancel_requested and not isinstance(event, ev.Reopened))
    return replace(
        incident, state=state, log=(*incident.log, stored), attempts=attempts, cancel_requested=cancelled,
        moved_by=incident.moved_by if note else stored.envelope.event_id,
    )


def fold(incident_id: str, events: Iterable[Stored]) -> Incident:
    """The incident that these events make."""
    incident = Incident(incident_id)
    for stored in events:
        incident = apply(incident, stored)
    return incident


def is_current(incident: Incident, event_id: str) -> bool:
    """Is this event still the one that a handler should act on: did nothing move the incident since?

    A cancellation that waits for the current step stays current until the incident ends.
    """
    if incident.moved_by == event_id:
        return True
    cancelled = incident.last_stored(ev.Cancelled)
    return bool(
        cancelled and cancelled.envelope.event_id == event_id and incident.cancel_requested and not incident.terminal
    )


def chain_faults(incident: Incident) -> list[str]:
    """Where the hash chain is broken: edited, removed, inserted or reordered events. A cut tail needs an outside anchor."""
    faults, previous = [], ""
    for stored in incident.log:
        envelope = stored.envelope
        if envelope.previous_hash != previous:
            faults.append(f"{envelope.event} at {stored.sequence} does not follow its predecessor")
        if envelope.computed_hash() != envelope.hash:
            faults.append(f"{envelope.event} at {stored.sequence} was changed")
        previous = envelope.hash
    return faults


def waiting_since(incident: Incident, room: str, on: str) -> datetime | None:
    """When a room began to wait for this, None when it does not: its newest note names something else, or work went on."""
    for stored in reversed(incident.log):
        event = stored.envelope.data
        if isinstance(event, ev.Waiting) and event.room == room:
            return stored.envelope.at if event.on == on else None
        if not isinstance(event, NOTES):
            return None
    return None
