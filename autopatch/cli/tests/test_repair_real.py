"""`autopatch repair` as a person runs it: a private AutoPatch, real containers, a repository that is left alone."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from autopatch.contract.code import RepairVerdict

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(300)]
MICRO = Path(__file__).parents[3] / "bench" / "repair" / "micro"


def git(folder: Path, *arguments: str) -> str:
    own = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
    command = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@t", *arguments]
    return subprocess.run(command, env=own, capture_output=True, text=True, check=True).stdout.strip()


def checkout(case: str, folder: Path) -> Path:
    repository = folder / case
    subprocess.run(["cp", "-r", str(MICRO / case / "repo"), str(repository)], check=True)
    git(repository, "init", "--quiet")
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "as found")
    return repository


def repair(docker_host: str, repository: Path, folder: Path, *arguments: str) -> tuple[int, RepairVerdict]:
    own = {name: text for name, text in os.environ.items() if not name.startswith("AUTOPATCH_")}
    own |= {"DOCKER_HOST": docker_host, "XDG_CACHE_HOME": str(folder / "cache"), "AUTOPATCH_STATE": str(folder / "state")}
    command = [sys.executable, "-m", "autopatch", "repair", str(repository), "--model", "off", "--json", *arguments]
    done = subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, timeout=240)
    assert "Traceback" not in done.stderr, done.stderr[-2000:]
    return done.returncode, RepairVerdict.model_validate({
        name: value for name, value in json.loads(done.stdout).items() if name != "delivered"
    })


def test_a_red_repository_gets_a_diff_that_git_takes_and_is_left_as_it_was(docker_host: str, tmp_path: Path) -> None:
    repository = checkout("pages", tmp_path)
    file = tmp_path / "fix.diff"
    code, found = repair(docker_host, repository, tmp_path, "--output", str(file), "--branch", "mended")
    assert (code, found.verdict) == (0, "fixed") and found.basis.startswith("template")
    assert found.before and found.after and found.before.failed == 3 and found.after.failed == 0
    assert found.after.passed == found.before.passed + 3
    assert git(repository, "status", "--porcelain") == "" and file.read_text() == found.diff
    git(repository, "apply", "--check", str(file))
    body = git(repository, "log", "-1", "--format=%B", "mended")
    assert f"Incident: {found.incident}" in body and "Trace: " in body


@pytest.mark.parametrize(("case", "verdict"), [
    ("slugs", "not_reproduced"),
    pytest.param("backoff", "flaky", marks=pytest.mark.long),
    pytest.param("gauges", "environment_error", marks=pytest.mark.long),
])
def test_where_there_is_nothing_to_mend_the_verdict_says_why(docker_host: str, tmp_path: Path, case: str, verdict: str) -> None:
    repository = checkout(case, tmp_path)
    code, found = repair(docker_host, repository, tmp_path)
    assert (code, found.verdict) == (1, verdict) and found.reason and not found.diff
    assert git(repository, "status", "--porcelain") == ""
