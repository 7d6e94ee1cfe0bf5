"""Has a job's tests run, by asking the executor, and keeps what is said of them small and free of secrets."""

from collections.abc import Sequence

from opentelemetry.trace import Span

from autopatch.chassis.chassis import Chassis
from autopatch.chassis.jobs import baseline_of, diff_of, job_of, paths_of, patch_of, reports_of, unless_lost
from autopatch.chassis.redaction import redact
from autopatch.chassis.room import Heard
from autopatch.chassis.telemetry import span
from autopatch.contract import events as ev
from autopatch.contract.code import Report, Reports, TestCase, TestTable
from autopatch.contract.evidence import BlobRef
from autopatch.contract.lifecycle import Incident
from autopatch.contract.requests import RanTests, Rechecked, RunTests
from autopatch.repair.judging import Baseline, expected
from services.validator import defects

BASELINE_RUNS, DOUBTFUL_RUNS = 3, 10
"""Of eight tests that fail every other time one is red in each of three runs more often than not, in each of ten hardly ever."""
LONGEST_S = 840.0
"""What one request may take, by its own limit."""
START_S = 60.0
"""What copies and containers may take besides the tests."""
LARGEST = 40_000
"""Bytes of a table as JSON; the log takes 64 KiB with headers and envelope."""


class Jobs:
    """What the validator does with incidents that are jobs. Nothing is remembered: asked again, the tests run again."""

    def __init__(self, chassis: Chassis) -> None:
        self._chassis = chassis

    async def reproduce(self, heard: Heard) -> Sequence[ev.Event]:
        """Runs the unchanged copy three times, and ten times where other tests differ by chance. Raises Unavailable."""
        job, own = job_of(heard.incident), await paths_of(self._chassis.blobs, job_of(heard.incident))
        with span("reproduce by tests") as current:
            for runs in (BASELINE_RUNS, DOUBTFUL_RUNS):
                limit_s = min(LONGEST_S, START_S + runs * job.suite_s)
                ran, ref = await self._run(RunTests(incident_id=heard.incident.id, job=job, unchanged=runs, limit_s=limit_s))
                baseline = expected(ran.reports, own)
                if not (baseline.verdict == "red" and baseline.flaky):
                    break
            _tell(current, ran, baseline)
            decided = _redacted(defects.reproduced(baseline, ran, ref, fitted))
            current.set_attribute("verdict", decided.name)
        return (decided,)

    async def validate(self, heard: Heard) -> Sequence[ev.Event]:
        """Runs both copies once in a fresh sandbox, and holds the changed one against the runs that reproduced the fault.

        Raises Unavailable: a sandbox that was lost says nothing of the change."""
        job, diff = job_of(heard.incident), (await diff_of(self._chassis.blobs, patch_of(heard.incident)))[0]
        baseline = await baseline_of(self._chassis.blobs, heard.incident)
        limit_s = min(LONGEST_S, START_S + 2 * job.suite_s)
        with span("judge recovery by tests", incident_attempt=heard.incident.attempts) as current:
            ran, ref = await self._run(RunTests(
                incident_id=heard.incident.id, job=job, unchanged=1, diff=diff, limit_s=limit_s
            ))
            unless_lost(ran)
            _tell(current, ran, baseline)
            decided = _redacted(defects.judged(baseline, ran, ref, fitted))
            current.set_attribute("verdict", decided.name)
            current.set_attribute("verdict.reason", getattr(decided, "reason", ""))
        return (decided,)

    def recheck(self, incident: Incident) -> Rechecked:
        """A snapshot does not change, so what was red is red; nothing is run."""
        found = incident.last(ev.Reproduced)
        if found is None or found.tests is None:
            return Rechecked(status="unknown", reason="the job's tests have not been run yet")
        return Rechecked(status="red", reason="the snapshot's tests were red, and a snapshot does not change")

    async def _run(self, request: RunTests) -> tuple[Reports, BlobRef]:
        return await reports_of(self._chassis.blobs, lambda: self._chassis.asker.ask(request, RanTests))


def _redacted(event: ev.Event) -> ev.Event:
    match event:
        case ev.NotReproduced() | ev.NotRecovered():
            return event.model_copy(update={"reason": redact(event.reason)[:2000]})
        case _:
            return event


def fitted(shown: TestTable) -> TestTable:
    """The table without secrets, and without as many failing cases as the log does not take."""
    clean = shown.model_copy(update={"failing": tuple(_clean(case) for case in shown.failing)})
    while len(clean.model_dump_json().encode()) > LARGEST and clean.failing:
        clean = clean.model_copy(update={"failing": clean.failing[:-1]})
    return clean


def _clean(case: TestCase) -> TestCase:
    texts = {"id": case.id, "message": case.message, "expected": case.expected, "actual": case.actual}
    clean = {name: redact(text)[:2000] for name, text in texts.items()}
    return case.model_copy(update={**clean, "frames": case.frames[-10:]})


def _tell(current: Span, ran: Reports, baseline: Baseline) -> None:
    """Counts and names on the span."""
    current.set_attribute("tests.runtime", ran.runtime)
    current.set_attribute("tests.runs", [_line(report) for report in ran.reports])
    for name, tests in (("failing", baseline.failing), ("flaky", baseline.flaky)):
        current.set_attribute(f"tests.{name}", [redact(test)[:200] for test in tests[:20]])
    current.set_attribute("tests.expected_to_pass", len(baseline.passing))


def _line(report: Report) -> str:
    counts = {o: sum(c.outcome == o for c in report.cases) for o in dict.fromkeys(c.outcome for c in report.cases)}
    told = ", ".join(f"{number} {outcome}" for outcome, number in sorted(counts.items())) or "no tests"
    problem = f": {redact(report.problem)[:200]}" if report.problem else ""
    return f"{report.trial or 'unchanged'} {report.run}: {told} in {report.seconds:.2f} s, {report.ended}{problem}"
