"""Real servers for tests. Each is a child process with files of its own, on a free port, ended with its test or session."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autopatch.cli.lab import alertmanager as alertmanagers
from autopatch.cli.lab import jaeger as jaegers
from autopatch.cli.lab import nats
from autopatch.cli.lab import prometheus as prometheuses
from autopatch.cli.lab.alertmanager import Alertmanager
from autopatch.cli.lab.docker import Engine
from autopatch.cli.lab.jaeger import Jaeger
from autopatch.cli.lab.nats import Nats
from autopatch.cli.lab.process import Server
from autopatch.cli.lab.programs import CACHE
from autopatch.cli.lab.prometheus import Prometheus
from autopatch.contract.errors import Unavailable

PROMETHEUS_3 = CACHE / "prometheus"


@pytest.fixture
def nats_server(tmp_path: Path) -> Iterator[Nats]:
    """A fresh server; `kill` and `start` it as you like."""
    server = nats.start(tmp_path / "nats")
    yield server
    server.stop()


@pytest.fixture
def keep_track() -> Iterator[Callable[[Server], None]]:
    """Servers that are handed over are stopped after the test, last one first."""
    started: list[Server] = []
    yield started.append
    for server in reversed(started):
        server.stop()


@pytest.fixture
def start_prometheus(tmp_path: Path, keep_track: Callable[[Server], None]) -> Callable[..., Prometheus]:
    """Takes what `autopatch.cli.lab.prometheus.start` takes, but the folder."""

    def start(**given: str | Path) -> Prometheus:
        server = prometheuses.start(tmp_path / "prometheus", **given)  # type: ignore[arg-type]
        keep_track(server)
        return server

    return start


@pytest.fixture(params=["installed", "3"])
def any_prometheus(request: pytest.FixtureRequest) -> Path | None:
    """For tests that must pass with the installed Prometheus and with version 3: the `program` to start."""
    if request.param == "installed":
        return None
    if not PROMETHEUS_3.exists():
        pytest.skip(f"no Prometheus 3 at {PROMETHEUS_3}")
    return PROMETHEUS_3


@pytest.fixture
def start_alertmanager(tmp_path: Path, keep_track: Callable[[Server], None]) -> Callable[[str, str], Alertmanager]:
    """Takes the webhook's URL and its bearer token."""

    def start(webhook: str, token: str) -> Alertmanager:
        server = alertmanagers.start(tmp_path / "alertmanager", webhook=webhook, token=token)
        keep_track(server)
        return server

    return start


@pytest.fixture(scope="session")
def jaeger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jaeger]:
    """One for all tests; traces are told apart by their ids."""
    try:
        server = jaegers.start(tmp_path_factory.mktemp("jaeger"))
    except Unavailable as error:
        pytest.skip(str(error))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """The Docker engine with the sandbox's and the demo's images in it; `host` is its DOCKER_HOST."""
    found = Engine()
    found.start()
    found.build_images()
    yield found
    found.stop()


Figure = tuple[str, int, str, str]
_FIGURES = pytest.StashKey[list[Figure]]()


@pytest.fixture
def record_figure(request: pytest.FixtureRequest) -> Callable[[str, int, str, str], None]:
    """(test, repetitions, figure, bar): one row of the table that ends a long run."""
    rows = request.config.stash.setdefault(_FIGURES, [])

    def record(test: str, repetitions: int, figure: str, bar: str) -> None:
        rows.append((test, repetitions, figure, bar))

    return record


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The table."""
    rows = [("test", "repetitions", "figure", "bar"), *((t, str(n), f, b) for t, n, f, b in config.stash.get(_FIGURES, []))]
    if len(rows) > 1:
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        terminalreporter.section("figures")
        for row in rows:
            terminalreporter.write_line("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
