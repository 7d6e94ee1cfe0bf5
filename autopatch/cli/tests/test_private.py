"""`autopatch repair` without a gateway: a private AutoPatch in a process of its own, gone with the command."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from autopatch.chassis.settings import Common, load
from autopatch.cli import private
from autopatch.cli.tests.test_repair import calc as calc
from autopatch.cli.tests.test_repair import git

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path, calc: Path) -> Iterator[Start]:
    """A repair in a process and a session of its own, whose files are all in `tmp_path`."""
    begun: list[subprocess.Popen[str]] = []

    def begin(*arguments: str, **environment: str) -> subprocess.Popen[str]:
        own = {
            "PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "COLUMNS": "200",
            "AUTOPATCH_EXECUTOR_DOCKER_HOST": f"unix://{tmp_path}/nobody.sock", "AUTOPATCH_WAITING_LIMIT_S": "600",
        }
        command = [sys.executable, "-c", "from autopatch.cli.main import main; main()", "repair", str(calc), *arguments]
        begun.append(subprocess.Popen(
            command, cwd=tmp_path, env={**own, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        ))
        return begun[-1]

    yield begin
    for process in begun:
        if process.poll() is None:
            process.kill()
        process.communicate()


def servers(tmp_path: Path) -> list[int]:
    """Processes whose command line names our folder."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = each.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"nats-server" in words[0] and any(os.fsencode(tmp_path) in word for word in words):
            found.append(int(each.parent.name))
    return found


def within(seconds: float, done: Callable[[], Any]) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def current(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "autopatch" / "repair" / "current"


def log(tmp_path: Path) -> str:
    path = tmp_path / "cache" / "autopatch" / "repair" / "repair.log"
    return path.read_text() if path.exists() else ""


def waits(tmp_path: Path) -> bool:
    """The job is on its log and its first room waits for an engine that is not there."""
    return '"event": "waiting"' in log(tmp_path)


def test_without_an_engine_the_verdict_says_so_and_nothing_is_left_running(start: Start, tmp_path: Path, calc: Path) -> None:
    process = start("--json", "--branch", AUTOPATCH_WAITING_LIMIT_S="0.5")
    out, _ = process.communicate(timeout=60)
    found = json.loads(out)
    assert process.returncode == 3 and found["verdict"] == "sandbox_unavailable" and "nobody.sock" in found["reason"]
    assert not servers(tmp_path) and not current(tmp_path).exists()
    assert git(calc, "status", "--porcelain") == "" and git(calc, "branch", "--list", "autopatch/*") == ""


def test_ctrl_c_ends_everything_within_two_seconds_and_says_so(start: Start, tmp_path: Path) -> None:
    process = start("--test", "pytest -q")
    within(30, lambda: waits(tmp_path))
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert time.monotonic() - began < 4, "two seconds, and as much again for a busy machine"
    assert process.returncode == 1
    assert "cancelled: cancelled by" in out and "Traceback" not in err and not servers(tmp_path)


@pytest.mark.parametrize("after_s", [0.0, 0.15, 0.4, 0.8, 1.2])
def test_ctrl_c_while_it_starts_is_no_traceback_either(start: Start, tmp_path: Path, after_s: float) -> None:
    process = start("--test", "pytest -q")
    within(30, lambda: (tmp_path / "cache").exists())
    time.sleep(after_s)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 1 and "cancelled" in out + err and "Traceback" not in err, err
    within(5, lambda: not servers(tmp_path))


def test_a_run_that_was_killed_leaves_no_server_and_the_next_one_does_not_take_its_job_up(start: Start, tmp_path: Path) -> None:
    process = start("--test", "pytest -q")
    within(30, lambda: waits(tmp_path))
    left = current(tmp_path).read_text()
    process.kill()
    process.communicate()
    within(5, lambda: not servers(tmp_path))
    second = start("--json", "--test", "pytest -q", AUTOPATCH_WAITING_LIMIT_S="0.5")
    out, _ = second.communicate(timeout=60)
    assert json.loads(out)["incident"] != left
    told = [json.loads(line) for line in log(tmp_path).splitlines()]
    assert not [entry for entry in told if entry.get("incident") == left and entry["event"] == "waiting"]


def test_two_at_a_time_do_not_disturb_each_other(start: Start, tmp_path: Path) -> None:
    first = start("--test", "pytest -q")
    within(30, lambda: waits(tmp_path))
    second = start("--test", "pytest -q", AUTOPATCH_WAITING_LIMIT_S="0.5", TMPDIR=str(tmp_path))
    out, err = second.communicate(timeout=60)
    assert "another repair is under way" in err and "sandbox unavailable" in out and first.poll() is None
    assert not list(tmp_path.glob("autopatch-repair-*"))
    first.send_signal(signal.SIGTERM)
    assert first.wait(10) == 1


def test_a_stale_address_of_an_autopatch_that_has_ended_is_told_and_not_used(start: Start, tmp_path: Path) -> None:
    kept = tmp_path / ".autopatch" / "cli.json"
    kept.parent.mkdir()
    kept.write_text(json.dumps({"url": "http://127.0.0.1:9", "token": "x"}))
    kept.chmod(0o600)
    process = start("--test", "pytest -q", AUTOPATCH_WAITING_LIMIT_S="0.5")
    _, err = process.communicate(timeout=60)
    assert "nothing answers at http://127.0.0.1:9" in err and process.returncode == 3


def test_wrong_usage_leaves_nothing_behind(start: Start, tmp_path: Path) -> None:
    process = start("--test", "pytest 'x")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2 and "--test" in err and "Traceback" not in err and not servers(tmp_path)


def test_its_locks_are_in_its_own_folder_for_the_machines_are_the_first_users(tmp_path: Path) -> None:
    job = private._Job(tmp_path, Common(), None, lambda _: None)
    (executor,) = [blueprint for blueprint in job._blueprints() if blueprint.name == "executor"]
    assert load(executor.settings, **executor.given).locks == str(tmp_path / "locks")


def test_a_cache_that_cannot_be_made_is_named_with_its_remedy(start: Start, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    out, err = start("--test", "pytest -q", XDG_CACHE_HOME=str(tmp_path / "file")).communicate(timeout=30)
    assert f"error: {tmp_path}/file/autopatch/repair: Not a directory" in out + err and "set XDG_CACHE_HOME" in out + err
