"""The command line as a person uses it, against a gateway on a real port."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner, Result

from autopatch.cli.main import app
from services.gateway.tests.fakes import FakeChassis
from services.gateway.tests.serving import Served, served
from services.gateway.tests.story import target

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing of this machine's own settings; what the gateway logs in this process stays out of the output."""
    for name in ("AUTOPATCH_URL", "AUTOPATCH_TOKEN", "AUTOPATCH_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AUTOPATCH_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "200")
    with capture_logs():
        yield


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path, FakeChassis(target())) as found:
        yield found


@pytest.fixture
def run(gateway: Served, monkeypatch: pytest.MonkeyPatch) -> Run:
    """run("ann", "incidents", "list") with that person's token."""

    def call(name: str, *arguments: str, **more: Any) -> Result:
        monkeypatch.setenv("AUTOPATCH_URL", gateway.url)
        monkeypatch.setenv("AUTOPATCH_TOKEN", gateway.tokens.get(name, ""))
        return CliRunner().invoke(app, list(arguments), **more)

    return call


def only_json(result: Result) -> Any:
    """What is on stdout, which must be JSON and nothing else."""
    return json.loads(result.stdout)


@contextmanager
def process(*words: str) -> Iterator[int]:
    """One that has these words on its command line and waits to be ended."""
    said = "import time; print(flush=True); time.sleep(60)"
    running = subprocess.Popen([sys.executable, "-c", said, *words], stdout=subprocess.PIPE)
    assert running.stdout and running.stdout.readline()  # its command line can be read by now
    reaping = threading.Thread(target=running.wait)
    reaping.start()
    try:
        yield running.pid
    finally:
        running.terminate()
        reaping.join()
        running.stdout.close()
