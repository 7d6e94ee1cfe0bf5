"""What process 1 makes of a child that begins late, takes too long, or ends before its tests do: real children, no sandbox."""

import json
import os
import subprocess
import time
from typing import Any

import pytest

from autopatch.contract.code import Report
from autopatch.repair.judging import expected, judge
from services.executor.adapters.inside.watch import RESTARTS, Watch, all_passed

PATIENCE_S = 20.0


def watch(test_s: float = 5, *, unchanged: bool = False, until_failure: bool = False) -> Watch:
    return Watch(test_s, time.monotonic() + PATIENCE_S, unchanged, until_failure)


def told(**said: object) -> str:
    """A line of the shell that reports this."""
    return f"echo 'token {json.dumps(said)}'\n"


def follow(watching: Watch, script: str) -> None:
    """One child, which reports on its standard output."""
    (reports, reports_in), (output, output_in), (stack, stack_in) = os.pipe(), os.pipe(), os.pipe()
    child = subprocess.Popen(["sh", "-c", script], stdout=reports_in, stderr=output_in)
    for fd in (reports_in, output_in, stack_in):
        os.close(fd)
    watching.follow(child.pid, reports, output, stack, "token")
    child.kill()
    child.wait()


def report(watching: Watch, trial: str = "") -> Report:
    said: dict[str, Any] = watching.report()
    said.pop("changed")
    return Report.model_validate({**said, "trial": trial})


PASSED = told(at="t::a") + told(case={"id": "t::a", "outcome": "passed"}) + told(end=0, changed=[])


def test_a_candidate_whose_first_test_begins_late_is_no_slow_candidate() -> None:
    watching = watch(0.1)
    follow(watching, "sleep 1.5\n" + PASSED)
    assert [(case.id, case.outcome) for case in report(watching, "one").cases] == [("t::a", "passed")]
    assert (report(watching).ended, report(watching).problem) == ("finished", "")


@pytest.mark.parametrize(("script", "outcome"), [("exit 3", "error"), ("sleep 5", "timed_out")])
def test_where_the_first_failure_is_enough_no_other_child_runs_the_rest(script: str, outcome: str) -> None:
    watching, patient = watch(0.1, until_failure=True), watch(0.1)
    for one in (watching, patient):
        follow(one, told(at="t::a") + script)
    assert (watching.again, patient.again) == (False, True)
    assert (report(watching).ended, report(watching).cases[0].outcome) == ("finished", outcome)


def test_after_so_many_tests_that_were_given_up_the_run_took_too_long_and_no_sandbox_was_lost() -> None:
    watching = watch(unchanged=True)
    follow(watching, PASSED.replace(told(end=0, changed=[]), "") + told(at="t::0") + "exit 3")
    for number in range(1, RESTARTS):
        assert watching.again
        follow(watching, told(at=f"t::{number}") + "exit 3")
    ended = report(watching)
    assert (watching.again, ended.ended) == (False, "timed_out")
    assert ended.problem == "40 tests ended their process or took too long"
    baseline = expected([ended, ended])
    assert (baseline.verdict, len(baseline.failing), baseline.passing) == ("red", RESTARTS, ("t::a",))
    assert not judge(baseline, ended).ok and ended.problem in judge(baseline, ended).reason


def test_a_candidate_whose_process_ends_early_has_failed_and_of_the_unchanged_copy_nothing_is_known() -> None:
    candidate, unchanged = watch(), watch(unchanged=True)
    for one in (candidate, unchanged):
        follow(one, "exit 3")
        assert report(one).problem == "the tests' process ended before its tests did (exit code 3)"
    assert (report(candidate).ended, report(unchanged).ended) == ("finished", "lost")


@pytest.mark.parametrize(("first", "second", "outcome"), [
    ("passed", "passed", "passed"), ("passed", "failed", "failed"), ("failed", "passed", "failed"), ("failed", "error", "error"),
    ("skipped", "passed", "skipped"),
])
def test_of_a_test_that_is_told_twice_the_worse_outcome_counts(first: str, second: str, outcome: str) -> None:
    watching = watch()
    cases = "".join(told(at="t::a") + told(case={"id": "t::a", "outcome": one, "message": one}) for one in (first, second))
    follow(watching, cases + told(end=0, changed=[]))
    assert [(case.id, case.outcome, case.message) for case in report(watching).cases] == [("t::a", outcome, outcome)]
    assert (report(watching).ended, report(watching).problem) == ("finished", "")


def test_a_test_that_was_told_to_have_passed_and_then_ends_its_process_has_not() -> None:
    watching = watch()
    follow(watching, told(case={"id": "t::a", "outcome": "passed"}) + told(at="t::a") + "exit 0")
    assert [case.outcome for case in report(watching).cases] == ["error"]


def test_an_outcome_that_there_is_not_is_no_report_of_a_test() -> None:
    watching = watch()
    follow(watching, told(case={"id": "t::a", "outcome": "fine"}) + PASSED)
    assert report(watching).problem == "the code wrote to the channel of the test reports"


@pytest.mark.parametrize(("cases", "passed"), [
    ({"t.T.a": "passed", "t.T.b": "skipped", "t.U.a": "failed"}, True), ({"t.T.a": "passed", "t.T.b": "failed"}, False),
    ({"t.T.a": "skipped"}, False), ({"t.T": "error", "t.T.a": "passed"}, False), ({"t.Tall.a": "passed"}, False),
])
def test_a_class_that_was_asked_for_has_passed_when_its_tests_have(cases: dict[str, str], passed: bool) -> None:
    said = {"problem": "", "ended": "finished", "cases": [{"id": name, "outcome": outcome} for name, outcome in cases.items()]}
    assert all_passed(said, ["t.T"]) is passed
    assert all_passed({**said, "cases": [{"id": "t/a.py::x", "outcome": "passed"}]}, ["t/a.py"])
