"""Is a private engine still there although nobody uses it any more? A process stands in for it."""

import fcntl
from pathlib import Path

from autopatch.cli.lab.docker import left
from autopatch.cli.tests.conftest import process


def test_a_private_engine_that_nobody_uses_is_told_and_one_that_somebody_uses_is_not(tmp_path: Path) -> None:
    assert left("", "lab-1-x", tmp_path) == []
    with process("--data-root", f"{tmp_path}/data") as engine:
        assert left("", "lab-1-x", tmp_path) == [f"a private Docker engine (process {engine})"]
        assert left("", "lab-1-x", tmp_path / "another") == []
        with (tmp_path / "users").open() as users:
            fcntl.flock(users, fcntl.LOCK_SH)
            assert left("", "lab-1-x", tmp_path) == []
    assert left("", "lab-1-x", tmp_path) == []
