"""A code fault on real parts: from the alert to a patched release that is measured well, and a branch whose tests pass.

With the Prometheus that is installed; the loop's test takes a Prometheus 3 where there is one.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autopatch.cli.lab.docker import Engine
from autopatch.cli.lab.payments import IMAGE
from autopatch.contract.actions import PatchCode
from services.executor.adapters.code import PATCHED
from tests.e2e.lab import Running, lab
from tests.e2e.test_loop import episode, nowhere
from tests.e2e.trace import tells_everything, trace_of

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.quiet, pytest.mark.timeout(900)]
FILE = "payments/releases/r3/refunds.py"
TEST = "tests/test_late_refunds.py"


def git(it: Running, *arguments: str) -> str:
    own = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
    command = ["git", "-C", it.places.repository, *arguments]
    return subprocess.run(command, env=own, capture_output=True, text=True, check=True).stdout.strip()


def test_a_code_fault_is_healed_from_its_alert_and_offered_as_a_branch_whose_tests_pass(tmp_path: Path) -> None:
    engine = Engine()
    engine.start()
    try:
        before = _images(engine)
        with lab(tmp_path / "lab", autonomy="approve") as it:
            seen = episode(it, "code", approve=True)
            plan = seen.view.plan
            assert plan and seen.model_calls == 0
            [step] = plan.steps
            assert isinstance(step.action, PatchCode) and step.action.files == (FILE,)
            assert any(f"{FILE}:" in item.summary for item in seen.view.evidence), "no traceback was read"
            assert seen.alert == "RefundsFail" and seen.broken and seen.broken > 0.05 and seen.healed == 0.0
            running = engine.docker("inspect", "--format", "{{.Config.Image}}", it.places.container)
            assert running == f"{IMAGE}:3-{step.action.diff[:12]}" and running in _images(engine)

            branch = f"autopatch/{seen.view.id}"
            assert seen.branch == branch and git(it, "status", "--porcelain") == ""
            assert git(it, "diff", "--name-status", f"main..{branch}").split() == ["M", FILE, "A", TEST]
            trailers = git(it, "log", "-1", "--format=%(trailers)", branch).splitlines()
            assert trailers == [f"Incident: {seen.view.id}", f"Trace: {seen.view.trace_id}"]
            git(it, "worktree", "add", "-q", str(tmp_path / "offered"), branch)
            tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
            done = subprocess.run(tests, cwd=tmp_path / "offered", capture_output=True, text=True, timeout=120, check=False)
            assert done.returncode == 0, done.stdout[-1000:]

            if it.places.jaeger:
                assert plan.rejected, "no edit that was tried and turned down"
                spans = tells_everything(trace_of(it, seen), seen)
                names = {span.name for span in spans.all}
                assert {"patch the code", "baseline of the source", "collect coverage", "offer a branch"} <= names
                assert spans.named("planner", "find a fix")[-1].tags["alternatives.rejected"]
            nowhere(it, seen)
        assert _images(engine) <= before, "an image was left"
        assert not Path(it.places.repository).exists()
    finally:
        engine.stop()


def _images(engine: Engine) -> set[str]:
    shown = engine.docker("images", "--filter", f"label={PATCHED}", "--format", "{{.Repository}}:{{.Tag}}", IMAGE)
    return set(shown.split())
