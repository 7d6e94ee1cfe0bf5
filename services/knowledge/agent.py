"""What an incident taught, and when a lesson may be used again. Pure."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Literal

from autopatch.contract import events as ev
from autopatch.contract.lifecycle import Incident, Stored
from autopatch.contract.model import Moment, Word, canonical, digest
from autopatch.contract.plan import Plan
from autopatch.contract.requests import Lesson, Recall, RunbookPlan

SUMMARY_LENGTH = 2000


class Outcome(Word):
    """How one attempt ended, validated on live signals or in rehearsal. `planned` is the id of the event that began it.

    An attempt has one outcome however often its events are heard, so counting outcomes counts attempts.
    """

    incident: str
    planned: str
    lesson: str
    signature: str
    target: str
    cause: str
    plan: Plan
    result: Literal["recovered", "failed"]
    how: str
    at: Moment


def lesson_id(signature: str, plan: Plan) -> str:
    """The same fault answered by the same actions is the same lesson; preconditions, wording and a diff's base do not matter."""
    recipe = [step.action.model_dump(mode="json", exclude={"base", "files"}) for step in plan.steps]
    return f"lesson-{digest(canonical([signature, recipe]))[:16]}"


def outcome_of(incident: Incident, stored: Stored) -> Outcome | None:
    """The outcome that this event settled for its attempt; None when it settled nothing about the fix.

    A rehearsal counts against a fix only if the changed run was not green: when the unchanged one could not be made red, or the
    sandbox failed, nothing was learnt of the fix. Undoing an attempt because a person cancelled it is no failure either.
    """
    log = [s for s in incident.log if s.sequence <= stored.sequence]
    start = next((i for i in range(len(log) - 1, -1, -1) if isinstance(log[i].envelope.data, ev.Planned)), None)
    if start is None:
        return None
    planned, since = log[start].envelope, log[start + 1 :]
    settling = next((s for s in since if _settles(s.envelope.data, since)), None)
    causes = [s.envelope.data for s in log[:start] if isinstance(s.envelope.data, ev.Diagnosed)]
    if settling is None or settling.envelope.event_id != stored.envelope.event_id or not causes:
        return None
    assert isinstance(planned.data, ev.Planned)
    plan = planned.data.plan.model_copy(update={"rejected": ()})
    event, signature = stored.envelope.data, causes[-1].signature
    return Outcome(
        incident=incident.id, planned=planned.event_id, lesson=lesson_id(signature, plan), signature=signature,
        target=plan.target, cause=plan.cause, plan=plan, result="recovered" if isinstance(event, ev.Recovered) else "failed",
        how=event.name, at=stored.envelope.at,
    )


def _settles(event: ev.Event, since: Sequence[Stored]) -> bool:
    match event:
        case ev.Recovered() | ev.NotRecovered():
            return True
        case ev.RehearsalFailed():
            return any(run.label == "changed" and run.outcome != "green" for run in event.rehearsal.runs)
        case ev.RolledBack() | ev.RollbackFailed():
            return any(isinstance(s.envelope.data, ev.ApplyFailed) for s in since)
        case _:
            return False


def trust(outcomes: Iterable[Outcome], now: datetime, half_life_days: float) -> float:
    """R / (R + F + 1), between 0 and 1, where R and F are recoveries and failures, each worth 0.5 ** (its age / half-life).

    That is the mean of a Beta distribution that starts from one imagined failure: without evidence, or with evidence that is
    long ago, trust is 0. One fresh recovery: 0.5; two: 0.67; one recovery and one failure: 0.33. Nothing but outcomes counts.
    """
    weights = {"recovered": 0.0, "failed": 0.0}
    for outcome in outcomes:
        age_days = max(0.0, (now - outcome.at).total_seconds() / 86400)
        weights[outcome.result] += 0.5 ** (age_days / half_life_days)
    return weights["recovered"] / (weights["recovered"] + weights["failed"] + 1)


def lessons(outcomes: Iterable[Outcome], now: datetime, half_life_days: float) -> list[Lesson]:
    """Outcomes by lesson, most trusted first. A lesson's plan is that of its newest recovery, else of its newest failure."""
    by_lesson: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_lesson.setdefault(outcome.lesson, []).append(outcome)
    found = [_lesson(group, now, half_life_days) for group in by_lesson.values()]
    return sorted(found, key=lambda lesson: (-lesson.trust, lesson.id))


def _lesson(group: list[Outcome], now: datetime, half_life_days: float) -> Lesson:
    best = max(group, key=lambda o: (o.result == "recovered", o.at))
    recovered = sum(o.result == "recovered" for o in group)
    return Lesson(
        id=best.lesson, signature=best.signature, target=best.target, cause=best.cause, plan=best.plan, recovered=recovered,
        failed=len(group) - recovered, trust=trust(group, now, half_life_days), last_outcome_at=max(o.at for o in group),
    )


def past_the_gates(known: Sequence[Lesson], question: Recall, bar: float) -> tuple[list[Lesson], list[str]]:
    """The lessons that may be used, and for each that may not, why: made for another target, another fault, or not trusted."""
    passed, withheld = [], []
    for lesson in known:
        why = _why_not(lesson, question, bar)
        if why:
            withheld.append(f"{lesson.id} ({lesson.plan.summary}): {why}")
        else:
            passed.append(lesson)
    return passed, withheld


def _why_not(lesson: Lesson, question: Recall, bar: float) -> str:
    if lesson.target != question.target:
        return f"it was learnt on target {lesson.target}"
    if lesson.signature != question.signature:
        return "it answered a fault with another signature"
    if not lesson.recovered:
        return f"it never recovered the target, failed {lesson.failed}"
    if lesson.trust < bar:
        return f"trust {lesson.trust:.2f} is below {bar:.2f}; recovered {lesson.recovered}, failed {lesson.failed}"
    return ""


def fitting(runbooks: Iterable[RunbookPlan], question: Recall, services: Collection[str]) -> list[RunbookPlan]:
    """Runbooks that answer the cause; an alert or a service that one names must be the incident's. The most specific first.

    `services` are the names by which the target is known: its own and the values of the labels that its alerts carry.
    """
    fit = [
        book for book in runbooks
        if question.cause in book.causes
        and (not book.alerts or not question.alertname or question.alertname in book.alerts)
        and (not book.service or book.service in services)
    ]
    named = question.alertname
    return sorted(fit, key=lambda b: (-(named in b.alerts), -bool(b.service), -bool(b.actions), len(b.causes), b.name))


def summary_of(incident: Incident) -> tuple[str, str]:
    """Title and text of the document that an ended incident leaves, from its log alone. Not redacted yet."""
    opened, diagnosed = incident.opened, incident.last(ev.Diagnosed)
    lines = [f"{opened.title} on {opened.target} ended: {incident.state}."]
    if opened.alert:
        lines.append(f"Alert {opened.alert.alertname}. {' '.join(opened.alert.annotations.values())}".strip())
    if diagnosed:
        lines += [f"Cause {cause.id} ({cause.confidence:.2f}): {cause.summary}" for cause in diagnosed.causes[:3]]
    lines += [line for stored in incident.log if (line := _told(stored.envelope.data))]
    return opened.title, "\n".join(lines)[:SUMMARY_LENGTH]


def _told(event: ev.Event) -> str:
    match event:
        case ev.Planned():
            return f"Plan from {event.plan.basis.kind} {event.plan.basis.ref}: {event.plan.summary}"
        case ev.Rejected():
            return f"Rejected by {event.person}: {event.reason}"
        case ev.RehearsalFailed():
            return f"Rehearsal failed: {event.rehearsal.reason}"
        case (
            ev.NotReproduced() | ev.Undiagnosed() | ev.Refused() | ev.ApplyFailed() | ev.NotRecovered() | ev.RollbackFailed()
            | ev.Escalated() | ev.Inconclusive() | ev.Stale()
        ):
            return f"{event.name.replace('_', ' ').capitalize()}: {event.reason}"
        case ev.Recovered():
            return "Recovered: all tests pass on a copy." if event.tests else "Recovered on live signals."
        case _:
            return ""
