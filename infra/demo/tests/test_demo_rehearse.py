"""The verdicts of the rehearsal."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

DEMO = Path(__file__).resolve().parents[1]


def begin(tmp_path: Path, pool_size: str, release: str, *options: str) -> subprocess.Popen[str]:
    config = tmp_path / f"config-{pool_size}-{release}.json"
    text = (DEMO / "config.json").read_text().replace("demo-Gq7xW2-not-for-logs", "***")
    config.write_text(text.replace('"pool_size": 10', f'"pool_size": {pool_size}'))
    command = [sys.executable, str(DEMO / "rehearse.py"), "--config", str(config), "--release", release, *options]
    return subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def verdict(rehearsal: subprocess.Popen[str]) -> tuple[int, dict[str, Any], str]:
    out, err = rehearsal.communicate(timeout=40)
    assert not rehearsal.returncode or err
    return rehearsal.returncode, json.loads(out) if out else {}, err


def test_twenty_connections_are_green(tmp_path: Path) -> None:
    code, figures, reasons = verdict(begin(tmp_path, "20", "1"))
    assert code == 0, reasons
    assert figures["p95_s"] <= 0.2 and figures["error_ratio"] == 0 and figures["pool_size"] == 20
    assert all(isinstance(value, int | float) for value in figures.values())


def test_the_faults_and_a_wrong_fix_are_red(tmp_path: Path) -> None:
    begun = {"10": begin(tmp_path, "10", "1"), "9": begin(tmp_path, "9", "1"), "bad release": begin(tmp_path, "20", "2")}
    found = {name: verdict(rehearsal) for name, rehearsal in begun.items()}
    assert {name: code for name, (code, _, _) in found.items()} == {"10": 1, "9": 1, "bad release": 1}
    assert found["10"][1]["p95_s"] > 0.5 and found["9"][1]["p95_s"] > 0.5
    assert "waited for a connection from the pool" in found["10"][2]
    assert found["bad release"][1]["error_ratio"] > 0.1
    assert "cannot compute the fee: KeyError" in found["bad release"][2]


def test_a_configuration_that_cannot_start_is_neither(tmp_path: Path) -> None:
    code, figures, reasons = verdict(begin(tmp_path, '"many"', "1"))
    assert (code, figures) == (2, {})
    assert "database.pool_size" in reasons


def test_no_load_is_no_proof(tmp_path: Path) -> None:
    code, _, reasons = verdict(begin(tmp_path, "20", "1", "--rate", "0", "--seconds", "0.5"))
    assert code == 1 and "nothing was measured" in reasons
