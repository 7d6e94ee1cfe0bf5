"""The same judgements on a real Prometheus that scrapes a small exporter."""

import asyncio
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from autopatch.chassis.clock import SystemClock
from autopatch.chassis.prometheus import Prometheus, Value
from autopatch.chassis.room import RetryLater, Room
from autopatch.contract import events as ev
from autopatch.contract.errors import Unavailable
from autopatch.contract.lifecycle import apply
from autopatch.contract.requests import Recheck
from autopatch.contract.target import Target
from services.validator.adapters.cores import FreeCores
from services.validator.service import SOAK, build
from services.validator.settings import Settings
from services.validator.tests.given import ALERT, PLAN, Desk, MemoryLog, OneTarget, heard, incident, stored, target, up_to_applied

RULES = """
groups:
  - name: g
    interval: 500ms
    rules:
      - {alert: SlowAnswers, expr: 'shop_latency{service="shop"} > 0.2', for: 1s, labels: {severity: page}}
"""


class Exporter(BaseHTTPRequestHandler):
    """Serves the numbers that a test sets."""

    page = ""

    def do_GET(self) -> None:
        body = self.page.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return None


def serve(latency: float | None, errors: float = 1, requests: float = 50) -> None:
    lines = [f"shop_errors {errors}", f"shop_requests {requests}"]
    lines += [f'shop_latency{{service="shop"}} {latency}'] if latency is not None else []
    Exporter.page = "\n".join(lines) + "\n"


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[str]:
    binary = shutil.which("prometheus")
    if not binary:
        pytest.skip("no prometheus on the path")
    exporter = ThreadingHTTPServer(("127.0.0.1", 0), Exporter)
    threading.Thread(target=exporter.serve_forever, daemon=True).start()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (tmp_path / "rules.yml").write_text(RULES)
    (tmp_path / "prometheus.yml").write_text(
        f"global: {{scrape_interval: 500ms, scrape_timeout: 400ms}}\nrule_files: [{tmp_path}/rules.yml]\n"
        f"scrape_configs: [{{job_name: shop, static_configs: [{{targets: ['127.0.0.1:{exporter.server_port}']}}]}}]\n"
    )
    process = subprocess.Popen(
        [binary, f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data",
         f"--web.listen-address=127.0.0.1:{port}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
        exporter.shutdown()
        exporter.server_close()


def live_target(url: str) -> Target:
    return target(
        prometheus={"url": url}, soak={"settle_s": 1, "soak_s": 6, "step_s": 0.5},
        signals={
            "latency": {
                "query": "max(shop_latency)", "unit": "s", "role": "check", "threshold": 0.2, "alerts": ["SlowAnswers"],
            },
            "errors": {"query": "sum(shop_errors)", "role": "guard"},
            "requests": {"query": "sum(shop_requests)", "role": "traffic", "bad": "below"},
        },
    )


class Live:
    """One incident on a real Prometheus and the real clock."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.clock = SystemClock()
        self.desk = Desk(MemoryLog(incident([])), OneTarget(live_target(url)))
        self.desk.clock = self.clock
        self.room: Room = build(Settings(), self.desk, cores=FreeCores())

    def add(self, event: ev.Event) -> None:
        log = self.desk.memory
        log.incident = apply(log.incident, stored(log.incident, event, self.clock.now()))

    async def hear(self, kind: type[ev.Event] | str) -> ev.Event | None:
        handler = self.room.timers[kind] if isinstance(kind, str) else self.room.handlers[kind]
        found = await handler(heard(self.desk.memory.incident))
        return found[0] if found else None

    async def until(self, expr: str, wanted: bool) -> None:
        client = Prometheus(self.url)
        async with asyncio.timeout(30):
            while True:
                try:
                    if isinstance(await client.query(expr), Value) == wanted:
                        break
                except Unavailable:
                    pass
                await asyncio.sleep(0.2)
        await client.aclose()

    async def close(self) -> None:
        for hook in self.room.on_stop:
            await hook()


@pytest.mark.long
@pytest.mark.slow
async def test_a_real_alert_is_reproduced_and_its_cure_proven(prometheus: str) -> None:
    live = Live(prometheus)
    serve(1.5)
    await live.until('ALERTS{alertstate="firing"}', True)
    began = datetime.now(UTC)
    live.add(ev.Opened(target="shop", title="slow", alert=ALERT.model_copy(update={"starts_at": began})))
    reproduced = await live.hear(ev.Opened)
    assert isinstance(reproduced, ev.Reproduced)
    assert [(m.signal, m.red_share) for m in reproduced.checks][:2] == [("latency", 1.0), ("alert:SlowAnswers", 1.0)]
    live.add(reproduced)
    short = PLAN.model_copy(update={"success": PLAN.success.model_copy(update={"settle_s": 1, "soak_s": 6})})
    for event in [e for _, e in up_to_applied()][2:5]:
        live.add(event.model_copy(update={"plan": short}) if isinstance(event, ev.Planned) else event)
    assert (await live.room.responders[Recheck](Recheck(incident_id="i1"))).status == "red"  # type: ignore[attr-defined]
    await asyncio.sleep(6.5)
    live.add(ev.Applying(plan_hash="h", undo=(), rung="auto", rule="r", rehearsed=True))
    serve(0.05)
    live.add(ev.Applied(plan_hash="h", results=(), at=live.clock.now()))
    assert await live.hear(ev.Applied) is None
    due = live.desk.set_to.due[SOAK]
    await asyncio.sleep(max(0.0, (due - live.clock.now()).total_seconds()) + 0.1)
    found = await live.hear(SOAK)
    assert isinstance(found, ev.Recovered), found
    assert {c.signal: c.verdict for c in found.comparisons} == {
        "latency": "better", "alert:SlowAnswers": "better", "errors": "same", "requests": "same",
    }
    await live.close()


@pytest.mark.slow
async def test_a_check_that_is_green_closes_and_one_without_a_series_does_not(prometheus: str) -> None:
    live = Live(prometheus)
    serve(0.05)
    await live.until("shop_latency", True)
    live.add(ev.Opened(target="shop", title="slow", alert=ALERT))
    assert isinstance(await live.hear(ev.Opened), ev.NotReproduced)
    serve(None)
    await live.until("shop_latency", False)
    with pytest.raises(RetryLater):
        await live.hear(ev.Opened)
    await live.close()
