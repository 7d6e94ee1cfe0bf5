"""Onset, shifts and discovery on a real Prometheus whose history is written beforehand."""

import asyncio
import shutil
import socket
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from autopatch.chassis.prometheus import Prometheus
from autopatch.chassis.sources import PrometheusSources
from autopatch.contract import events as ev
from autopatch.contract.errors import Unavailable
from services.diagnosis.service import build
from services.diagnosis.settings import Settings
from services.diagnosis.tests.given import SCENARIOS, Answers, Commits, Desk, OneTarget, Probe, Scenario, Still

SHOWN_AS = {"latency": "app_latency", "errors": "app_errors", "traffic": "app_traffic"}


def openmetrics(scenario: Scenario, start: datetime) -> str:
    """The columns of a scenario as samples from `start` on; counters are integrated."""
    lines = []
    for name, values in scenario.columns.items():
        shown, total = SHOWN_AS.get(name, name), 0.0
        lines.append(f"# TYPE {shown.removesuffix('_total')} {'counter' if name.endswith('_total') else 'gauge'}")
        for second, value in zip(scenario.seconds, values, strict=True):
            total += value * 10
            seen = total if name.endswith("_total") else value
            lines.append(f'{shown}{{job="app"}} {seen} {start.timestamp() + second:.3f}')
    return "\n".join([*lines, "# EOF", ""])


@pytest.fixture
def scenario() -> Scenario:
    return Scenario(next(p for p in SCENARIOS if p.name == "heron"))


@pytest.fixture
def start(scenario: Scenario) -> datetime:
    return datetime.now(UTC) - timedelta(seconds=scenario.seconds[-1] + 5)


@pytest.fixture
def url(tmp_path: Path, scenario: Scenario, start: datetime) -> Iterator[str]:
    server, tool = shutil.which("prometheus"), shutil.which("promtool")
    if not server or not tool:
        pytest.skip("no prometheus and promtool on the path")
    (tmp_path / "history.txt").write_text(openmetrics(scenario, start))
    subprocess.run(
        [tool, "tsdb", "create-blocks-from", "openmetrics", str(tmp_path / "history.txt"), str(tmp_path / "data")],
        check=True, capture_output=True,
    )
    (tmp_path / "prometheus.yml").write_text("global: {scrape_interval: 10s}\n")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [server, f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data",
         f"--web.listen-address=127.0.0.1:{port}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
async def test_a_full_pool_is_diagnosed_from_a_real_prometheus(url: str, scenario: Scenario, start: datetime) -> None:
    client = Prometheus(url)
    async with asyncio.timeout(30):
        while True:
            try:
                await client.ready()
                break
            except Unavailable:
                await asyncio.sleep(0.2)
    await client.aclose()
    desk, target = Desk(scenario, Answers(scenario)), scenario.target
    signals = {n: s.model_copy(update={"query": f'sum({SHOWN_AS[n]}{{job="app"}})'}) for n, s in target.signals.items()}
    source = target.prometheus.model_copy(update={"url": url})
    desk.targets = OneTarget(target.model_copy(update={"signals": signals, "prometheus": source}))
    desk.clock = Still(start + timedelta(seconds=scenario.seconds[-1]))
    assert scenario.opened.alert is not None
    alert = scenario.opened.alert.model_copy(update={"starts_at": start + timedelta(seconds=scenario.known["fired"])})
    heard = scenario.heard(scenario.opened.model_copy(update={"alert": alert}))
    sources = PrometheusSources()
    room = build(Settings(), desk, sources=sources, history=Commits(), health=Probe())
    (found,) = await room.handlers[ev.Reproduced](heard)
    await sources.aclose()
    assert isinstance(found, ev.Diagnosed)
    assert found.causes[0].id == "pool_exhausted"
    seen = {e.summary.split()[0] for e in found.evidence if e.id in found.causes[0].cites}
    assert {"app_pool_in_use", "app_pool_waiting", "app_pool_waits_total"} <= seen
    check = next(e for e in found.evidence if e.summary.startswith("latency rose"))
    assert check.onset is not None and abs((check.onset - start).total_seconds() - 640) <= 30
