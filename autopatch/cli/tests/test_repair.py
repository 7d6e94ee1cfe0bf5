"""`autopatch repair` at a gateway on a real port, on whose log a job goes as it would."""

import asyncio
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from autopatch.cli.main import app
from autopatch.cli.tests.conftest import Run, only_json
from autopatch.contract import events as ev
from autopatch.contract.lifecycle import State
from autopatch.repair.tree import read_archive
from services.executor.tests import gitlab_api
from services.gateway.tests import job_story
from services.gateway.tests.serving import Served

CODE = "def double(x):\n    return x + x + 1\n"
FIXED = "def double(x):\n    return x + x\n"
DIFF = b"""\
diff --git a/calc.py b/calc.py
--- a/calc.py
+++ b/calc.py
@@ -1,2 +1,2 @@
 def double(x):
-    return x + x + 1
+    return x + x
"""


def git(folder: Path, *arguments: str) -> str:
    own = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(["git", *arguments], cwd=folder, env=own, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def calc(tmp_path: Path) -> Path:
    folder = tmp_path / "calc"
    folder.mkdir()
    (folder / "calc.py").write_text(CODE)
    (folder / "test_calc.py").write_text("from calc import double\n\ndef test_two():\n    assert double(2) == 4\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "config", "user.name", "Ann")
    git(folder, "config", "user.email", "ann@example.org")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "begin")
    return folder


@contextmanager
def rooms(gateway: Served, do: Any) -> Iterator[list[str]]:
    """A thread that waits for the job and then does what the rooms would; yields the incident's id once there is one."""
    seen, stop = list[str](), threading.Event()

    def work() -> None:
        while not gateway.chassis.log.stored and not stop.wait(0.02):
            pass
        if gateway.chassis.log.stored:
            seen.append(gateway.chassis.log.stored[0].envelope.incident_id)
            do(seen[0])

    thread = threading.Thread(target=work)
    thread.start()
    yield seen
    stop.set()
    thread.join()


@contextmanager
def fixing(gateway: Served) -> Iterator[list[str]]:
    with rooms(gateway, lambda name: asyncio.run(job_story.fixed(gateway.chassis, name, DIFF))) as seen:
        yield seen


def repair(run: Run, gateway: Served, *arguments: str, name: str = "olga") -> Result:
    with fixing(gateway):
        return run(name, "repair", *arguments)


def state(gateway: Served, incident: str) -> State:
    return asyncio.run(gateway.chassis.log.load(incident)).state  # type: ignore[no-any-return]


def test_a_person_sees_stages_tests_diff_and_verdict(run: Run, gateway: Served, calc: Path) -> None:
    result = repair(run, gateway, str(calc), "--test", "pytest -q", "--issue", "double(2) is 5")
    assert result.exit_code == 0, result.output
    wanted = [
        "opened", "olga", "double(2) is 5 on calc", "reproduced", "3 passed, 1 failed", "diagnosed", "planned", "rehearsed",
        "applied", "recovered", "Tests", "BEFORE", "AFTER", "test_calc.py::test_two  failed → passes", "Diff",
        "-    return x + x + 1",
        "fixed: failing tests pass", "sandbox runsc", "no model call", "drop-term",
    ]
    at = [result.stdout.find(part) for part in wanted]
    assert -1 not in at, wanted[at.index(-1)]
    assert (calc / "calc.py").read_text() == CODE and git(calc, "status", "--porcelain") == ""
    job = asyncio.run(gateway.chassis.log.load(gateway.chassis.log.stored[0].envelope.incident_id)).opened.job
    archive = asyncio.run(gateway.chassis.blobs.get(job.snapshot))
    assert job.commit == git(calc, "rev-parse", "HEAD") and set(read_archive(archive)) == {"calc.py", "test_calc.py"}


def test_a_machine_gets_the_verdict_and_nothing_else(run: Run, gateway: Served, calc: Path) -> None:
    found = only_json(repair(run, gateway, str(calc), "--json"))
    assert found["verdict"] == "fixed" and found["diff"] == DIFF.decode() and found["before"]["failed"] == 1
    assert found["after"]["passed"] == 4 and len(found["trace"]) == 32 and "delivered" not in found


def test_any_other_verdict_is_exit_code_1(run: Run, gateway: Served, calc: Path) -> None:
    green = ev.NotReproduced(reason="all tests pass", tests=job_story.AFTER)
    with rooms(gateway, lambda name: gateway.chassis.log.say(name, green, by="validator")):
        result = run("olga", "repair", str(calc), "--branch", "--apply", "--output", str(calc / "x.diff"))
    assert result.exit_code == 1 and "not reproduced: all tests pass" in result.stdout and "Diff" not in result.stdout
    assert "try: name a command whose tests fail" in result.stdout
    assert git(calc, "branch", "--list", "autopatch/*") == "" and not (calc / "x.diff").exists()
    assert (calc / "calc.py").read_text() == CODE


def test_ctrl_c_cancels_within_a_second_and_says_so(run: Run, gateway: Served, calc: Path) -> None:
    stopped: list[float] = []

    def stop(_: str) -> None:
        time.sleep(0.5)
        stopped.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    with rooms(gateway, stop) as seen:
        result = run("olga", "repair", str(calc), "--test", "pytest -q")
    assert time.monotonic() - stopped[0] < 1 and result.exit_code == 1
    assert "cancelled: cancelled by olga" in result.stdout
    assert state(gateway, seen[0]) is State.CANCELLED and gateway.chassis.live.told == seen


def test_ctrl_c_while_the_job_is_being_opened_cancels_it_once_it_is(
    run: Run, gateway: Served, calc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, interrupted = gateway.chassis.log.append, list[float]()

    async def slowly(*given: Any, **named: Any) -> Any:
        if not interrupted:
            interrupted.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(1)
        return await append(*given, **named)

    monkeypatch.setattr(gateway.chassis.log, "append", slowly)
    result = run("olga", "repair", str(calc), "--test", "pytest -q")
    assert result.exit_code == 1 and "cancelled: cancelled by olga" in result.stdout, result.output
    [incident] = {stored.envelope.incident_id for stored in gateway.chassis.log.stored}
    assert state(gateway, incident) is State.CANCELLED and gateway.chassis.live.told == [incident]


def test_ctrl_c_while_the_fix_is_judged_waits_until_it_is_undone(run: Run, gateway: Served, calc: Path) -> None:
    def judged(name: str) -> None:
        asyncio.run(job_story.applied(gateway.chassis, name, DIFF))
        time.sleep(0.4)
        os.kill(os.getpid(), signal.SIGINT)
        while state(gateway, name) is State.APPLIED:
            time.sleep(0.02)
        time.sleep(1)
        asyncio.run(job_story.undone(gateway.chassis, name))

    with rooms(gateway, judged) as seen:
        result = run("olga", "repair", str(calc), "--test", "pytest -q", "--apply")
    assert result.exit_code == 1 and "cancelled: cancelled by olga" in result.stdout, result.output
    assert state(gateway, seen[0]) is State.CANCELLED and (calc / "calc.py").read_text() == CODE


@pytest.mark.parametrize(("number", "given"), [(signal.SIGTERM, 1), (signal.SIGHUP, 1)])
def test_to_be_terminated_or_hung_up_cancels_too(
    run: Run, gateway: Served, calc: Path, number: signal.Signals, given: int
) -> None:
    def stop(_: str) -> None:
        time.sleep(0.4)
        os.kill(os.getpid(), number)

    with rooms(gateway, stop) as seen:
        assert run("olga", "repair", str(calc), "--json").exit_code == given
    assert state(gateway, seen[0]) is State.CANCELLED


def test_a_gateway_that_was_named_and_does_not_answer_is_exit_code_3(calc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOPATCH_URL", "http://127.0.0.1:9")
    result = CliRunner().invoke(app, ["repair", str(calc)])
    assert result.exit_code == 3 and "no answer at http://127.0.0.1:9" in result.stderr


@pytest.mark.parametrize(("arguments", "says"), [
    (["nowhere"], "nowhere is not a folder"), (["CALC", "--test", "pytest 'x"], "--test:"),
    (["CALC", "--image", "a b"], "--image"),
    (["CALC", "--issue", "x" * 8001], "--issue: 8001 characters"), (["CALC", "--test-seconds", "0"], "--test-seconds"),
    (["CALC", "--output", "/nowhere/x.diff"], "--output"), (["CALC", "--output", "."], "--output: . is a folder"),
    (["CALC", "--model", "off"], "--model: the gateway's own settings"),
    (["CALC", "--model", "large"], "--model"), (["CALC", "--pr"], "no remote origin"),
    (["CALC", "--toolchain", "node"], "no tests"),
    ([], "REPO"), (["CALC", "--wrong"], "--wrong"),
])
def test_wrong_usage_is_exit_code_2_names_what_is_wrong_and_asks_nobody(
    run: Run, gateway: Served, calc: Path, arguments: list[str], says: str
) -> None:
    result = run("olga", "repair", *(str(calc) if part == "CALC" else part for part in arguments))
    assert result.exit_code == 2 and says in result.stderr and "Traceback" not in result.output, result.output
    assert not gateway.chassis.log.stored


@pytest.mark.parametrize(("mode", "code", "says"), [
    ("remote", 2, "mode remote needs AUTOPATCH_LLM_BASE_URL and AUTOPATCH_LLM_MODEL"), ("local", 3, "autopatch model pull"),
])
def test_a_model_that_is_not_there_is_told_before_anything_begins(
    calc: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, code: int, says: str
) -> None:
    monkeypatch.setenv("AUTOPATCH_LLM_MODEL_DIR", str(tmp_path / "none"))
    result = CliRunner().invoke(app, ["repair", str(calc), "--model", mode])
    assert result.exit_code == code and says in result.stderr, result.output


def test_a_viewers_token_is_refused(run: Run, gateway: Served, calc: Path) -> None:
    result = repair(run, gateway, str(calc), name="vic")
    assert result.exit_code == 1 and "needs the role operator" in result.stderr


def test_an_issue_may_be_a_file(run: Run, gateway: Served, calc: Path, tmp_path: Path) -> None:
    (tmp_path / "issue.md").write_text("# double adds one\n")
    repair(run, gateway, str(calc), "--issue", str(tmp_path / "issue.md"))
    assert gateway.chassis.log.stored[0].envelope.data.job.issue == "# double adds one\n"


def test_apply_changes_the_working_tree_and_nothing_else(run: Run, gateway: Served, calc: Path) -> None:
    (calc / "notes.txt").write_text("mine\n")
    result = repair(run, gateway, str(calc), "--apply")
    assert result.exit_code == 0 and "applied to the working tree" in result.stdout
    assert (calc / "calc.py").read_text() == FIXED and (calc / "notes.txt").read_text() == "mine\n"
    assert git(calc, "diff", "--name-only") == "calc.py" and git(calc, "diff", "--cached", "--name-only") == ""


def test_apply_works_below_a_repositorys_top_and_without_git(run: Run, gateway: Served, calc: Path, tmp_path: Path) -> None:
    below, plain = calc / "part", tmp_path / "nogit" / "calc"
    for folder in (below, plain):
        folder.mkdir(parents=True)
        for name in ("calc.py", "test_calc.py"):
            (folder / name).write_text((calc / name).read_text())
        assert repair(run, gateway, str(folder), "--apply").exit_code == 0
        assert (folder / "calc.py").read_text() == FIXED
        gateway.chassis.log.stored.clear()


def test_apply_does_nothing_to_a_tree_that_has_changed_meanwhile(run: Run, gateway: Served, calc: Path) -> None:
    def meanwhile(name: str) -> None:
        (calc / "other.py").write_text("x = 1\n")
        asyncio.run(job_story.fixed(gateway.chassis, name, DIFF))

    with rooms(gateway, meanwhile):
        result = run("olga", "repair", str(calc), "--apply")
    assert result.exit_code == 1 and "has changed since the repair began" in result.stderr and "--output" in result.stderr
    assert (calc / "calc.py").read_text() == CODE and "fixed" in result.stdout


def test_the_diff_is_written_where_that_was_asked_for(run: Run, gateway: Served, calc: Path, tmp_path: Path) -> None:
    assert repair(run, gateway, str(calc), "--output", str(tmp_path / "fix.diff")).exit_code == 0
    assert (tmp_path / "fix.diff").read_bytes() == DIFF
    git(calc, "apply", "--check", str(tmp_path / "fix.diff"))


@pytest.mark.parametrize("given", [["--branch"], ["--branch", "fix/double"], ["--branch", "--json"]])
def test_a_branch_is_made_with_trailers_and_the_tree_stays(run: Run, gateway: Served, calc: Path, given: list[str]) -> None:
    (calc / "test_calc.py").write_text((calc / "test_calc.py").read_text() + "\n# mine\n")
    result = repair(run, gateway, str(calc), *given)
    incident = gateway.chassis.log.stored[0].envelope.incident_id
    name = "fix/double" if "fix/double" in given else f"autopatch/{incident}"
    assert result.exit_code == 0, result.output
    assert git(calc, "show", f"{name}:calc.py") + "\n" == FIXED and "# mine" not in git(calc, "show", f"{name}:test_calc.py")
    assert git(calc, "show", "-s", "--format=%(trailers:key=Incident,valueonly)", name).strip() == incident
    assert git(calc, "show", "-s", "--format=%s", name) == "Make test_calc.py::test_two pass"
    assert git(calc, "status", "--porcelain") == "M test_calc.py" and git(calc, "branch", "--show-current") == "main"
    if "--json" in given:
        assert only_json(result)["delivered"]["branch"] == name


def test_a_branch_that_is_there_already_is_told_before_anything_is_run(run: Run, gateway: Served, calc: Path) -> None:
    git(calc, "branch", "mine")
    result = repair(run, gateway, str(calc), "--branch", "mine", "--apply")
    assert result.exit_code == 2 and "branch mine is at" in result.stderr and not gateway.chassis.log.stored
    told = repair(run, gateway, str(calc), "--branch", "mine", "--json")
    assert told.exit_code == 2 and "branch mine is at" in only_json(told)["error"]


@pytest.mark.parametrize("given", [[], ["--json"]])
def test_a_branch_that_cannot_be_pushed_is_told_all_the_same(
    run: Run, gateway: Served, calc: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: list[str]
) -> None:
    git(calc, "remote", "add", "origin", f"git@gitlab.com:{gitlab_api.PROJECT}.git")
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text("#!/bin/sh\nexit 1\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("AUTOPATCH_FORGE_GITLAB_TOKEN", gitlab_api.TOKEN)
    result = repair(run, gateway, str(calc), "--pr", "--branch", "fix/double", *given)
    made = git(calc, "rev-parse", "fix/double")
    assert result.exit_code == 1, result.output
    if given:
        assert only_json(result)["delivered"] == {"branch": "fix/double", "commit": made}
        assert only_json(result)["verdict"] == "fixed" and "git push" in only_json(result)["error"]
    else:
        assert f"branch fix/double at {made[:12]}" in result.stdout and "git push" in result.stderr


def test_a_merge_request_is_opened_for_the_pushed_branch(
    run: Run, gateway: Served, calc: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "there.git")], check=True)
    git(calc, "remote", "add", "origin", f"git@gitlab.com:{gitlab_api.PROJECT}.git")
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    command = f"case $last in *receive-pack*) git-receive-pack {tmp_path}/there.git;; esac"
    ssh.write_text(f"#!/bin/sh\nfor last; do :; done\n{command}\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")
    with gitlab_api.served() as gitlab:
        monkeypatch.setenv("AUTOPATCH_FORGE_GITLAB_API", gitlab.url)
        refused = run("olga", "repair", str(calc), "--pr")
        assert refused.exit_code == 2 and "AUTOPATCH_FORGE_GITLAB_TOKEN" in refused.stderr
        monkeypatch.setenv("AUTOPATCH_FORGE_GITLAB_TOKEN", gitlab_api.TOKEN)
        gitlab.branches.add("fix/double")
        result = repair(run, gateway, str(calc), "--pr", "--branch", "fix/double")
        assert result.exit_code == 0, result.output
        assert f"{gitlab_api.PROJECT}/-/merge_requests/1" in result.stdout
        asked = gitlab.requests[0]
    assert git(tmp_path / "there.git", "rev-parse", "fix/double") == git(calc, "rev-parse", "fix/double")
    assert asked["title"] == "Make test_calc.py::test_two pass" and "3 passed, 1 failed" in asked["description"]
