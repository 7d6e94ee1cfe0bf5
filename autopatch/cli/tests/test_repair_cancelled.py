"""`autopatch repair`, stopped at random moments: its containers, its children and its model call end with it."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import docker
import pytest

from autopatch.chassis.llm.settings import LlmSettings
from autopatch.cli.tests.test_repair_real import git
from services.executor.adapters.runtimes.process import start_ticks
from services.executor.adapters.sandbox.owner import OWNER

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(3000)]
MODELS = LlmSettings().model_dir
STEPS = "".join(f"    at = at * {n} - {n + 1} if at > {n} else at + {n}\n" for n in range(2, 40))
FILES = {
    "till.py": f"def total(at):\n{STEPS}    return at\n",
    "test_till.py": "import time\nimport till\n\n\ndef test_total():\n    time.sleep(0.1)\n    assert till.total(3) == 'three'\n",
}
"""No single edit heals it, and there are many: the search takes its whole time, and then the model is asked."""


def unhealable(folder: Path) -> Path:
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "as found")
    return folder


def children(folder: Path) -> list[str]:
    """Processes that work in this folder: nats-server and the model's server."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = each.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line:
            found.append(line)
    return found


@pytest.mark.parametrize(("mode", "count"), [
    ("off", 3), pytest.param("off", 100, marks=pytest.mark.long),
    pytest.param("local", 20, marks=[pytest.mark.long, pytest.mark.model]),
])
def test_stopped_at_any_moment_it_is_gone_soon_and_leaves_nothing(
    docker_host: str, tmp_path: Path, mode: str, count: int
) -> None:
    repository, chance, took, held = unhealable(tmp_path / "till"), random.Random(count), [], 0
    env = {name: text for name, text in os.environ.items() if not name.startswith("AUTOPATCH_")} | {
        "DOCKER_HOST": docker_host, "XDG_CACHE_HOME": str(tmp_path / "cache"), "AUTOPATCH_LLM_MODEL_DIR": str(MODELS),
        "AUTOPATCH_LLM_RUN_DIR": str(tmp_path / "model"),
    }
    command = [sys.executable, "-m", "autopatch", "repair", str(repository), "--test", "pytest -q", "--model", mode, "--json"]
    client = docker.DockerClient(base_url=docker_host, version="auto")
    for _ in range(count):
        process = subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        owner = {"label": f"{OWNER}={socket.gethostname()}/{process.pid}/{start_ticks(process.pid)}"}
        time.sleep(chance.uniform(0.5, 10 if mode == "off" else 40))
        held += bool(client.api.containers(all=True, filters=owner))
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        while left := children(tmp_path) or client.api.containers(all=True, filters=owner):
            assert time.monotonic() < began + 5, left
            time.sleep(0.02)
        took.append(time.monotonic() - began)
        assert process.returncode == 1 and "cancelled" in out + err and "Traceback" not in err, (out, err)
    client.close()
    took.sort()
    p95 = took[int(0.95 * (count - 1))]
    print(f"stopped {count} times, {held} in containers: p50 {took[count // 2]:.2f} s, p95 {p95:.2f} s, longest {took[-1]:.2f} s")
    assert git(repository, "status", "--porcelain") == "" and held >= count // 3
    assert took[-1] < 4 if count < 20 else (took[-1] < 2 and p95 < 1)
