"""Real processes of the demo service on free loopback ports."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

DEMO = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(DEMO))


def free_ports(count: int) -> list[int]:
    """Ports that are free now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for each in sockets:
        each.close()
    return ports


class Running:
    """A service with its database; the configuration lies in `config` and the log in `log`."""

    def __init__(self, folder: Path, release: str) -> None:
        self.config = folder / "config.json"
        self.config.write_text((DEMO / "config.json").read_text())
        self._log = folder / "service.log"
        self.port, database_port = free_ports(2)
        command = [sys.executable, "-m", "payments", "--with-database", "--end-with-parent", "--config", str(self.config)]
        command += ["--port", str(self.port), "--database-port", str(database_port), "--release", release]
        with self._log.open("w") as log:
            self.process = subprocess.Popen(command, cwd=DEMO, stdin=subprocess.PIPE, stdout=log, stderr=log)
        deadline = time.monotonic() + 15
        while not self._answers():
            assert self.process.poll() is None and time.monotonic() < deadline, self.log
            time.sleep(0.05)

    @property
    def log(self) -> str:
        """Everything that service and database have written."""
        return self._log.read_text()

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The same, line by line: every one is a JSON object."""
        return [json.loads(line) for line in self.log.splitlines()]

    def call(self, path: str, body: dict[str, Any] | None = None, method: str = "") -> tuple[int, str]:
        """Status and text of the answer."""
        data = json.dumps(body).encode() if body is not None else None
        request = Request(f"http://127.0.0.1:{self.port}{path}", data=data, method=method or None)
        try:
            with urlopen(request, timeout=12) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()

    def reload(self) -> tuple[int, dict[str, Any]]:
        """Status and answer of POST /-/reload."""
        status, text = self.call("/-/reload", method="POST")
        return status, json.loads(text)

    def edit(self, key: str, value: str) -> None:
        """Puts another value behind `"key":`, by rename as a careful editor does."""
        text, count = re.subn(rf'("{key}": )("[^"]*"|[^,\s]+)', rf"\g<1>{value}", self.config.read_text())
        assert count == 1
        draft = self.config.with_suffix(".new")
        draft.write_text(text)
        os.replace(draft, self.config)

    def metric(self, name: str) -> float:
        """The sum over all series of that name."""
        found = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", self.call("/metrics")[1], re.MULTILINE)
        assert found, f"no metric {name}"
        return sum(map(float, found))

    def stop(self) -> None:
        """Ends it and waits."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(10)

    def _answers(self) -> bool:
        try:
            return self.call("/healthz")[0] == 200
        except URLError:
            return False


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Starts services; all are ended after the test."""
    started: list[Running] = []

    def begin(release: str = "1") -> Running:
        folder = tmp_path / f"service-{len(started)}"
        folder.mkdir()
        started.append(Running(folder, release))
        return started[-1]

    yield begin
    for each in started:
        each.stop()
        if each.process.stdin:
            each.process.stdin.close()


@pytest.fixture
def ports() -> Callable[[int], list[int]]:
    """Gives ports that are free now."""
    return free_ports
