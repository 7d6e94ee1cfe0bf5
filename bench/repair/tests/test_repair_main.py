"""The command, as a person calls it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from docker import DockerClient

from autopatch.contract.errors import Unavailable

from bench.repair.boxes import by_toolchain, place
from bench.repair.peers import ROOT
from bench.repair.tests.scripted import KEY, scripted
from bench.repair.tests.test_repair_judge import CASE

FIX = "```python\ndef is_bulky(parcel):\n    return max(parcel.length, parcel.width, parcel.height) > BULKY_SIDE\n```\n"


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "AUTOPATCH_LLM_API_KEY": KEY}
    line = [sys.executable, "-m", "bench.repair", *arguments]
    return subprocess.run(line, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=110)


def test_a_run_ends_in_a_report_and_is_not_repeated(tmp_path: Path) -> None:
    with scripted(FIX) as server:
        line = ["--tool", "model-alone", "--mode", "local", "--endpoint", server.endpoint.base_url, "--judge", "process"]
        line += ["--cases", "2", "--seed", "3", "--out", str(tmp_path)]
        first = call(*line)
        asked = len(server.asked)
        second = call(*line)
        assert first.returncode == second.returncode == 0, first.stderr + second.stderr
        assert first.stdout.strip() == str(tmp_path / "report.md")
        assert len(server.asked) == asked
    data = json.loads((tmp_path / "report.json").read_text())
    assert len(data["runs"][0]["results"]) == 2
    assert re.search(r"\| model-alone local, seed 3 \|", (tmp_path / "report.md").read_text())


@pytest.mark.parametrize(("arguments", "said"), [
    (("--suite", "humanevalfix"), "--data FOLDER"),
    (("--suite", "humanevalfix", "--data", "/nowhere"), "/nowhere/cases.jsonl"),
    (("--tool", "aider", "--judge", "process"), "aider does nothing without a model (--mode local)"),
])
def test_a_mistake_is_one_line_with_its_remedy(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = call(*arguments, "--out", str(tmp_path))
    assert done.returncode == 1 and said in done.stderr and "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_images_are_found_by_their_names() -> None:
    names = ["autopatch-sandbox:x", "autopatch-sandbox-node:x", "autopatch-demo-payments:1"]
    assert by_toolchain(names) == {"python": names[0], "node": names[1]}
    assert by_toolchain(names[:1]) == {"python": names[0]}
    with pytest.raises(Unavailable, match="build.sh"):
        by_toolchain(names[2:])


@pytest.mark.docker
def test_a_container_judges_as_a_process_does_and_is_gone_afterwards() -> None:
    with place("container") as at:
        red = at.box.run(CASE.repository, CASE.command, 60)
        assert red.code == 1 and "1 failed" in red.stdout
        right = {**CASE.repository, "calc.py": b"def add(a, b):\n    return a + b\n"}
        green = at.box.run(right, CASE.command, 60)
        assert green.code == 0 and "1 passed" in green.stdout
        late = at.box.run({"x.py": b"while True: pass\n"}, ("python3", "x.py"), 2)
        assert late.code is None
        names = [container.name or "" for container in DockerClient(at.host).containers.list(all=True, ignore_removed=True)]
        assert not [name for name in names if name.startswith("bench-repair-")]
