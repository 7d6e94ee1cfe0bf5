"""What people are shown of an incident: a pure projection of its log."""

from datetime import datetime
from typing import TypeVar

from autopatch.chassis.telemetry import trace_id
from autopatch.contract import events as ev
from autopatch.contract.actions import describe
from autopatch.contract.evidence import Cause, Comparison, Evidence, ModelUse, Rehearsal
from autopatch.contract.lifecycle import NOTES, Incident, State, Stored, apply, chain_faults
from autopatch.contract.model import Moment, Word
from autopatch.contract.plan import Plan
from services.gateway import words

E = TypeVar("E", bound=ev.Event)


class Row(Word):
    """One incident in a list. `seconds` from opened to its end, or to now."""

    id: str
    state: State
    open: bool
    target: str
    title: str
    severity: str = ""
    attempts: int
    opened_at: Moment
    updated_at: Moment
    seconds: float
    headline: str


class Page(Word):
    """Newest first. `next` is given back as `before` for the page after; '' on the last one."""

    items: tuple[Row, ...]
    next: str = ""


class Stage(Word):
    """One event. `seconds` since the one before, `elapsed` since opened; a note moved nothing."""

    event: str
    state: State
    note: bool
    by: str
    at: Moment
    seconds: float
    elapsed: float
    text: str
    sequence: int


class StepView(Word):
    """One step of the newest plan, and its way back, in words."""

    action: str
    undo: str


class Decision(Word):
    """What one person said to the newest request for a decision."""

    person: str
    said: str
    text: str
    at: Moment


class Attempt(Word):
    """One earlier or present plan, and what became of it."""

    plan_hash: str
    summary: str
    outcome: str = ""


class View(Row):
    """Everything about one incident but its raw events. An approval binds to `plan_hash`; `diff` is what is, or was, changed."""

    stages: tuple[Stage, ...]
    evidence: tuple[Evidence, ...] = ()
    missing: tuple[str, ...] = ()
    causes: tuple[Cause, ...] = ()
    explanation: str = ""
    plan: Plan | None = None
    plan_hash: str = ""
    risk: str = ""
    steps: tuple[StepView, ...] = ()
    diff: str = ""
    attempt_list: tuple[Attempt, ...] = ()
    rehearsal: Rehearsal | None = None
    approval: ev.ApprovalRequested | None = None
    decisions: tuple[Decision, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    lesson: ev.LessonRecorded | None = None
    waiting: ev.Waiting | None = None
    models: tuple[ModelUse, ...] = ()
    trace_id: str = ""
    trace_url: str = ""
    chain_ok: bool
    chain_faults: tuple[str, ...] = ()


def row(incident: Incident, now: datetime) -> Row:
    """One line of a list. Raises ContractError for an incident that does not begin with `opened`."""
    opened, first, last = incident.opened, incident.log[0].envelope.at, _moved(incident).envelope.at
    seconds = ((last if incident.terminal else now) - first).total_seconds()
    return Row(
        id=incident.id, state=incident.state, open=not incident.terminal, target=opened.target, title=opened.title,
        severity=opened.alert.labels.get("severity", "") if opened.alert else "", attempts=incident.attempts,
        opened_at=first, updated_at=incident.log[-1].envelope.at, seconds=round(seconds, 3), headline=headline(incident, seconds),
    )


def view(incident: Incident, now: datetime, trace_url: str = "") -> View:
    """All of it. `trace_url` has {trace_id} in it, or is empty."""
    diagnosed, planned = incident.last(ev.Diagnosed), incident.last(ev.Planned)
    found = diagnosed or incident.last(ev.Undiagnosed)
    plan, rehearsal, applied = planned.plan if planned else None, _rehearsal(incident), _of_plan(incident, ev.Applied)
    faults, trace = tuple(chain_faults(incident)), trace_id(incident.log[0].headers)
    return View(
        **dict(row(incident, now)), stages=stages(incident),
        evidence=found.evidence if found else (), missing=found.missing if found else (),
        causes=diagnosed.causes if diagnosed else (), explanation=diagnosed.explanation if diagnosed else "",
        plan=plan, plan_hash=planned.plan_hash if planned else "", risk=plan.risk if plan else "", steps=_steps(plan),
        diff=(applied.diff if applied else "") or (rehearsal.diff if rehearsal else ""),
        attempt_list=_attempts(incident), rehearsal=rehearsal, approval=incident.last(ev.ApprovalRequested),
        decisions=_decisions(incident), comparisons=_comparisons(incident), lesson=incident.last(ev.LessonRecorded),
        waiting=_waiting(incident), models=incident.model_uses, trace_id=trace,
        trace_url=trace_url.replace("{trace_id}", trace) if trace else "", chain_ok=not faults, chain_faults=faults,
    )


def stages(incident: Incident) -> tuple[Stage, ...]:
    """Every event in order, with the state it led to."""
    found, at = list[Stage](), Incident(incident.id)
    for stored in incident.log:
        before, at, now = at, apply(at, stored), stored.envelope.at
        start, previous = incident.log[0].envelope.at, before.log[-1].envelope.at if before.log else now
        found.append(Stage(
            event=stored.envelope.event, state=at.state, note=before.moved_by == at.moved_by, by=stored.envelope.by, at=now,
            seconds=round((now - previous).total_seconds(), 3), elapsed=round((now - start).total_seconds(), 3),
            text=words.line(stored.envelope.data), sequence=stored.sequence,
        ))
    return tuple(found)


def headline(incident: Incident, seconds: float) -> str:
    """The one sentence to begin with. `seconds` from opened to the end, or to now."""
    planned, took = incident.last(ev.Planned), words.duration(seconds)
    fix = words.actions(planned.plan) if planned else "no plan yet"
    moved = words.line(_moved(incident).envelope.data)
    match incident.state:
        case State.RESOLVED:
            return f"Resolved in {took}: {fix}; {moved}."
        case State.AWAITING:
            return f"Waits for a person since {took} after it opened: {fix}."
        case State.PROPOSED:
            return f"Proposed after {took}, nothing was changed: {fix}."
        case State.CLOSED | State.OBSERVED | State.CANCELLED | State.ESCALATED:
            return f"{incident.state.value.capitalize()} after {took}: {moved}."
        case _:
            waiting = _waiting(incident)
            state = incident.state.value.replace("_", " ").capitalize()
            return f"{state} for now ({took}): {words.line(waiting) if waiting else moved}."


def _moved(incident: Incident) -> Stored:
    return next((s for s in incident.log if s.envelope.event_id == incident.moved_by), incident.log[-1])


def _waiting(incident: Incident) -> ev.Waiting | None:
    for stored in reversed(incident.log):
        data = stored.envelope.data
        if isinstance(data, ev.Waiting):
            return data if not incident.terminal else None
        if not isinstance(data, NOTES):
            return None
    return None


def _steps(plan: Plan | None) -> tuple[StepView, ...]:
    return tuple(
        StepView(action=describe(step.action), undo=describe(step.undo) if step.undo else "nothing to undo")
        for step in (plan.steps if plan else ())
    )


def _of_plan(incident: Incident, kind: type[E]) -> E | None:
    found = [s.envelope.data for s in incident.since(ev.Planned) if isinstance(s.envelope.data, kind)]
    return found[-1] if found else None


def _rehearsal(incident: Incident) -> Rehearsal | None:
    found = _of_plan(incident, ev.Rehearsed) or _of_plan(incident, ev.RehearsalFailed)
    return found.rehearsal if found else None


def _attempts(incident: Incident) -> tuple[Attempt, ...]:
    found = list[Attempt]()
    for stored in incident.log:
        match stored.envelope.data:
            case ev.Planned() as planned:
                found.append(Attempt(plan_hash=planned.plan_hash, summary=words.actions(planned.plan)))
            case (
                ev.RehearsalFailed() | ev.NotRecovered() | ev.ApplyFailed() | ev.Stale() | ev.Recovered() | ev.Rejected()
                | ev.Refused() | ev.Expired() | ev.Proposed() | ev.Cancelled()
            ) as outcome if found:
                found[-1] = found[-1].model_copy(update={"outcome": words.line(outcome)})
            case _:
                pass
    return tuple(found)


def _decisions(incident: Incident) -> tuple[Decision, ...]:
    return tuple(
        Decision(person=said.person, said=said.name, text=said.comment if isinstance(said, ev.Approved) else said.reason, at=at)
        for said, at in ((s.envelope.data, s.envelope.at) for s in incident.since(ev.ApprovalRequested))
        if isinstance(said, ev.Approved | ev.Rejected)
    )


def _comparisons(incident: Incident) -> tuple[Comparison, ...]:
    said = (stored.envelope.data for stored in incident.since(ev.Planned))
    found = [data.comparisons for data in said if isinstance(data, ev.Recovered | ev.NotRecovered | ev.Inconclusive)]
    return found[-1] if found else ()
