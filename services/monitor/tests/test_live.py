"""The monitor on a real nats-server, told by a real Alertmanager."""

import asyncio
import json
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import pytest

from autopatch.chassis.main import Blueprint, Running, prepare, start
from autopatch.chassis.settings import Common
from autopatch.chassis.tests.nats_server import NatsServer
from autopatch.contract.lifecycle import State
from autopatch.contract.requests import Silenced, SilenceState
from services.monitor.service import build
from services.monitor.settings import Settings
from services.monitor.tests.given import alert, group

TARGET = """
name: payments
match: {service: payments}
runtime: {kind: process, command: [sleep, "9"], pidfile: pid}
signals: {slow: {query: up, role: check, threshold: 1}}
prometheus: {url: "http://127.0.0.1:9"}
"""
ALERTMANAGER = """
route: {{receiver: autopatch, group_wait: 0s, group_interval: 1s, repeat_interval: 1h, group_by: [alertname]}}
receivers:
  - name: autopatch
    webhook_configs:
      - url: http://127.0.0.1:{port}/v1/webhooks/alertmanager
        http_config: {{authorization: {{credentials: live-token}}}}
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Manager:
    """A real Alertmanager."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.http = httpx2.AsyncClient(base_url=url, trust_env=False)

    async def fire(self, name: str, *, ends_in_s: float = 300) -> None:
        now = datetime.now(UTC)
        fired = {
            "labels": {"alertname": name, "service": "payments"}, "annotations": {"summary": f"{name} at {url_with_password()}"},
            "startsAt": "2026-01-05T12:00:00.123456Z", "endsAt": (now + timedelta(seconds=ends_in_s)).isoformat(),
        }
        await self._post("/api/v2/alerts", [fired])

    async def silence(self, name: str) -> None:
        now = datetime.now(UTC)
        await self._post("/api/v2/silences", {
            "matchers": [{"name": "alertname", "value": name, "isRegex": False}], "startsAt": now.isoformat(),
            "endsAt": (now + timedelta(hours=1)).isoformat(), "createdBy": "t", "comment": "t",
        })

    async def _post(self, path: str, body: object) -> None:
        answer = await self.http.post(path, content=json.dumps(body), headers={"content-type": "application/json"})
        assert answer.status_code == 200, answer.text


def url_with_password() -> str:
    return "postgres://app:hunter2-live@db/x"


async def until(what: Callable[[], Awaitable[bool]], seconds: float = 30) -> None:
    async with asyncio.timeout(seconds):
        while not await what():
            await asyncio.sleep(0.1)


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[NatsServer]:
    server = NatsServer(tmp_path).start()
    yield server
    server.kill()


@pytest.fixture
def ports() -> tuple[int, int]:
    return free_port(), free_port()


@pytest.fixture
async def manager(tmp_path: Path, ports: tuple[int, int]) -> AsyncIterator[Manager]:
    binary = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    if not binary:
        pytest.skip("no alertmanager on the path")
    (tmp_path / "am.yml").write_text(ALERTMANAGER.format(port=ports[0]))
    process = subprocess.Popen(
        [
            binary, f"--config.file={tmp_path}/am.yml", f"--storage.path={tmp_path}/am", "--cluster.listen-address=",
            f"--web.listen-address=127.0.0.1:{ports[1]}",
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    made = Manager(f"http://127.0.0.1:{ports[1]}")

    async def ready() -> bool:
        try:
            return (await made.http.get("/-/ready")).status_code == 200
        except httpx2.TransportError:
            return False

    try:
        await until(ready)
        yield made
    finally:
        process.kill()
        process.wait()
        await made.http.aclose()


async def running(stack: AsyncExitStack, nats: NatsServer, tmp_path: Path, ports: tuple[int, int], **given: object) -> Running:
    (tmp_path / "targets").mkdir(exist_ok=True)
    (tmp_path / "targets" / "payments.yaml").write_text(TARGET)
    common = Common(nats_url=nats.url, targets=str(tmp_path / "targets"), publish_budget_s=5)
    await prepare(common)
    settings = {
        "alertmanager_token": "live-token", "alertmanager_url": f"http://127.0.0.1:{ports[1]}", "port": ports[0],
        "reconcile_s": 3600,
    }
    return await start(Blueprint("monitor", Settings, build, settings | given), common, stack)


async def test_an_alert_travels_from_alertmanager_to_the_log_and_its_end_too(
    nats: NatsServer, tmp_path: Path, ports: tuple[int, int], manager: Manager
) -> None:
    async with AsyncExitStack() as stack:
        room = await running(stack, nats, tmp_path, ports)
        log = room.desk.log

        async def opened() -> bool:
            return len(await log.ids()) == 1

        async def closed() -> bool:
            return (await log.load((await log.ids())[0])).state is State.CLOSED

        await manager.fire("Slow", ends_in_s=4)
        await until(opened)
        incident = await log.load((await log.ids())[0])
        told = incident.opened.alert
        assert told and told.starts_at == datetime(2026, 1, 5, 12, 0, 0, 123000, UTC)
        assert "hunter2-live" not in incident.log[0].envelope.encode().decode()
        answer = await room.room.responders[Silenced](Silenced(incident_id=incident.id))
        assert answer == SilenceState(status="active")
        await manager.silence("Slow")
        answer = await room.room.responders[Silenced](Silenced(incident_id=incident.id))
        assert isinstance(answer, SilenceState) and answer.status == "silenced"
    async with AsyncExitStack() as stack:
        room = await running(stack, nats, tmp_path, (0, ports[1]), alertmanager_grace_s=0, reconcile_s=0.5)
        log = room.desk.log
        await until(closed)


async def test_while_nats_is_away_alertmanager_is_told_to_come_again_and_nothing_is_lost(
    nats: NatsServer, tmp_path: Path, ports: tuple[int, int], manager: Manager
) -> None:
    async with AsyncExitStack() as stack:
        room = await running(stack, nats, tmp_path, ports)
        nats.kill()
        for number in range(5):
            await manager.fire(f"Alert{number}")
        async with httpx2.AsyncClient(trust_env=False) as client:
            body = group(alert("Another"))
            began = asyncio.get_running_loop().time()
            answer = await client.post(
                f"http://127.0.0.1:{ports[0]}/v1/webhooks/alertmanager", json=body, headers={"authorization": "Bearer live-token"}
            )
            assert answer.status_code == 503 and asyncio.get_running_loop().time() - began < 4
        await asyncio.sleep(1)
        nats.start()

        async def all_known() -> bool:
            ids = await room.desk.log.ids()
            if len(ids) != 1:
                return False
            incident = await room.desk.log.load(ids[0])
            return len({s.envelope.data.alert.alertname for s in incident.log}) == 5  # type: ignore[attr-defined]

        await until(all_known, 60)
        incident = await room.desk.log.load((await room.desk.log.ids())[0])
        assert [s.envelope.event for s in incident.log] == ["opened", *["alert_updated"] * 4]


async def test_a_webhook_that_was_never_sent_is_found_in_alertmanager(
    nats: NatsServer, tmp_path: Path, ports: tuple[int, int], manager: Manager
) -> None:
    async with AsyncExitStack() as stack:
        room = await running(stack, nats, tmp_path, ports, alertmanager_token="another-token", reconcile_s=0.5)

        async def opened() -> bool:
            return len(await room.desk.log.ids()) == 1

        await manager.fire("Slow")
        await until(opened)
        found = (await room.desk.log.load((await room.desk.log.ids())[0])).opened.alert
        assert found and found.source == "reconciliation"
