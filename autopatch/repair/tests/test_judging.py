"""What is expected of a later run, and what is not believed."""

import pytest

from autopatch.contract import code
from autopatch.contract.code import Frame, Report, TestOutcome
from autopatch.repair.judging import expected, judge, outcome, table

T = "tests/test_calc.py"


def run(exit_code: int | None = None, /, **outcomes: TestOutcome) -> Report:
    """A finished run; names become ids of one file."""
    bad = any(o not in ("passed", "skipped") for o in outcomes.values())
    cases = tuple(code.TestCase(id=f"{T}::{name}", outcome=o) for name, o in outcomes.items())
    return Report(ended="finished", exit_code=int(bad) if exit_code is None else exit_code, cases=cases)


def unread(message: str, *frames: Frame, name: str = T) -> Report:
    """A run in which a file of tests could not be read."""
    case = code.TestCase(id=name, outcome="error", message=message, frames=frames)
    return Report(ended="finished", exit_code=2, cases=(case,), problem=f"{name} could not be collected: {message}")


def test_a_test_that_fails_in_every_run_is_to_be_repaired_and_one_that_passes_is_to_be_kept() -> None:
    baseline = expected([run(a="failed", b="passed", c="skipped"), run(a="error", b="passed", c="skipped")])
    assert (baseline.verdict, baseline.failing, baseline.passing) == ("red", (f"{T}::a",), (f"{T}::b",))
    assert baseline.skipped == (f"{T}::c",)


def test_a_green_repository_is_green() -> None:
    assert expected([run(a="passed"), run(a="passed")]).verdict == "green"


def test_failures_that_come_and_go_are_flaky_and_are_named() -> None:
    baseline = expected([run(a="failed", b="passed"), run(a="passed", b="passed")])
    assert (baseline.verdict, baseline.flaky) == ("flaky", (f"{T}::a",))
    assert f"{T}::a" in baseline.reason


def test_a_stable_failure_is_repaired_although_others_are_flaky() -> None:
    baseline = expected([run(a="failed", b="failed"), run(a="failed", b="passed")])
    assert (baseline.verdict, baseline.failing, baseline.flaky) == ("red", (f"{T}::a",), (f"{T}::b",))
    assert f"{T}::b" in baseline.reason


def test_a_test_that_is_not_reported_in_every_run_is_flaky() -> None:
    assert expected([run(a="failed", b="passed"), run(a="failed")]).flaky == (f"{T}::b",)


NINE: dict[str, TestOutcome] = {f"t{n}": "passed" for n in range(9)}
FULL = run(**NINE, bad="failed")
CUT = run(t0="passed", t1="passed", t2="timed_out").model_copy(update={"ended": "timed_out", "exit_code": None})


@pytest.mark.parametrize("runs", [[*[FULL] * 9, CUT], [CUT, FULL, FULL]])
def test_what_a_run_that_was_cut_off_did_not_reach_is_not_flaky(runs: list[Report]) -> None:
    baseline = expected(runs)
    assert (baseline.verdict, baseline.failing, len(baseline.passing), baseline.flaky) == ("red", (f"{T}::bad",), 9, ())
    assert not judge(baseline, run(**{**NINE, "t8": "failed"}, bad="passed")).ok


def test_of_one_whole_run_and_one_that_was_cut_off_what_both_do_not_deny_is_expected() -> None:
    baseline = expected([run(a="failed", b="passed", c="failed"), run(a="failed").model_copy(update={"ended": "timed_out"})])
    assert (baseline.failing, baseline.passing) == ((f"{T}::a",), (f"{T}::b",))
    assert baseline.flaky == (f"{T}::c",), "red once may be chance"


def test_a_test_that_takes_too_long_now_and_then_is_flaky_and_so_is_a_command() -> None:
    assert expected([run(a="failed", b="passed"), run(a="failed", b="timed_out")]).flaky == (f"{T}::b",)
    ok = Report(ended="finished", exit_code=0, cases=(code.TestCase(id="command", outcome="passed"),))
    slow = Report(ended="timed_out", cases=(code.TestCase(id="command", outcome="timed_out"),))
    assert expected([ok, ok, slow]).flaky == ("command",)


@pytest.mark.parametrize("report", [
    Report(ended="finished", exit_code=5, problem="no tests were collected"),
    Report(ended="finished", exit_code=127, problem="pytestx is not in the image"),
    Report(ended="timed_out", problem="no test was begun in 60 s"),
    Report(ended="out_of_memory", problem="the tests' process ended before its tests did"),
    Report(ended="lost", problem="the sandbox went away"),
    unread("ModuleNotFoundError: No module named 'numpy'", Frame(path=T, line=1)),
    unread("ModuleNotFoundError: No module named 'numpy'", Frame(path=T, line=1), Frame(path="calc.py", line=2)),
    unread(f'File "/w/{T}", line 3 SyntaxError: invalid syntax'),
    unread("TypeError: f() takes no arguments", Frame(path=T, line=9)),
    unread("ImportError: Failed to import test module: test_a\nModuleNotFoundError: No module named 'numpy'", name="tests.a"),
    unread("Cannot find package 'lodash' imported from /w/test/a.test.js", name="test/a.test.js"),
    unread("ModuleNotFoundError: No module named 'numpy'", name="command"),
    run(a="skipped"),
    run(3, a="passed"),
])
def test_without_a_verdict_of_tests_it_is_the_environment(report: Report) -> None:
    assert expected([report, report], ["calc.py", T]).verdict == "environment_error"


@pytest.mark.parametrize(("output", "verdict"), [
    ("/usr/bin/python3: No module named pytst\n", "environment_error"),
    ("one\nModuleNotFoundError: No module named 'numpy'\n\n", "environment_error"),
    ("ModuleNotFoundError: No module named 'calc'\n", "red"), ("No module named 'numpy' is fine\n1 of 3 failed\n", "red"),
])
def test_of_a_command_without_test_ids_the_last_words_tell_what_is_missing(output: str, verdict: str) -> None:
    report = unread("exit code 1", name="command").model_copy(update={"output": output})
    found = expected([report, report], ["calc.py", T])
    assert found.verdict == verdict and (verdict == "red" or ": command" not in found.reason)


def test_an_environment_error_says_what_the_run_said_last() -> None:
    output = "collected 0 items\n\nERROR: file or directory not found: nosuch.py\n"
    report = Report(ended="finished", exit_code=4, problem="pytest does not take this command", output=output)
    told = expected([report, report]).reason
    assert "pytest does not take this command; it said: ERROR: file or directory not found: nosuch.py" in told


def test_no_runs_at_all_are_no_verdict() -> None:
    assert expected([]).verdict == "environment_error"


@pytest.mark.parametrize("report", [
    unread('File "/w/calc.py", line 3 SyntaxError: invalid syntax', Frame(path=T, line=1)),
    unread("NameError: name 'sqrt' is not defined", Frame(path=T, line=1), Frame(path="calc.py", line=9)),
    unread("ImportError: cannot import name 'add' from 'calc' (/w/calc.py)", Frame(path=T, line=1)),
    unread("ModuleNotFoundError: No module named 'calc.parts'", Frame(path=T, line=1)),
    unread('ImportError: Failed to import test module: a\n  File "/w/calc.py", line 2\nNameError: x', name="tests.a"),
    unread("The requested module '../sum.js' does not provide an export named 'sum'", name="test/a.test.js"),
    unread("ReferenceError: x is not defined", Frame(path="lib/sum.js", line=2), name="test/a.test.js"),
    unread("AssertionError: exit code 1", name="command"),
])
def test_a_fault_in_the_repositorys_own_source_is_red_even_when_no_test_could_be_read(report: Report) -> None:
    baseline = expected([report, report], ["calc.py", "calc/__init__.py", T])
    assert (baseline.verdict, baseline.failing) == ("red", (report.cases[0].id,))


def test_a_test_that_fails_by_an_error_of_its_own_is_not_taken_for_a_file_that_could_not_be_read() -> None:
    frames = (Frame(path=T, line=9),)
    case = code.TestCase(id="tests.test_a.Case.test_one", outcome="error", message="TypeError: no", frames=frames)
    report = Report(ended="finished", exit_code=1, cases=(case,))
    assert expected([report]).failing == (case.id,)


def test_a_fault_in_source_without_any_case_is_red_too() -> None:
    output = '  File "/w/lib/calc.py", line 3\nSyntaxError: x'
    report = Report(ended="finished", exit_code=1, problem="SyntaxError", output=output)
    baseline = expected([report])
    assert (baseline.verdict, baseline.failing) == ("red", ())
    assert judge(baseline, run(a="passed")).ok
    assert not judge(baseline, report).ok


def test_a_file_that_lacks_a_package_does_not_keep_others_from_being_repaired() -> None:
    case = code.TestCase(id="tests/test_plot.py", outcome="error", message="ModuleNotFoundError: No module named 'numpy'")
    before = run(a="failed", b="passed")
    report = before.model_copy(update={"cases": (*before.cases, case), "exit_code": 1})
    baseline = expected([report, report], ["calc.py"])
    assert (baseline.verdict, baseline.skipped) == ("red", ("tests/test_plot.py",))
    after = run(a="passed", b="passed")
    assert judge(baseline, after.model_copy(update={"cases": (*after.cases, case), "exit_code": 1})).ok


RED = expected([run(a="failed", b="passed", c="passed")] * 2)


def test_a_cure_fixes_what_failed_and_keeps_what_passed() -> None:
    judged = judge(RED, run(a="passed", b="passed", c="passed"))
    assert (judged.ok, judged.fixed) == (True, (f"{T}::a",))


@pytest.mark.parametrize(("report", "word"), [
    (run(a="failed", b="passed", c="passed"), "still failed"),
    (run(a="skipped", b="passed", c="passed"), "still skipped"),
    (run(a="passed", b="failed", c="passed"), "no longer"),
    (run(a="passed", b="skipped", c="passed"), "no longer"),
    (run(a="passed", b="passed"), "not reported"),
    (run(b="passed", c="passed"), "not reported"),
    (run(a="passed", b="passed", c="passed", d="failed"), "could not be read before"),
    (run(1, a="passed", b="passed", c="passed"), "ended with 1"),
    (Report(ended="finished", exit_code=0), "not reported"),
    (run(a="passed", b="passed", c="passed").model_copy(update={"ended": "timed_out"}), "early"),
    (run(a="passed", b="passed", c="passed").model_copy(update={"problem": "wrote to the channel"}), "channel"),
])
def test_anything_less_is_refused_with_its_reason(report: Report, word: str) -> None:
    judged = judge(RED, report)
    assert not judged.ok
    assert word in judged.reason


def test_a_test_that_is_reported_twice_counts_by_its_worst() -> None:
    report = run(a="passed", b="passed", c="passed")
    twice = report.model_copy(update={"cases": (*report.cases, code.TestCase(id=f"{T}::a", outcome="failed"))})
    assert not judge(RED, twice).ok


def test_a_flaky_test_is_not_looked_at_when_it_is_judged() -> None:
    baseline = expected([run(a="failed", b="failed"), run(a="failed", b="passed")])
    assert judge(baseline, run(a="passed", b="failed")).ok


def test_a_file_that_could_not_be_read_is_cured_when_all_its_tests_pass() -> None:
    baseline = expected([unread('File "/w/calc.py", line 3 SyntaxError: invalid syntax')] * 2, ["calc.py"])
    assert judge(baseline, run(a="passed", b="skipped")).fixed == (T,)
    assert not judge(baseline, run(a="passed", b="failed")).ok
    assert not judge(baseline, run(a="skipped")).ok
    for whole, one in (("test/a.test.js", "test/a.test.js > adds"), ("tests.test_a", "tests.test_a.Case.test_one")):
        report = Report(ended="finished", exit_code=0, cases=(code.TestCase(id=one, outcome="passed"),))
        assert outcome(report, whole) == "passed"
    assert outcome(run(a="passed", b="timed_out"), T) == "timed_out"


def test_what_is_not_red_is_never_judged_cured() -> None:
    assert not judge(expected([run(a="passed")]), run(a="passed")).ok


def test_a_table_counts_and_shows_twenty_failures_at_most() -> None:
    failed: dict[str, TestOutcome] = {f"t{n}": "failed" for n in range(25)}
    shown = table(run(**failed, p="passed", s="skipped"))
    assert (shown.passed, shown.failed, shown.skipped, len(shown.failing)) == (1, 25, 1, 20)
