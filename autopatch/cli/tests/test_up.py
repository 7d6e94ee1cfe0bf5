"""autopatch up: two of them do not share a folder."""

import os
import subprocess
import sys
from pathlib import Path

from autopatch.cli import locks


def test_a_second_one_in_the_same_folder_says_where_the_first_is(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "nats"
    folder.mkdir(parents=True)
    with locks.held(folder / "lock") as ours:
        assert ours
        command = [sys.executable, "-c", "from autopatch.cli.main import main; main()", "up", "--room", "monitor"]
        result = subprocess.run(command, cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True, timeout=60)
    assert result.returncode == 1 and f"runs here already, with its data in {folder}" in result.stderr
    assert "AUTOPATCH_STATE" in result.stderr and "Traceback" not in result.stderr
