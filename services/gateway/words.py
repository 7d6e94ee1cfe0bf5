"""One line per event, for people."""

from collections.abc import Callable

from autopatch.contract import events as ev
from autopatch.contract.actions import describe
from autopatch.contract.code import TestTable
from autopatch.contract.envelope import Unknown
from autopatch.contract.evidence import Comparison, Measurement, ModelUse, Rehearsal
from autopatch.contract.plan import Plan, StepResult

_NOT_RED = {"green": "not red", "flaky": "flaky", "environment_error": "its tests cannot be run"}
_LINES: dict[type[ev.Event], Callable[..., str]] = {
    ev.Opened: lambda e: f"{e.title} on {e.target}",
    ev.AlertUpdated: lambda e: f"alert {e.alert.alertname} is {e.alert.status}" + (": " + e.why if e.why else ""),
    ev.Cleared: lambda e: "the alert is no longer firing",
    ev.Reproduced: lambda e: f"the check {e.signal} is red: {_tests(e.tests) or _measured(e.signal, e.checks)}",
    ev.NotReproduced: lambda e: f"{_NOT_RED[e.kind]}: {e.reason}",
    ev.Diagnosed: lambda e: f"{e.causes[0].summary} (confidence {e.causes[0].confidence:.2f}, {_model(e.model)})",
    ev.Undiagnosed: lambda e: f"no cause stands out: {e.reason}",
    ev.Planned: lambda e: f"{actions(e.plan)} (from {e.plan.basis.kind} {e.plan.basis.ref}, {_model(e.model)})",
    ev.Observed: lambda e: f"diagnosis only: {e.summary}",
    ev.Rehearsed: lambda e: rehearsed(e.rehearsal),
    ev.RehearsalFailed: lambda e: rehearsed(e.rehearsal),
    ev.ApprovalRequested: lambda e: f"waits for {e.needed} of the approvers until {e.expires_at:%H:%M:%S}: {e.why}",
    ev.Approved: lambda e: f"{e.person} approved" + (f": {e.comment}" if e.comment else ""),
    ev.Rejected: lambda e: f"{e.person} rejected: {e.reason}",
    ev.Expired: lambda e: "nobody decided in time",
    ev.Refused: lambda e: f"policy refused ({e.rule}): {e.reason}",
    ev.Proposed: lambda e: f"proposed, not applied: {e.why}",
    ev.Applying: lambda e: f"acting on rung {e.rung}, rule {e.rule}" + ("" if e.rehearsed else ", UNREHEARSED"),
    ev.Applied: lambda e: _results(e.results),
    ev.ApplyFailed: lambda e: f"a step failed: {e.reason}",
    ev.RollingBack: lambda e: f"rolling back: {e.reason}",
    ev.RolledBack: lambda e: f"rolled back: {e.detail or _results(e.results)}",
    ev.RollbackFailed: lambda e: f"ROLLBACK FAILED, look now: {e.reason}",
    ev.Stale: lambda e: f"the target is not what the plan was made for: {e.reason}",
    ev.Recovered: lambda e: f"recovered: {_tests(e.tests) or compared(e.comparisons)}",
    ev.NotRecovered: lambda e: f"not recovered: {e.reason}",
    ev.Inconclusive: lambda e: f"neither proven nor refuted: {e.reason}",
    ev.LessonRecorded: lambda e: f"{f'lesson {e.lesson_id}' if e.lesson_id else 'no lesson'}: {e.summary or e.outcome}",
    ev.Waiting: lambda e: f"{e.room} waits for {e.on}: {e.reason}",
    ev.Escalated: lambda e: f"{'CRITICAL: ' if e.critical else ''}a person is needed: {e.reason}",
    ev.Cancelled: lambda e: f"{e.person} cancelled" + (f": {e.reason}" if e.reason else ""),
    ev.Reopened: lambda e: f"{e.person} reopened" + (f": {e.reason}" if e.reason else ""),
    Unknown: lambda e: f"{e.event} (of a newer version)",
}


def line(event: ev.Event) -> str:
    """What happened, in one line."""
    return _LINES[type(event)](event)


def actions(plan: Plan) -> str:
    """What a plan does."""
    return ", then ".join(describe(step.action) for step in plan.steps)


def rehearsed(rehearsal: Rehearsal) -> str:
    """How a rehearsal went."""
    if rehearsal.skipped:
        return f"not rehearsed: {rehearsal.skipped}"
    runs = ", ".join(f"{run.label} {run.outcome}" for run in rehearsal.runs)
    verdict = "rehearsal passed" if rehearsal.passed else f"rehearsal failed: {rehearsal.reason}"
    return f"{verdict} ({runs})" if runs else verdict


def compared(comparisons: tuple[Comparison, ...]) -> str:
    """Before and after of the checks."""
    checks = [c for c in comparisons if c.role == "check"] or list(comparisons)
    return ", ".join(f"{c.signal} {figure(c.before)} → {figure(c.after)}" for c in checks) or "no figures"


def figure(measurement: Measurement) -> str:
    """The mean with its unit, or why there is none."""
    value = measurement.mean if measurement.mean is not None else measurement.last
    if measurement.status != "value" or value is None:
        return {"nothing": "no data", "failed": "failed"}.get(measurement.status, "no data")
    return f"{value:.4g}{' ' + measurement.unit if measurement.unit else ''}"


def duration(seconds: float) -> str:
    """3.2 s, 4 min 05 s, 2 h 03 min."""
    if seconds < 60:
        return f"{max(seconds, 0):.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def _tests(table: TestTable | None) -> str:
    """12 passed, 1 failed; '' without tests."""
    told = {"passed": table.passed, "failed": table.failed, "skipped": table.skipped} if table else {}
    return ", ".join(f"{number} {what}" for what, number in told.items() if number or what != "skipped")


def _measured(signal: str, checks: tuple[Measurement, ...]) -> str:
    return next((figure(m) for m in checks if m.signal == signal), "measured")


def _model(use: ModelUse) -> str:
    if not use.calls:
        return "no model call"
    return f"{use.calls} model call{'s' if use.calls > 1 else ''}, {use.input_tokens + use.output_tokens} tokens"


def _results(results: tuple[StepResult, ...]) -> str:
    return "; ".join(r.detail for r in results) or "done"
