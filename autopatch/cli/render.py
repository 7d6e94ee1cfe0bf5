"""One incident for people: a sentence first, then the proof."""

import json
from datetime import UTC, datetime
from typing import Any

from rich.text import Text

from autopatch.cli.output import Output, coloured, diff
from autopatch.contract.events import ApprovalRequested
from autopatch.contract.evidence import Comparison, Evidence, Rehearsal
from autopatch.contract.lifecycle import State
from autopatch.contract.plan import Plan
from services.gateway import words
from services.gateway.views import View

VERDICTS = {"better": "green", "worse": "red", "unknown": "yellow", "same": ""}
OUTCOMES = {"green": "green", "red": "red", "error": "yellow"}


def view(out: Output, found: View) -> None:
    """All of it."""
    out.say(Text(found.headline, style="bold"))
    out.say(f"{found.id}  {found.title} on {found.target}  ", coloured(found.state.value))
    _stages(out, found)
    _why(out, found)
    if found.plan:
        plan(out, found, found.plan)
        _attempts(out, found)
    if found.approval:
        _approval(out, found, found.approval)
    if found.comparisons:
        out.head("Before and after")
        comparisons(out, found.comparisons)
    _end(out, found)


def plan(out: Output, found: View, made: Plan) -> None:
    """What is to be done, its risk, its proof and its way back."""
    out.head(f"Plan {found.plan_hash[:12]}, risk {found.risk}, from {made.basis.kind} {made.basis.ref}")
    out.say(f"  {made.summary}")
    for number, step in enumerate(found.steps, 1):
        out.say(f"  {number}. {step.action}   undo: {step.undo}")
    out.say(f"  success: {made.success.signal} good for {words.duration(made.success.soak_s)}")
    for other in made.rejected:
        out.say((f"  not: {other.summary}: {other.why_not}", "dim"))
    if found.diff:
        out.head("Diff")
        out.say(diff(found.diff))
    out.head("Rehearsal")
    if found.rehearsal:
        _rehearsal(out, found.rehearsal)
    else:
        out.say("  none yet")


def comparisons(out: Output, found: tuple[Comparison, ...]) -> None:
    """One signal a row."""
    out.table(("  SIGNAL", "ROLE", ">BEFORE", ">AFTER", ">CHANGE", "VERDICT", ""), [
        (
            f"  {c.signal}", c.role, words.figure(c.before), words.figure(c.after),
            f"{c.effect:+.0%}" if c.effect is not None else "", Text(c.verdict, VERDICTS[c.verdict]), c.why,
        )
        for c in found
    ])


def raw(out: Output, events: list[dict[str, Any]]) -> None:
    """The log, an event after the other."""
    for event in events:
        envelope = event["envelope"]
        out.say((f"{event['sequence']}  {envelope['at']}  {envelope['event']}  by {envelope['by']}", "bold"))
        out.say(json.dumps(envelope["data"], indent=2, ensure_ascii=False))


def expiry(at: datetime) -> str:
    """How long a decision can still be given."""
    left = (at - datetime.now(UTC)).total_seconds()
    return f"{words.duration(left)} left" if left > 0 else "expired"


def _stages(out: Output, found: View) -> None:
    out.head("Stages")
    out.table(("  >AT", ">TOOK", "STAGE", "BY", ""), [
        (
            f"  {words.duration(s.elapsed)}", words.duration(s.seconds), Text(s.event.replace("_", " "), "dim" if s.note else ""),
            s.by.removeprefix("person:"), s.text,
        )
        for s in found.stages
    ])


def _why(out: Output, found: View) -> None:
    if found.causes:
        out.head("Causes")
        out.table(("  >CONFIDENCE", "CAUSE", "CITES"), [
            (f"  {c.confidence:.2f}", c.summary, ", ".join(c.cites)) for c in found.causes
        ])
    if found.explanation:
        out.say(f"  {found.explanation}")
    if found.evidence or found.missing:
        out.head("Evidence")
    if found.evidence:
        out.table(("  ID", "SOURCE", "WHAT", ">BEFORE", ">AFTER"), [
            (f"  {e.id}", e.source, _seen(e), _number(e.before), _number(e.after)) for e in found.evidence
        ])
    for missing in found.missing:
        out.say((f"  not to be had: {missing}", "yellow"))


def _attempts(out: Output, found: View) -> None:
    if len(found.attempt_list) < 2:
        return
    out.head("Attempts")
    for number, attempt in enumerate(found.attempt_list, 1):
        out.say(f"  {number}. {attempt.summary}: {attempt.outcome or 'under way'}")


def _rehearsal(out: Output, found: Rehearsal) -> None:
    if found.skipped:
        out.say(("  UNREHEARSED: ", "bold yellow"), found.skipped)
    for run in found.runs:
        figures = ", ".join(f"{name} {value:.4g}" for name, value in run.figures.items())
        out.say(f"  {run.label:<10} ", Text(run.outcome, OUTCOMES[run.outcome]), f"  {words.duration(run.seconds)}  {figures}")
    if found.reason:
        out.say(f"  {found.reason}")


def _approval(out: Output, found: View, asked: ApprovalRequested) -> None:
    who = ", ".join(asked.approvers) or "anyone with the role approver"
    out.head("Approval")
    left = f", {expiry(asked.expires_at)}" if found.state is State.AWAITING else ""
    out.say(f"  {asked.why}: {asked.needed} of {who}{left}")
    for decision in found.decisions:
        out.say(f"  {decision.person} {decision.said}" + (f": {decision.text}" if decision.text else ""))


def _end(out: Output, found: View) -> None:
    if found.lesson:
        lesson = found.lesson
        out.head("Lesson")
        told = lesson.summary or f"{lesson.outcome}, trust {lesson.trust:.2f}"  # the summary of a lesson tells its trust
        out.say(f"  {lesson.lesson_id or 'none'}: {told}")
    calls, tokens = sum(m.calls for m in found.models), sum(m.input_tokens + m.output_tokens for m in found.models)
    out.say(f"\nModel calls: {calls}" + (f", {tokens} tokens" if calls else ""))
    if not found.chain_ok:
        out.say(("The log was tampered with: " + "; ".join(found.chain_faults), "bold red"))
    if found.trace_url or found.trace_id:
        out.say(f"Trace: {found.trace_url or found.trace_id}")


def _seen(evidence: Evidence) -> str:
    status = {"nothing": " (no data)", "failed": " (failed)"}.get(evidence.status, "")
    return evidence.summary + status + (f"\n{evidence.sample}" if evidence.sample else "")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
