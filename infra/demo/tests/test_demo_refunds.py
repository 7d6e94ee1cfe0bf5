"""Release 3: its fault in the running service, in a rehearsal, in its own repository, and what heals it."""

import asyncio
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DEMO = Path(__file__).resolve().parents[1]
LATE = {"amount_cents": 1250, "currency": "EUR", "days": 121}
SOURCE = "payments/releases/r3/refunds.py"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from repository import commit

    folder = tmp_path_factory.mktemp("repository") / "payments"
    commit(folder)
    return folder


@pytest.fixture
def copy(repository: Path, tmp_path: Path) -> Path:
    """One that a test may change."""
    return Path(shutil.copytree(repository, tmp_path / "payments"))


def pytest_in(folder: Path) -> tuple[int, str]:
    command = [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True).stdout


def mend(folder: Path) -> None:
    """By hand: the loop ends after the last step."""
    text = (folder / SOURCE).read_text()
    assert text.count("step <= len(STEPS)") == 1
    (folder / SOURCE).write_text(text.replace("step <= len(STEPS)", "step < len(STEPS)"))


def test_refunds_after_the_last_step_raise_and_everything_else_is_answered(start: Any) -> None:
    service = start("3")
    assert service.call("/refunds", LATE)[0] == 500
    for order in ({**LATE, "days": 120}, {"amount_cents": 1250, "currency": "CHF"}):
        assert service.call("/refunds", order)[0] == 200
    assert service.call("/payments", LATE)[0] == 200
    assert service.call("/refunds", {**LATE, "days": "many"}) == (400, '{"error": "days must be a whole number from 0 to 36500"}')
    [error] = [line for line in service.lines if line["level"] == "error"]
    assert (error["message"], error["days"], error["release"]) == ("cannot compute the refund", 121, "3")
    assert error["error"] == "IndexError: tuple index out of range" and f'{SOURCE}", line ' in error["traceback"]
    text = service.call("/metrics")[1]
    assert 'payments_exceptions_total{part="refund"} 1.0' in text and 'payments_exceptions_total{part="fee"} 0.0' in text


def test_a_refund_says_what_of_the_fee_goes_back_and_in_which_parts(start: Any) -> None:
    status, text = start("3").call("/refunds", {"amount_cents": 1250, "currency": "EUR", "days": 20, "instalments": 2})
    assert status == 200 and '"fee_cents": 43, "fee_back_cents": 21, "parts": [636, 635]' in text


def test_under_the_demo_s_load_one_of_eight_refunds_raises_and_no_payment(start: Any) -> None:
    from load import Load

    service = start("3")

    async def run() -> list[int]:
        load = Load("127.0.0.1", service.port, 80)
        await load.run(4)
        await load.finish(10)
        return [sample.status for sample in load.samples]

    statuses = asyncio.run(run())
    [failed] = re.findall(r'^payments_requests_total\{route="/refunds",status="500"\} (\S+)$', service.call("/metrics")[1], re.M)
    [refunds] = re.findall(r'^payments_requests_received_total\{route="/refunds"\} (\S+)$', service.call("/metrics")[1], re.M)
    assert statuses.count(500) == float(failed) == service.metric("payments_exceptions_total")
    assert 0.08 < float(failed) / float(refunds) < 0.18 and float(failed) / len(statuses) < 0.05


def test_release_2_fails_in_its_fees_and_not_in_its_refunds(start: Any) -> None:
    service = start("2")
    assert service.call("/refunds", {"amount_cents": 1250, "currency": "CHF", "days": 200})[0] == 500
    assert service.call("/refunds", {"amount_cents": 1250, "currency": "EUR", "days": 200})[0] == 200
    assert 'payments_exceptions_total{part="refund"} 0.0' in service.call("/metrics")[1]


def test_its_own_tests_are_green_and_the_attached_one_is_red_until_the_loop_is_mended(copy: Path) -> None:
    from repository import ATTACHED

    code, said = pytest_in(copy)
    assert code == 0 and "failed" not in said
    shutil.copy(ATTACHED, copy / "tests")
    code, said = pytest_in(copy)
    assert code == 1 and "1 failed" in said and "IndexError" in said and SOURCE in said
    mend(copy)
    assert pytest_in(copy)[0] == 0, "also with the attached test"
    assert git(copy, "diff", "--stat").splitlines()[-1] == " 1 file changed, 1 insertion(+), 1 deletion(-)"


def test_the_rehearsal_is_red_with_the_fault_and_green_without_it(copy: Path) -> None:
    def rehearsed() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-B", "rehearse.py", "--config", "config.json", "--rate", "60", "--max-p95", "2"]
        return subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)

    red = rehearsed()
    assert red.returncode == 1 and "cannot compute the refund: IndexError: tuple index out of range" in red.stderr
    mend(copy)
    assert rehearsed().returncode == 0


def test_equal_sources_make_equal_commits_whose_last_change_is_release_3(repository: Path, tmp_path: Path) -> None:
    from repository import commit

    assert commit(tmp_path / "again") == git(repository, "rev-parse", "HEAD").strip()
    assert git(repository, "log", "--format=%s").splitlines()[1:] == ["One rate for every currency"]
    changed = git(repository, "diff", "--name-only", "HEAD~1", "HEAD").splitlines()
    assert SOURCE in changed and "payments/releases/r1.py" in changed
    assert git(repository, "status", "--porcelain") == "" and not (repository / "tests" / "test_late_refunds.py").exists()


def test_a_folder_that_is_there_is_named_and_left_alone(tmp_path: Path) -> None:
    command = [sys.executable, str(DEMO / "repository.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and f"{tmp_path} is there already" in done.stderr and list(tmp_path.iterdir()) == []
