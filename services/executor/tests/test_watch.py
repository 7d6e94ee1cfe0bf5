"""What process 1 makes of a child that begins late, takes too long, or ends before its tests do: real children, no sandbox."""

import json
import os
import subprocess
import time
from typing import Any

import pytest

from autopatch.contract.code import Report
from autopatch.repair.judging import expected, judge
from services.executor.adapters.inside.watch import RESTARTS, Watch

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
