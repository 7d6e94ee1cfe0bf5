"""Runs candidates in the sandbox, by asking the executor: first against the failing tests, then against the whole suite."""

from collections.abc import Sequence

from autopatch.chassis.chassis import Chassis
from autopatch.chassis.redaction import redact
from autopatch.contract.code import CodeJob, Report, Reports, Trials
from autopatch.contract.errors import ContractError, Unavailable
from autopatch.contract.requests import RanTests, RunTests
from autopatch.repair.diffs import make_diff
from autopatch.repair.forgeries import suspicions
from autopatch.repair.judging import judge, outcome
from autopatch.repair.patch_policy import refusals
from services.planner.adapters.gate.candidate import Candidate, Tried
from services.planner.adapters.gate.case import Case

LONGEST_S = 840.0
PROBES_S = 15.0  # for all generated inputs of one candidate, each of which has 0.2 s
START_S = 60.0  # what copies and containers may take besides the tests
FEW = 12
"""So many passing tests are run at once with the failing ones; the first that fails ends a candidate's run."""
ASKED_BYTES = 24_000  # of test ids in one request
SLOWER, STARTS = 10, 2
"""A candidate's test may take so many times what the slowest one took, and what a run took to begin, before it is given up:
most that do loop for ever."""
QUICKEST_S = 1.0


class Gate:
    """The same for candidates of every origin."""

    def __init__(self, chassis: Chassis, case: Case) -> None:
        self._chassis, self._case = chassis, case
        failing = case.baseline.failing
        self._at_once = len(case.baseline.passing) <= FEW
        asked = (*failing, *case.baseline.passing) if self._at_once else failing
        self._only = asked if sum(len(test.encode()) + 4 for test in asked) <= ASKED_BYTES else ()

    @property
    def own_s(self) -> float:
        """Seconds that the failing tests take by themselves, those that were given up not counted."""
        return sum(c.seconds for c in self._case.red.cases if c.id in self._case.baseline.failing and c.outcome != "timed_out")

    def refused(self, candidate: Candidate) -> str:
        """Why this candidate is not even run: what the executor would refuse as a patch, and what could forge a verdict."""
        tree = self._case.tree
        try:
            found = list(refusals(make_diff(tree, tree.changed(candidate.changes)), tree))
        except ContractError as error:
            return str(error)
        for path, data in candidate.changes.items():
            found += suspicions(path, tree.get(path, b""), data or b"")
        return "; ".join(found[:3])

    async def screen(self, candidates: Sequence[Candidate], *, limit_s: float = LONGEST_S, enough: int = 0) -> list[Tried]:
        """Against the failing tests, in this order; what was not reached is left out.

        With `enough` until so many passed or the time is over, and with little patience; then a candidate in whose run the
        sandbox was lost is the last one. Otherwise that raises Unavailable: nothing more is asked of a model then.
        """
        job = self._quick() if enough else self._case.job
        only = () if self._at_once and not enough else self._only
        ran = await self._run(candidates, job, only, limit_s=limit_s, enough=enough)
        return [self._held(candidate, report) for candidate, report in ran]

    async def confirm(self, tried: Sequence[Tried]) -> list[Tried]:
        """Against the whole suite: those that still stand, `whole`, and those that do not with why. Raises Unavailable."""
        known = [one for one in tried if one.whole]
        rest = [one.candidate for one in tried if not one.whole]
        ran = await self._run(rest, self._case.job, ()) if rest else []
        return known + [self._judged(candidate, report) for candidate, report in ran]

    async def outputs(self, candidates: Sequence[Candidate], script: str) -> dict[str, str]:
        """What a script prints on each candidate's copy, by id, of those where it came to an end. Raises Unavailable."""
        job = self._case.job.model_copy(update={"command": ("python3", "-c", script), "suite_s": PROBES_S})
        ran = await self._run(candidates, job, (), limit_s=START_S + len(candidates) * PROBES_S, losable=True)
        return {candidate.id: report.output for candidate, report in ran if report.ended == "finished"}

    async def _run(
        self, candidates: Sequence[Candidate], job: CodeJob, only: tuple[str, ...], *,
        limit_s: float = LONGEST_S, enough: int = 0, losable: bool = False,
    ) -> list[tuple[Candidate, Report]]:
        document = Trials(trials=tuple(candidate.trial for candidate in candidates)).model_dump_json().encode()
        longest = min(LONGEST_S, START_S + len(candidates) * job.suite_s, limit_s)
        ran = await self._chassis.asker.ask(RunTests(
            incident_id=self._case.incident.id, job=job, trials=await self._chassis.blobs.put(document), only=only,
            enough=enough, limit_s=longest,
        ), RanTests)
        reports = Reports.model_validate_json(await self._chassis.blobs.get(ran.reports)).reports
        lost = next((report for report in reports if report.ended == "lost"), None)
        if lost is not None and not (lost.trial and (enough or losable)):
            raise Unavailable("docker", f"the sandbox was lost during a run: {redact(lost.problem)[:300]}".rstrip(": "))
        by_id = {report.trial: report for report in reports}
        return [(candidate, by_id[candidate.id]) for candidate in candidates if candidate.id in by_id]

    def _quick(self) -> CodeJob:
        """The job with less patience, for many small edits loop for ever. The red run began anew after each test that did."""
        job, red = self._case.job, self._case.red
        took = [case.seconds for case in red.cases if case.outcome != "timed_out"]
        start = (red.seconds - sum(case.seconds for case in red.cases)) / (1 + len(red.cases) - len(took))
        test_s = min(job.test_s, max(QUICKEST_S, STARTS * start, *(SLOWER * seconds for seconds in took)))
        return job.model_copy(update={"test_s": test_s, "suite_s": min(job.suite_s, START_S)})

    def _held(self, candidate: Candidate, report: Report) -> Tried:
        if self._at_once or not self._only:
            return self._judged(candidate, report)
        failing = self._left(report)
        return Tried(candidate, report, failing, _why(report, failing))

    def _judged(self, candidate: Candidate, report: Report) -> Tried:
        judged = judge(self._case.baseline, report)
        why = "" if judged.ok else redact(judged.reason)[:300] or "it was not judged to be a fix"
        return Tried(candidate, report, self._left(report), why, whole=not (judged.broken or judged.missing))

    def _left(self, report: Report) -> frozenset[str]:
        return frozenset(test for test in self._case.baseline.failing if outcome(report, test) != "passed")


def _why(report: Report, failing: frozenset[str]) -> str:
    """In one line; '' when nothing failed."""
    if report.problem:
        return redact(report.problem)[:200]
    first = next((case for case in report.cases if case.id in failing), None)
    if first is not None:
        words = (first.message.strip().splitlines() or [""])[0]
        return redact(f"{first.id} {first.outcome}: {words}")[:200]
    if failing:
        return f"{len(failing)} tests were not reported"
    return "" if report.ended == "finished" else f"its run {report.ended}"
