"""A lab in a process of its own: it ends with whoever started it, and only then."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autopatch.cli import locks
from autopatch.cli.lab.docker import Engine
from autopatch.cli.lab.hosted import Hosted, end, kept, left
from autopatch.cli.lab.lab import LOCK
from autopatch.contract.errors import Unavailable

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(240)]

STARTER = """
import json, sys, time
from pathlib import Path
from autopatch.cli.lab.hosted import Hosted
hosted = Hosted(model="off", base=Path(sys.argv[1]))
places = hosted.start(lambda what, *_: print(what, flush=True))
print(json.dumps({"pids": places.pids, "lab": places.lab}), flush=True)
hosted.keep() if sys.argv[2] == "keep" else time.sleep(600)
"""


def starter(base: Path, keep: str = "") -> "subprocess.Popen[str]":
    """Somebody who starts a lab and tells each step."""
    base.chmod(0o755)
    return subprocess.Popen([sys.executable, "-c", STARTER, str(base), keep], stdout=subprocess.PIPE, text=True)


def processes_of(base: Path) -> list[str]:
    """Command lines of processes that have to do with this folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if str(base) in command and "pytest" not in command.split(str(base))[0]:
            found.append(command)
    return found


def wait_gone(base: Path, within_s: float = 40) -> list[str]:
    deadline = time.monotonic() + within_s
    while (left := processes_of(base)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return left


def test_killing_the_starter_while_the_lab_starts_leaves_nothing(tmp_path: Path) -> None:
    owner = starter(tmp_path)
    assert owner.stdout
    for line in owner.stdout:
        if line.strip() == "payments":
            break
    assert processes_of(tmp_path)
    owner.kill()
    owner.wait()
    owner.stdout.close()
    assert wait_gone(tmp_path) == []
    engine = Engine()
    engine.start()
    try:
        assert engine.docker("ps", "--all", "--quiet", "--filter", f"volume={tmp_path}/lab-1/payments/config") == ""
    finally:
        engine.stop()


@pytest.mark.long
def test_a_kept_lab_outlives_its_starter_and_is_found_and_ended(tmp_path: Path) -> None:
    owner = starter(tmp_path, "keep")
    assert owner.stdout
    told = [line for line in owner.stdout if line.startswith("{")]
    assert owner.wait() == 0 and told
    owner.stdout.close()
    assert all(Path(f"/proc/{pid}").exists() for pid in json.loads(told[0])["pids"].values())
    ((places, pid),) = kept(tmp_path)
    assert places.folder == str(tmp_path / "lab-1")
    end(pid)
    assert wait_gone(tmp_path, 5) == [] and left(places) == [] and kept(tmp_path) == []


def test_what_fails_in_the_lab_is_told_with_its_reason(tmp_path: Path) -> None:
    hosted = Hosted(model="no-such-mode", base=tmp_path)
    with pytest.raises(Unavailable, match="rooms: ended with exit code"):
        hosted.start(lambda *_: None)
    hosted.discard()
    assert len(os.listdir(hosted.folder)) > 1, "it has not ended: its files stay"
    hosted.stop()
    assert wait_gone(tmp_path, 5) == []
    with locks.held(hosted.folder / LOCK):
        hosted.discard()
    assert len(os.listdir(hosted.folder)) > 1, "another lab is in there"
    hosted.discard()
    assert os.listdir(hosted.folder) == [LOCK]
