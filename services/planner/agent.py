"""Which attempts of an incident failed and why, and what is said when there is no plan. Pure."""

from collections.abc import Iterable, Sequence

from autopatch.contract import events as ev
from autopatch.contract.evidence import Comparison, ModelUse, Rehearsal
from autopatch.contract.lifecycle import Incident
from autopatch.contract.plan import Alternative, Plan
from autopatch.contract.target import RUNGS, Autonomy, Rung
from services.planner.ports import Failure, Question

WHY_LENGTH = 600
REASON_LENGTH = 3000
MOST_REJECTED = 12
OUTPUT_LENGTH = 200


def failures(incident: Incident) -> tuple[Failure, ...]:
    """Attempts since the incident was opened or reopened that failed, oldest first; one that went stale is none."""
    found: list[Failure] = []
    plan: Plan | None = None
    why = ""
    for stored in incident.since(ev.Reopened) or incident.log:
        event = stored.envelope.data
        match event:
            case ev.Planned():
                plan, why = event.plan, ""
            case ev.RehearsalFailed():
                why = _of_rehearsal(event.rehearsal)
            case ev.ApplyFailed():
                why = f"it could not be applied: {event.reason}"
            case ev.NotRecovered():
                why = f"applied, not recovered: {event.reason}{_of_comparisons(event.comparisons)}"
            case ev.Stale():
                plan = None
            case _:
                pass
        if plan is not None and isinstance(event, ev.RehearsalFailed | ev.RolledBack):
            found.append(Failure(plan, (why or "it was rolled back")[:WHY_LENGTH]))
            plan = None
    return tuple(found)


def _of_rehearsal(rehearsal: Rehearsal) -> str:
    runs = []
    for run in rehearsal.runs:
        figures = ", ".join(f"{name} {value:g}" for name, value in sorted(run.figures.items()))
        tail = run.output.strip()[-OUTPUT_LENGTH:] if run.outcome == "error" else ""
        runs.append(f"{run.label} {run.outcome}{f' ({figures})' if figures else ''}{f': {tail}' if tail else ''}")
    return f"rehearsal failed: {'; '.join([rehearsal.reason, *runs]).strip('; ')}"


def _of_comparisons(comparisons: Iterable[Comparison]) -> str:
    told = [
        f"{c.signal} {c.before.mean:.3g} -> {c.after.mean:.3g} ({c.verdict})" for c in comparisons
        if c.before.mean is not None and c.after.mean is not None
    ]
    return f" [{'; '.join(told)}]" if told else ""


def stale_in_a_row(incident: Incident) -> int:
    """How many plans the target has overtaken since one last ended in another way."""
    count = 0
    for stored in reversed(incident.log):
        match stored.envelope.data:
            case ev.Stale():
                count += 1
            case ev.RehearsalFailed() | ev.RolledBack() | ev.Reopened() | ev.Diagnosed():
                break
            case _:
                pass
    return count


def may_act(autonomy: Autonomy) -> bool:
    """Is anything beyond looking allowed for any action?"""
    return any(rung != "observe" for rung in (autonomy.default, *autonomy.actions.values()))


def only_observes(plan: Plan, autonomy: Autonomy) -> bool:
    """Every step's rung is observe."""
    return all(_rung(autonomy, step.action.kind) == RUNGS[0] for step in plan.steps)


def _rung(autonomy: Autonomy, kind: str) -> Rung:
    return next((rung for name, rung in autonomy.actions.items() if name == kind), autonomy.default)


def observed(diagnosed: ev.Diagnosed, plan: Plan | None = None) -> ev.Observed:
    """The diagnosis, and the plan that would have been made."""
    text = diagnosed.explanation or f"{diagnosed.causes[0].id}: {diagnosed.causes[0].summary}"
    not_done = f" Not done, as the target is only observed: {plan.summary}." if plan else ""
    return ev.Observed(summary=f"{text}{not_done}"[:REASON_LENGTH])


def gave_up(failed: Sequence[Failure]) -> ev.Escalated:
    """After the last attempt, with what every one of them showed."""
    told = [f"{n}. {f.plan.summary} (from {f.plan.basis.kind} {f.plan.basis.ref}): {f.why}" for n, f in enumerate(failed, 1)]
    return ev.Escalated(reason=f"{len(failed)} attempts failed: {'; '.join(told)}"[:REASON_LENGTH], room="planner")


def kept_changing(count: int, last: str) -> ev.Escalated:
    """When plan after plan went stale."""
    return ev.Escalated(reason=f"the target changed under {count} plans in a row, last: {last}"[:REASON_LENGTH], room="planner")


def no_plan(question: Question, rejected: Sequence[Alternative], mode: str, use: ModelUse | None = None) -> ev.Escalated:
    """What was turned down, and what would help."""
    causes = ", ".join(cause.id for cause in question.diagnosed.causes)
    withheld = [why for recalled in question.recalled.values() for why in recalled.withheld]
    turned_down = [f"{a.summary}: {a.why_not}" for a in rejected]
    first = question.diagnosed.causes[0].id
    parts = [
        f"no plan for {causes}",
        f"turned down: {'; '.join(turned_down)}" if turned_down else "no lesson and no runbook answers it",
        f"lessons withheld: {'; '.join(dict.fromkeys(withheld))}" if withheld else "",
        f"tried: {'; '.join(f.plan.summary for f in question.failures)}" if question.failures else "",
        f"what would help: a runbook whose front matter names `causes: [{first}]` with structured actions"
        + (", or a model (AUTOPATCH_LLM_MODE)" if mode == "off" else ""),
    ]
    return ev.Escalated(reason=". ".join(part for part in parts if part)[:REASON_LENGTH], room="planner", model=use)


def with_rejected(plan: Plan, rejected: Sequence[Alternative]) -> Plan:
    """The plan with what was considered besides; its hash stays."""
    short = [Alternative(summary=a.summary[:200], why_not=a.why_not[:300]) for a in rejected[:MOST_REJECTED]]
    return plan.model_copy(update={"rejected": tuple(short)})
