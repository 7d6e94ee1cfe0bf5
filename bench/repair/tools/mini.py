"""mini-swe-agent without a person: the model writes shell commands, which run in a container without network."""

import json
import shlex
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autopatch.contract.errors import Unavailable
from bench.repair.case import Case, read
from bench.repair.peers import program
from bench.repair.proc import run
from bench.repair.tools import GRACE_S, Attempted, Counting
from bench.repair.tools.checkout import make

STEPS = 12
COMMAND_S = 60
LINGER_S = 10
"""It stops its container in the background; what is there after that is left behind."""
LABEL = "org.autopatch.bench"


@dataclass
class Mini:
    """`host` is the engine's DOCKER_HOST, `images` a test image for each toolchain. It is not run without an engine."""

    counting: Counting
    host: str
    images: Mapping[str, str]
    name: str = "mini"

    @property
    def how(self) -> str:
        """For the report."""
        return f"mini-swe-agent, text commands, at most {STEPS} steps, commands in a container without network"

    def repair(self, case: Case, folder: Path, limit_s: float) -> Attempted:
        """How it ended is in its trajectory; its exit code says nothing. Containers that it leaves are counted and removed.

        One that we had to kill at the limit could not clean up: there none are counted.
        """
        if not self.host:
            raise Unavailable("docker", "there is no engine", tip="a model's shell commands are never run on this machine itself")
        if case.toolchain not in self.images:
            raise Unavailable("docker", f"there is no {case.toolchain} image", tip="infra/images/build.sh makes it")
        mini = program("mini")
        repository, run_id = make(case, folder), uuid.uuid4().hex[:12]
        repository.chmod(0o777)
        with self.counting() as proxy:
            env = self._environment(folder)
            line = self._line(mini, case, repository, run_id, proxy.address, limit_s)
            ran = run(line, folder, env, limit_s, linger_s=LINGER_S, grace_s=GRACE_S)
            used = proxy.reset()
        left = self._remove(run_id, env)
        ended, calls = outcome(folder / "trajectory.json")
        return Attempted(
            read(repository), reason=ended or ran.stderr.strip()[-300:], calls=used.calls, prompt_tokens=used.prompt_tokens,
            output_tokens=used.output_tokens, attempts=calls, seconds=ran.seconds, late=ran.code is None,
            leaked=left if ran.code is not None else 0,
        )

    def _line(self, mini: Path, case: Case, repository: Path, run_id: str, address: str, limit_s: float) -> list[str]:
        box = [
            "--rm", "--init", "--network", "none", "--memory", "256m", "--pids-limit", "128", "--cap-drop", "ALL",
            "--label", f"{LABEL}={run_id}", "--volume", f"{repository}:/repo",
        ]
        settings = {
            "model.model_kwargs.api_base": address, "model.model_kwargs.api_key": "none", "model.model_kwargs.temperature": 0,
            "agent.step_limit": STEPS, "agent.wall_time_limit_seconds": int(limit_s), "environment.timeout": COMMAND_S,
            "environment.image": self.images[case.toolchain], "environment.cwd": "/repo",
            "environment.run_args": json.dumps(box), "environment.interpreter": '["bash","-c"]',
        }
        task = f"Tests in this repository fail. Fix the source, not the tests. Run the tests by: {shlex.join(case.command)}"
        return [
            str(mini), "-m", "openai/local", "--model-class", "litellm_textbased", "--agent-class", "default", "-y",
            "--exit-immediately", "-l", "0", "--environment-class", "docker", "-c", "mini_textbased.yaml",
            *(part for key, value in settings.items() for part in ("-c", f"{key}={value}")),
            "-o", str(repository.parent / "trajectory.json"), "-t", task,
        ]

    def _environment(self, folder: Path) -> dict[str, str]:
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder), "LANG": "C.UTF-8", "DOCKER_HOST": self.host,
            "OPENAI_API_KEY": "none", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "MSWEA_CONFIGURED": "true",
            "MSWEA_COST_TRACKING": "ignore_errors", "MSWEA_GLOBAL_CONFIG_DIR": str(folder / "settings"),
        }

    def _remove(self, run_id: str, env: Mapping[str, str]) -> int:
        listing = ["docker", "ps", "--all", "--quiet", "--filter", f"label={LABEL}={run_id}"]
        found = run(listing, Path("/"), env, 30).stdout.split()
        if found:
            run(["docker", "rm", "--force", "--volumes", *found], Path("/"), env, 60)
        return len(found)


def outcome(trajectory: Path) -> tuple[str, int]:
    """How it ended and how many calls it counted; ('', 0) when it wrote nothing that can be read."""
    try:
        info: dict[str, Any] = json.loads(trajectory.read_text("utf-8"))["info"]
        return str(info.get("exit_status", "")), int(info.get("model_stats", {}).get("api_calls", 0))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return "", 0
