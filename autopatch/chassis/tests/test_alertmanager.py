"""The client against answers as Alertmanager words them, and against a real server when one is installed."""

import asyncio
import json
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import pytest

from autopatch.chassis.alertmanager import Alertmanager
from autopatch.contract.errors import Unavailable

Answer = Callable[[httpx2.Request], httpx2.Response]


def client(answer: Answer) -> Alertmanager:
    return Alertmanager("http://am.test", bearer_token="tok", client=httpx2.AsyncClient(transport=httpx2.MockTransport(answer)))


async def test_suppressed_alerts_come_with_the_silences_that_hide_them() -> None:
    held = {
        "labels": {"alertname": "Slow"}, "annotations": {}, "startsAt": "2026-01-05T12:00:00Z", "endsAt": "0001-01-01T00:00:00Z",
        "status": {"state": "suppressed", "silencedBy": ["s1"], "inhibitedBy": []}, "receivers": [{"name": "x"}],
    }
    found = await client(lambda _: httpx2.Response(200, json=[held])).alerts()
    assert (found[0].status.state, found[0].status.silenced_by) == ("suppressed", ("s1",))


async def test_the_token_is_sent() -> None:
    seen: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.headers["authorization"])
        return httpx2.Response(200, json=[])

    assert await client(answer).alerts() == ()
    assert seen == ["Bearer tok"]


def gone(request: httpx2.Request) -> httpx2.Response:
    raise httpx2.ConnectError("refused", request=request)


@pytest.mark.parametrize(
    "answer",
    [
        gone,
        lambda _: httpx2.Response(503),
        lambda _: httpx2.Response(401),
        lambda _: httpx2.Response(200, text="<html>"),
        lambda _: httpx2.Response(200, text='[{"labels": {"a": "b"}'),
        lambda _: httpx2.Response(200, json=[{"labels": {"a": "b"}}]),
    ],
)
async def test_a_missing_or_incomplete_answer_is_never_taken_for_no_alerts(answer: Answer) -> None:
    with pytest.raises(Unavailable) as caught:
        await client(answer).alerts()
    assert caught.value.service == "alertmanager"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    binary = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    if not binary:
        pytest.skip("no alertmanager on the path")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (tmp_path / "am.yml").write_text("route: {receiver: none}\nreceivers: [{name: none}]\n")
    process = subprocess.Popen(
        [
            binary, f"--config.file={tmp_path}/am.yml", f"--storage.path={tmp_path}/data",
            f"--web.listen-address=127.0.0.1:{port}",
            "--cluster.listen-address=",
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


async def test_a_real_server_tells_alerts_silences_and_its_start(server: str) -> None:
    real, http = Alertmanager(server), httpx2.AsyncClient(trust_env=False)
    async with asyncio.timeout(20):
        while True:
            try:
                status = await real.status()
                break
            except Unavailable:
                await asyncio.sleep(0.1)
    now = datetime.now(UTC)
    assert abs((now - status.started_at).total_seconds()) < 20 and status.cluster.status == "disabled"
    silence = {
        "matchers": [{"name": "alertname", "value": "Slow", "isRegex": False}], "startsAt": now.isoformat(),
        "endsAt": (now + timedelta(hours=1)).isoformat(), "createdBy": "t", "comment": "t",
    }
    created = await http.post(
        f"{server}/api/v2/silences", content=json.dumps(silence), headers={"content-type": "application/json"}
    )
    fire = [{"labels": {"alertname": name}, "startsAt": now.isoformat()} for name in ("Slow", "Down")]
    await http.post(f"{server}/api/v2/alerts", content=json.dumps(fire), headers={"content-type": "application/json"})
    async with asyncio.timeout(20):
        while not any(a.status.silenced_by for a in await real.alerts()):
            await asyncio.sleep(0.1)
    found = {a.labels["alertname"]: a.status for a in await real.alerts()}
    assert found["Slow"].silenced_by == (created.json()["silenceID"],)
    assert found["Down"].silenced_by == ()
    await real.aclose()
    await http.aclose()
