"""Defect jobs: a plan's diff is rehearsed on copies and handed over. There is no target, so nothing is changed or undone."""

from collections.abc import Callable, Sequence
from typing import Protocol

from autopatch.chassis import redaction
from autopatch.chassis.chassis import Chassis
from autopatch.chassis.jobs import baseline_of, diff_of, job_of, patch_of
from autopatch.chassis.room import Handler, Heard
from autopatch.chassis.telemetry import annotate, span
from autopatch.contract import events as ev
from autopatch.contract.code import Report, Reports
from autopatch.contract.errors import ContractError, Refused
from autopatch.contract.evidence import Rehearsal, RehearsalRun
from autopatch.contract.lifecycle import State
from autopatch.contract.plan import StepResult, UndoRecord
from autopatch.contract.requests import RanTests, RunTests
from autopatch.repair.judging import Baseline, judge
from services.executor import agent

Events = Sequence[ev.Event]
RULE = "a defect job: the diff is handed over, nothing is changed"
LONGEST_S = 840.0
START_S = 60.0
SHOWN = 16_000
"""Characters of a diff in an event; the object store has all of it."""


class RunsTests(Protocol):
    """The workshop."""

    async def run_tests(self, request: RunTests) -> RanTests:
        """Raises Unavailable, Refused when the policy or git does not take the diff."""
        ...


def for_jobs(of_job: Handler, of_target: Handler) -> Handler:
    """One handler for both kinds of incident."""
    async def either(heard: Heard) -> Events:
        return await (of_job if heard.incident.opened.job else of_target)(heard)

    return either


class Jobs:
    """Handlers for incidents that are jobs."""

    def __init__(self, chassis: Chassis, workshop: RunsTests, crash: Callable[[str], None]) -> None:
        self._chassis = chassis
        self._workshop = workshop
        self._crash = crash

    async def planned(self, heard: Heard) -> Events:
        """Red on the unchanged copy, green on the changed one, by everything that the baseline expects."""
        self._crash("received")
        incident, patch = heard.incident, patch_of(heard.incident)
        baseline = await baseline_of(self._chassis.blobs, incident)
        ref, diff = await diff_of(self._chassis.blobs, patch)
        shown = redaction.redact(diff.decode(errors="backslashreplace"))[:SHOWN]
        job = job_of(incident)
        limit_s = min(LONGEST_S, START_S + 2 * job.suite_s)
        request = RunTests(incident_id=incident.id, job=job, unchanged=1, diff=ref, limit_s=limit_s)
        with span("rehearsal", diff=patch.diff, files=list(patch.files)) as current:
            try:
                ran = await self._workshop.run_tests(request)
                reports = Reports.model_validate_json(await self._chassis.blobs.get(ran.reports))
                rehearsal = rehearsed(baseline, reports).model_copy(update={"tests": ran.reports, "diff": shown})
            except (Refused, ContractError) as error:
                rehearsal = Rehearsal(passed=False, reason=f"the diff is refused: {error}", diff=shown)
            annotate(current, passed=rehearsal.passed, reason=rehearsal.reason)
        self._crash("before_return")
        said = ev.Rehearsed if rehearsal.passed else ev.RehearsalFailed
        return [said(plan_hash=patched_by(heard), rehearsal=rehearsal)]

    async def rehearsed(self, heard: Heard) -> Events:
        """No policy covers it, because nothing is acted on."""
        self._crash("received")
        patch_of(heard.incident)
        self._crash("decided")
        claim = ev.Applying(
            plan_hash=patched_by(heard), undo=(UndoRecord(step=0, kind="none"),), rung="auto", rule=RULE, rehearsed=True
        )
        self._crash("before_return")
        return [claim]

    async def applying(self, heard: Heard) -> Events:
        """Hands the diff over: the event names it."""
        self._crash("received")
        incident = await self._chassis.log.load(heard.incident.id)
        if incident.state is not State.APPLYING:
            return []
        patch, found = patch_of(incident), incident.last(ev.Rehearsed)
        result = StepResult(step=0, done=True, detail=f"the diff {patch.diff[:12]} is ready; nothing was changed")
        self._crash("before_return")
        shown, now = found.rehearsal.diff if found else "", self._chassis.clock.now()
        return [ev.Applied(plan_hash=patched_by(heard), results=(result,), diff=shown, at=now)]

    async def rolling_back(self, heard: Heard) -> Events:
        """There was nothing to undo."""
        self._crash("received")
        incident = await self._chassis.log.load(heard.incident.id)
        if incident.state is not State.ROLLING_BACK:
            return []
        self._crash("before_return")
        return [ev.RolledBack(results=(StepResult(step=0, done=True, detail="as before"),), detail="there was nothing to undo")]

    async def cancelled(self, heard: Heard) -> Events:
        """Ends what had begun."""
        match heard.incident.state:
            case State.APPLYING:
                return await self.applying(heard)
            case State.UNDO_DUE:
                return [ev.RollingBack(reason=agent.cancelled_by(heard.incident))]
            case State.ROLLING_BACK:
                return await self.rolling_back(heard)
            case _:
                return []


def patched_by(heard: Heard) -> str:
    """The hash of the plan that is dealt with."""
    planned = heard.incident.last(ev.Planned)
    return planned.plan_hash if planned else ""


def rehearsed(baseline: Baseline, ran: Reports) -> Rehearsal:
    """What the runs of both copies prove."""
    unchanged = next((r for r in ran.reports if r.trial == ""), None)
    changed = next((r for r in ran.reports if r.trial == "diff"), None)
    if unchanged is None or changed is None:
        return Rehearsal(passed=False, reason=f"the {'unchanged' if unchanged is None else 'changed'} copy was not run in time")
    before, after = judge(baseline, unchanged), judge(baseline, changed)
    runs = (_run("unchanged", unchanged, before.ok, ran.runtime), _run("changed", changed, after.ok, ran.runtime))
    if before.ok:
        return Rehearsal(runs=runs, passed=False, reason="the tests do not fail on the unchanged copy")
    return Rehearsal(runs=runs, passed=after.ok, reason="" if after.ok else redaction.redact(after.reason)[:2000])


def _run(label: str, report: Report, ok: bool, runtime: str) -> RehearsalRun:
    outcome = "green" if ok else "red" if report.ended != "lost" else "error"
    figures = {name: float(sum(c.outcome == name for c in report.cases)) for name in ("passed", "failed", "error", "timed_out")}
    return RehearsalRun.model_validate({
        "label": label, "outcome": outcome, "exit_code": report.exit_code, "seconds": report.seconds, "runtime": runtime,
        "figures": {name: number for name, number in figures.items() if number},
        "output": (report.problem or report.output)[-2000:],
    })
