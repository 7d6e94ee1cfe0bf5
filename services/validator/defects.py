"""Decides from runs of tests whether a job's repository is red, and whether a change cured it. Pure."""

from collections.abc import Callable

from autopatch.contract import events as ev
from autopatch.contract.code import Reports, TestTable
from autopatch.contract.evidence import BlobRef
from autopatch.repair.judging import RED, Baseline, judge, named, outcome, table

Fit = Callable[[TestTable], TestTable]


def reproduced(baseline: Baseline, ran: Reports, ref: BlobRef, fit: Fit) -> ev.Event:
    """Red when tests failed in every run. The run that is shown is the one with the fewest other failures, else with the most."""
    whole = [report for report in ran.reports if report.ended == "finished"] or ran.reports
    order = sorted(whole, key=lambda report: (sum(case.outcome in RED for case in report.cases), bool(report.problem)))
    shown = fit(table(order[0 if baseline.verdict == "red" else -1], ref)) if whole else TestTable(report=ref)
    if baseline.verdict == "red" and sum(report.ended != "lost" for report in ran.reports) < 2:
        reason = "one run took all the time that there is, and red once may be chance: nothing is changed; let it run fewer tests"
        return ev.NotReproduced(kind="environment_error", reason=reason, tests=shown)
    if baseline.verdict == "red":
        return ev.Reproduced(signal="tests", checks=(), tests=shown)
    return ev.NotReproduced(kind=baseline.verdict, reason=f"{baseline.reason}: nothing is changed", tests=shown)


def judged(baseline: Baseline, ran: Reports, ref: BlobRef, fit: Fit) -> ev.Event:
    """Recovered when what failed before failed again on the unchanged copy, and the changed copy keeps to the baseline."""
    unchanged = next((r for r in ran.reports if r.trial == ""), None)
    changed = next((r for r in ran.reports if r.trial == "diff"), None)
    if changed is None or unchanged is None:
        which = "changed" if changed is None else "unchanged"
        return ev.NotRecovered(reason=f"the {which} copy was not run in time, so nothing is proven")
    shown = fit(table(changed, ref))
    calm = [test for test in baseline.failing if outcome(unchanged, test) not in RED]
    if calm or judge(baseline, unchanged).ok:
        reason = f"on the unchanged copy {named(calm) or 'the tests'} did not fail again, so the change proves nothing"
        return ev.NotRecovered(reason=reason, tests=shown)
    verdict = judge(baseline, changed)
    return ev.Recovered(tests=shown) if verdict.ok else ev.NotRecovered(reason=verdict.reason, tests=shown)
