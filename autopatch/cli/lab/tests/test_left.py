"""Is a private engine still there although nobody uses it any more? A process stands in for it."""

import fcntl
import subprocess
import sys
from pathlib import Path

from autopatch.cli.lab.docker import left


def test_a_private_engine_that_nobody_uses_is_told_and_one_that_somebody_uses_is_not(tmp_path: Path) -> None:
    assert left("", "lab-1-x", tmp_path) == []
    command = [sys.executable, "-c", "import time; time.sleep(60)", "--data-root", f"{tmp_path}/data"]
    engine = subprocess.Popen(command)
    try:
        assert left("", "lab-1-x", tmp_path) == [f"a private Docker engine (process {engine.pid})"]
        assert left("", "lab-1-x", tmp_path / "another") == []
        with (tmp_path / "users").open() as users:
            fcntl.flock(users, fcntl.LOCK_SH)
            assert left("", "lab-1-x", tmp_path) == []
    finally:
        engine.kill()
        engine.wait()
    assert left("", "lab-1-x", tmp_path) == []
