"""Defect jobs: a plan's diff is rehearsed on copies and handed over. There is no target, so nothing is changed or undone."""

from collections.abc import Callable, Sequence
from typing import Protocol

from autopatch.chassis import redaction
from autopatch.chassis.chassis import Blobs, Chassis
from autopatch.chassis.jobs import baseline_of, diff_of, job_of, patch_of, reports_of, unless_lost
from autopatch.chassis.room import Handler, Heard
from autopatch.chassis.telemetry import annotate, span
from autopatch.contract import events as ev
from autopatch.contract.code import Report, Reports
from autopatch.contract.errors import ContractError, Refused
from autopatch.contract.evidence import BlobRef, Rehearsal, RehearsalRun
from autopatch.contract.lifecycle import State
from autopatch.contract.plan import StepResult, UndoRecord
from autopatch.contract.requests import RanTests, RunTests
from autopatch.repair.judging import RED, Baseline, judge, named, outcome
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
        """Red on the unchanged copy, green on the changed one, by everything that the baseline expects. Raises Unavailable."""
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
                reports, tests = await run(self._workshop, self._chassis.blobs, request)
                rehearsal = rehearsed(baseline, reports).model_copy(update={"tests": tests, "diff": shown})
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


async def run(workshop: RunsTests, blobs: Blobs, request: RunTests) -> tuple[Reports, BlobRef]:
    """A sandbox that was lost says nothing of the diff, so it is tried once more. Raises Unavailable when it is lost again."""
    reports, ref = await reports_of(blobs, lambda: workshop.run_tests(request))
    unless_lost(reports)
    return reports, ref


def rehearsed(baseline: Baseline, ran: Reports, wanted: int = 1) -> Rehearsal:
    """What the runs of both copies prove; of the unchanged one so many are wanted."""
    unchanged = [report for report in ran.reports if not report.trial]
    changed = next((r for r in ran.reports if r.trial == "diff"), None)
    if len(unchanged) < wanted or changed is None:
        which = "unchanged" if len(unchanged) < wanted else "changed"
        return Rehearsal(passed=False, reason=f"the {which} copy was not run in time")
    before, after = judge(baseline, unchanged[0]), judge(baseline, changed)
    runs = (_run("unchanged", unchanged[0], before.ok, ran.runtime), _run("changed", changed, after.ok, ran.runtime))
    calm = [test for test in baseline.failing if any(outcome(report, test) not in RED for report in unchanged)]
    if calm or before.ok:
        reason = f"on the unchanged copy {named(calm) or 'the tests'} did not fail again, so the change proves nothing"
        return Rehearsal(runs=runs, passed=False, reason=redaction.redact(reason)[:2000])
    return Rehearsal(runs=runs, passed=after.ok, reason="" if after.ok else redaction.redact(after.reason)[:2000])


def _run(label: str, report: Report, ok: bool, runtime: str) -> RehearsalRun:
    figures = {name: float(sum(c.outcome == name for c in report.cases)) for name in ("passed", "failed", "error", "timed_out")}
    return RehearsalRun.model_validate({
        "label": label, "outcome": "green" if ok else "red", "exit_code": report.exit_code, "seconds": report.seconds,
        "runtime": runtime, "figures": {name: number for name, number in figures.items() if number},
        "output": (report.problem or report.output)[-2000:],
    })
