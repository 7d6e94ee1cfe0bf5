"""What runs of the unchanged copy teach to expect, and whether a later run keeps to it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from autopatch.contract.code import Report, TestOutcome, TestTable
from autopatch.contract.evidence import BlobRef
from autopatch.repair.unread import COMMAND, lacking_in, last_line, own_fault

RED: frozenset[TestOutcome] = frozenset({"failed", "error", "timed_out"})
SHOWN = 20
NAMED = 3

@dataclass(frozen=True)
class Baseline:
    """What several runs of the unchanged copy have in common. Ids of tests, each kind sorted.

    `failing` failed in every run, `passing` passed in every run that came so far; `flaky` did now this and now that, or was not
    always reported; `skipped` never ran: skipped, or stopped by something that the environment lacks. Only `red` may be repaired.
    `failing` may hold a whole file, module or class (its tests could not be read or set up), and may be empty for red when a
    fault kept every test from being found.
    """

    verdict: Literal["red", "green", "flaky", "environment_error"]
    reason: str
    failing: tuple[str, ...] = ()
    passing: tuple[str, ...] = ()
    flaky: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True)
class Judged:
    """One run held against a baseline: what it fixed, what it broke, and what it did not report."""

    ok: bool
    reason: str
    fixed: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def expected(reports: Sequence[Report], own: Collection[str] = ()) -> Baseline:
    """What runs of the unchanged copy agree on. No reports at all is an environment error: nothing was seen.

    Runs that were cut off do not count where two or more were not; what a cut one did not reach says nothing of a test.
    `own` are the repository's paths, if known: a module that cannot be imported is then told from one that is not installed.
    """
    usable = [r for r in reports if r.ended != "lost"]
    whole = [r for r in usable if _whole(r)]
    usable = whole if len(whole) >= 2 else usable
    if not usable:
        return Baseline("environment_error", f"no run came to an end: {_problem(reports)}" if reports else "no test was run")
    ids = sorted({case.id for report in usable for case in report.cases})
    runs = {test: [o for report in usable if (o := outcome(report, test)) or _whole(report)] for test in ids}
    lacking = {test for test in ids if all(lacking_in(report, test, own) for report in usable)}
    seen = {test for test in ids if len(runs[test]) == len(usable)}  # red once may be chance
    failing = tuple(t for t in ids if t in seen - lacking and all(o in RED for o in runs[t]))
    passing = tuple(t for t in ids if all(o == "passed" for o in runs[t]))
    skipped = tuple(t for t in ids if t in lacking or all(o == "skipped" for o in runs[t]))
    flaky = tuple(t for t in ids if t not in {*failing, *passing, *skipped})
    verdict, reason = _verdict(usable, failing, passing, flaky, sorted(lacking), own)
    return Baseline(verdict, reason, failing, passing, flaky, skipped)


def _whole(report: Report) -> bool:
    """Did it come to its end? The one test that a command without test ids is takes as long as its run may."""
    return report.ended == "finished" or any(case.id == COMMAND for case in report.cases)


def clearest(reports: Sequence[Report], baseline: Baseline) -> Report:
    """The run that stands for all: one that came to its end, with the fewest tests that differ between runs."""
    return min(reports, key=lambda report: (not _whole(report), sum(case.id in baseline.flaky for case in report.cases)))


def _verdict(
    reports: Sequence[Report], failing: Sequence[str], passing: Sequence[str], flaky: Sequence[str], lacking: Sequence[str],
    own: Collection[str],
) -> tuple[Literal["red", "green", "flaky", "environment_error"], str]:
    ignored = f"; ignored because they differ between runs: {named(flaky)}" if flaky else ""
    ignored += f"; not run because the environment lacks something: {named(lacking)}" if lacking else ""
    if failing:
        return "red", f"{len(failing)} of {len(failing) + len(passing)} tests fail in every run: {named(failing)}{ignored}"
    if flaky:
        return "flaky", f"failures differ between {len(reports)} runs: {named(flaky)}"
    if not passing and all(own_fault(r.problem + "\n" + r.output, own) for r in reports):
        return "red", f"no test could be read, by a fault in the repository itself: {_problem(reports)}"
    if lacking or not passing:
        files = [test for test in lacking if test != COMMAND]
        what = f": {named(files)}" if files else ""
        said = f"; it said: {line[:200]}" if (line := last_line(reports[0])) else ""
        return "environment_error", f"{_problem(reports, 'no test ran')}{what}{said}"
    bad = next((r for r in reports if r.exit_code or r.problem or r.ended != "finished"), None)
    if bad is not None:
        return "environment_error", f"every test passes, yet the run ended with {bad.problem or bad.exit_code or bad.ended}"
    return "green", f"all {len(passing)} tests pass in {len(reports)} runs"


def judge(baseline: Baseline, report: Report) -> Judged:
    """Does every always-failing test pass now, does every always-passing one still, and was each reported and not skipped?

    Tests that the baseline does not know (they could not be read before) must pass too; flaky and skipped ones are not looked at.
    """
    known = {test: outcome(report, test) for test in (*baseline.failing, *baseline.passing)}
    fixed = tuple(t for t in baseline.failing if known[t] == "passed")
    broken = tuple(t for t in baseline.passing if known[t] not in ("passed", None))
    missing = tuple(t for t, o in known.items() if o is None)
    left_out = {*known, *baseline.flaky, *baseline.skipped}
    new = tuple(sorted({c.id for c in report.cases if c.id not in left_out and c.outcome in RED}))
    reason = _fault(baseline, report, known, broken, missing, new)
    reason_or_done = reason or f"{named(fixed)} pass and {len(baseline.passing)} others still do"
    return Judged(not reason, reason_or_done, fixed, (*broken, *new), missing)


def _fault(
    baseline: Baseline, report: Report, known: dict[str, TestOutcome | None], broken: Sequence[str], missing: Sequence[str],
    new: Sequence[str],
) -> str:
    still = [t for t in baseline.failing if known[t] not in ("passed", None)]
    if baseline.verdict != "red":
        return f"there is nothing to repair: {baseline.reason}"
    if report.ended != "finished":
        return f"the run ended early ({report.ended}){': ' + report.problem if report.problem else ''}"
    if report.problem:
        return report.problem
    if still:
        return f"still {known[still[0]]}: {named(still)}"
    if broken or new:
        return f"passed before and no longer: {named(broken)}" if broken else f"could not be read before and fail: {named(new)}"
    if missing:
        return f"expected and not reported: {named(missing)}"
    if not any(case.outcome == "passed" for case in report.cases):
        return "no test passed"
    excused = any(case.outcome in RED for case in report.cases)
    return f"every test passes, yet the command ended with {report.exit_code}" if report.exit_code and not excused else ""


def outcome(report: Report, test: str) -> TestOutcome | None:
    """What became of a test: the worst if it was reported more than once, and of a file without a report its tests' worst."""
    found = [c.outcome for c in report.cases if c.id == test] or [c.outcome for c in report.cases if within(c.id, test)]
    order: tuple[TestOutcome, ...] = ("error", "timed_out", "failed", "skipped", "passed")
    if found and set(found) == {"skipped", "passed"} and not any(c.id == test for c in report.cases):
        return "passed"
    return next((o for o in order if o in found), None)


def within(test: str, whole: str) -> bool:
    """Is it this very test, or one of this file, module or class?"""
    return test == whole or test.startswith((f"{whole}::", f"{whole} > ", f"{whole}."))


def table(report: Report, ref: BlobRef | None = None) -> TestTable:
    """A run in short. `failing` holds the first 20 of its cases that failed, erred or timed out."""
    failing = tuple(case for case in report.cases if case.outcome in RED)
    count = {o: sum(case.outcome == o for case in report.cases) for o in ("passed", "skipped")}
    return TestTable(
        passed=count["passed"], failed=len(failing), skipped=count["skipped"], failing=failing[:SHOWN], seconds=report.seconds,
        report=ref,
    )


def named(tests: Sequence[str]) -> str:
    """The first three, and how many more."""
    more = f" and {len(tests) - NAMED} more" if len(tests) > NAMED else ""
    return ", ".join(tests[:NAMED]) + more


def _problem(reports: Sequence[Report], otherwise: str = "nothing was reported") -> str:
    told = next((r.problem for r in reports if r.problem), "")
    return told or next((r.ended for r in reports if r.ended != "finished"), otherwise)
