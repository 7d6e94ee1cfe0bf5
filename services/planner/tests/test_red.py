"""Whether a test that a runbook attaches fails, by whatever id its tool gives it."""

import pytest

from autopatch.contract.code import CodeJob
from autopatch.contract.evidence import BlobRef
from autopatch.repair.judging import Baseline
from services.planner.adapters.code.red import not_red

JOB = CodeJob(repository="r", snapshot=BlobRef(name="s", size=0, digest="s"), tree="t", commit="c" * 40, command=("python",))
REFUNDS = "tests/test_refunds.py"


@pytest.mark.parametrize(("attached", "failing", "shown"), [
    (REFUNDS, "tests.test_refunds.RefundTest.test_half", True), (REFUNDS, "tests.test_refunds", True),
    (REFUNDS, f"{REFUNDS}::test_half", True), (REFUNDS, REFUNDS, True), ("test/a.test.js", "test/a.test.js > adds", True),
    (REFUNDS, "tests.test_refunds_old.RefundTest.test_half", False), (REFUNDS, "test_refunds.RefundTest.test_half", False),
    ("test/a.js", "test/a.jsx > adds", False),
])
def test_an_attached_file_of_tests_fails_when_one_of_its_tests_does(attached: str, failing: str, shown: bool) -> None:
    why = not_red(Baseline("red", "1 test fails", failing=("tests/test_own.py::test_two", failing)), (attached,), JOB)
    assert (not why) is shown and (shown or f"{attached}, which the runbook attaches, passes" in why)
