"""The demo service in its container, the load on it, and the ways to break it."""

import json
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx2

from autopatch.cli.lab.docker import LABEL, Engine
from autopatch.cli.lab.probes import LOOPBACK, Reserved, answers_http
from autopatch.cli.lab.process import Server, wait_until
from autopatch.cli.lab.programs import ROOT
from autopatch.contract.errors import Unavailable
from services.executor.adapters.code import PATCHED

DEMO = ROOT / "infra" / "demo"
IMAGE = "autopatch-demo-payments"
CALM, RAISED = 60, 130
"""Requests per second: well within the pool of 10 connections (111), and beyond it but within a pool of 20 (222)."""


@dataclass(frozen=True)
class Traffic:
    """What the load generator saw in the last five seconds."""

    rate: float
    p95_s: float
    error_ratio: float
    requests: int


class Payments:
    """One container and one load generator; `address` is host:port of the service, `config` its file on this machine,
    `repository` its source as release 3 was built of it."""

    def __init__(self, engine: Engine, folder: Path, lab: str) -> None:
        self.container = f"autopatch-payments-{lab}"
        self.config = folder / "config" / "config.json"
        self.repository = folder / "repository"
        self._engine = engine
        self._folder = folder
        self._lab = lab
        self._ports = Reserved("service", "database")
        self._load: Server | None = None

    @property
    def address(self) -> str:
        """Of the service."""
        return f"{LOOPBACK}:{self._ports['service']}"

    @property
    def url(self) -> str:
        """Of the service."""
        return f"http://{self.address}"

    def start(self) -> None:
        """The good release with the configuration as it is shipped. Raises Unavailable."""
        self.reset_config()
        self._lay_out()
        self.deploy("1")

    def reset_config(self) -> None:
        """The configuration file as it is shipped."""
        self.config.parent.mkdir(parents=True, exist_ok=True)
        self.config.parent.chmod(0o755)
        shutil.copyfile(DEMO / "config.json", self.config)
        self.config.chmod(0o644)

    def deploy(self, release: str) -> None:
        """Replace the container by one of that release, as a deployment would; returns when it is healthy. Raises Unavailable."""
        with suppress(Unavailable):
            self._engine.remove([self.container])
        self._engine.docker(
            "run", "--detach", "--name", self.container, "--network", "host", "--read-only", "--init", "--cap-drop", "ALL",
            "--security-opt", "no-new-privileges", "--memory", "256m", "--pids-limit", "128", "--label", f"{LABEL}={self._lab}",
            "--volume", f"{self.config.parent}:/etc/payments:ro", f"{IMAGE}:{release}",
            "python3", "-m", "payments", "--with-database", "--port", str(self._ports["service"]),
            "--database-port", str(self._ports["database"]),
        )
        wait_until(answers_http(f"{self.url}/healthz"), 20, "payments")

    def restore(self) -> None:
        """As before fault and fix: the shipped configuration, taken over without a restart, and the good release."""
        self.reset_config()
        if self.release != "1":
            self.deploy("1")
        answer = httpx2.post(f"{self.url}/-/reload", timeout=5, trust_env=False)
        if not answer.is_success:
            raise Unavailable("payments", f"reload: status {answer.status_code}: {answer.text[:200]}")

    @property
    def release(self) -> str:
        """Of the running container."""
        return self._engine.docker("inspect", "--format", "{{.Config.Image}}", self.container).rpartition(":")[2]

    def load(self, rate: float) -> None:
        """Requests per second from now on; starts the load generator when it does not run."""
        self._rate_file.parent.mkdir(parents=True, exist_ok=True)
        self._rate_file.write_text(f"{rate}\n")
        if self._load and self._load.pid:
            return
        command = [sys.executable, DEMO / "load.py", "--url", self.url, "--rate", str(rate), "--rate-file", self._rate_file]
        command += ["--report", self._report, "--seconds", "86400"]
        self._report.unlink(missing_ok=True)
        self._load = Server("load", command, log=self._folder / "load.log", ready=self._reported)
        self._load.start()

    @property
    def traffic(self) -> Traffic:
        """Of the last five seconds. Raises Unavailable when the load generator has not reported."""
        try:
            seen = json.loads(self._report.read_text())
        except (OSError, ValueError) as error:
            raise Unavailable("load", f"no report yet: {error}") from error
        return Traffic(seen["rate"], seen["p95_s"], seen["error_ratio"], seen["requests"])

    def exhaust_pool(self) -> None:
        """Fault `pool`: more requests than ten connections can serve."""
        self.load(RAISED)

    def release_bad(self) -> None:
        """Fault `release`: version 2 is deployed, which fails on a share of the requests."""
        self.deploy("2")

    def release_raising(self) -> None:
        """Fault `code`: version 3 is deployed, which raises on a share of the refunds."""
        self.deploy("3")

    def log_lines(self, lines: int = 20) -> str:
        """The last lines of the service's log."""
        return self._engine.docker("logs", "--tail", str(lines), self.container)

    def stop(self) -> None:
        """End the load and remove the container. Safe to repeat."""
        if self._load:
            self._load.stop()
        if self._engine.host:
            self._engine.remove(self._engine.containers(self._lab))
            self._remove_patched()
        shutil.rmtree(self.repository, ignore_errors=True)
        self._ports.close()

    def _lay_out(self) -> None:
        shutil.rmtree(self.repository, ignore_errors=True)
        command = [sys.executable, str(DEMO / "repository.py"), str(self.repository)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise Unavailable("git", f"the service's repository: {done.stderr.strip()[-300:]}", tip="install git")

    def _remove_patched(self) -> None:
        """Images that a fix made, but those that the service of another lab runs."""
        for image in self._engine.docker("images", "--quiet", "--filter", f"label={PATCHED}", IMAGE).split():
            with suppress(Unavailable):
                self._engine.docker("rmi", image)

    def _reported(self) -> str:
        return "" if self._report.exists() else "no report yet"

    @property
    def _rate_file(self) -> Path:
        return self._folder / "rate"

    @property
    def _report(self) -> Path:
        return self._folder / "traffic.json"
