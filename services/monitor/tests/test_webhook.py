"""The webhooks over HTTP: who may send, what is refused, and that nothing is acknowledged before the log is."""

import asyncio
import gzip
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from autopatch.chassis.http import HttpServer, application
from services.monitor.adapters.sources import wire
from services.monitor.tests.given import NOW, FakeAlertmanager, alert, chassis, group, http, room

PATH = "/v1/webhooks/alertmanager"


async def test_a_webhook_is_acknowledged_after_its_alert_is_on_the_log() -> None:
    on = chassis()
    answer = await http(room(on)).post(PATH, json=group(alert()))
    assert (answer.status_code, answer.json()["opened"]) == (200, 1)
    assert on.told() == ["opened"]


async def test_a_retry_and_a_replay_after_a_restart_are_acknowledged_and_change_nothing() -> None:
    on = chassis()
    for _ in range(3):
        answer = await http(room(on)).post(PATH, json=group(alert()))
        assert answer.status_code == 200
    assert on.told() == ["opened"]


@pytest.mark.parametrize(
    "header", [None, "", "am-token", "Bearer", "Bearer ", "Bearer wrong", "Basic am-token", "Bearer gr-token", "Bearer äm-token"]
)
async def test_a_missing_or_wrong_token_is_refused(header: str | None) -> None:
    on = chassis()
    client = http(room(on))
    client.headers.pop("authorization")
    headers: list[tuple[bytes, bytes]] = [] if header is None else [(b"authorization", header.encode("latin-1"))]
    answer = await client.post(PATH, json=group(alert()), headers=headers)
    assert answer.status_code == 401 and on.incidents == []


async def test_without_a_configured_token_every_request_is_refused_and_the_reason_is_shown() -> None:
    on = chassis()
    client = http(room(on, alertmanager_token=""))
    for header in ("Bearer ", "Bearer am-token"):
        answer = await client.post(PATH, json=group(alert()), headers={"authorization": header})
        assert answer.status_code == 401 and "AUTOPATCH_MONITOR_ALERTMANAGER_TOKEN" in answer.json()["error"]
    assert "no token" in (await client.get("/v1/webhooks")).json()["senders"]["alertmanager"]


async def test_grafana_has_a_token_of_its_own_and_its_extras_are_ignored() -> None:
    on = chassis()
    body = group(alert(values={"B": 1.5}, silenceURL="x", dashboardURL="y"), orgId=1, title="t", state="alerting", version="1")
    client = http(room(on))
    assert (await client.post("/v1/webhooks/grafana", json=body)).status_code == 401
    answer = await client.post("/v1/webhooks/grafana", json=body, headers={"authorization": "bearer gr-token"})
    assert answer.status_code == 200
    opened = on.incidents[0].opened
    assert opened.alert and opened.alert.source == "grafana"


CANARY = "c4n4ry"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400), (b"{" + CANARY.encode(), 400), (b"[" * 100_000 + b"]" * 100_000, 400), (b'{"alerts": ' * 1000, 400),
        (b'"' + CANARY.encode() + b'"', 400), (b"[]", 400), (b'{"alerts": {"c4n4ry": 1}}', 400), (b"\xff\xfe\x00", 400),
        (b'{"alerts": [NaN]}', 400), (b'{"alerts": null}', 400), (b"a=b&c=d", 400),
    ],
)
async def test_what_is_no_webhook_gets_400_and_is_not_repeated(body: bytes, status: int) -> None:
    answer = await http(room(chassis())).post(PATH, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == status
    assert len(answer.content) < 1000 and CANARY not in answer.text


async def test_absent_severity_unknown_severity_and_odd_label_values_are_survived() -> None:
    on = chassis()
    odd = {"alertname": "Slow", "service": "payments", "severity": "apocalyptic", "n": 5, "deep": {"a": 1}}
    answer = await http(room(on)).post(PATH, json=group(alert(), alert(labels=odd, annotations={"x": None, "y": True})))
    assert answer.status_code == 200 and answer.json()["opened"] + answer.json()["told"] == 2


async def test_a_body_that_says_it_is_too_large_is_refused_before_it_is_read() -> None:
    answer = await http(room(chassis())).post(PATH, content=b"{}", headers={"content-length": str(100 * 2**20)})
    assert answer.status_code == 413


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br"])
async def test_compressed_bodies_are_refused(encoding: str) -> None:
    bomb = gzip.compress(b" " * 10_000_000)
    answer = await http(room(chassis())).post(PATH, content=bomb, headers={"content-encoding": encoding})
    assert answer.status_code == 415


async def test_a_chunked_body_is_cut_off_at_the_cap() -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(1600):
            sent += 65536
            yield b" " * 65536

    answer = await http(room(chassis(), max_body_bytes=100_000)).post(PATH, content=endless())
    assert answer.status_code == 413


async def test_a_body_that_trickles_is_given_up() -> None:
    async with served(body_timeout_s=0.3) as client:
        reader, writer = await _raw(client, "content-length: 1000")
        writer.write(b"{")
        first = await asyncio.wait_for(reader.readline(), 5)
        writer.close()
    assert b"408" in first


async def test_when_nats_is_away_the_sender_gets_503_within_two_seconds_and_the_retry_is_taken() -> None:
    on = chassis()
    on.records.away = True
    client = http(room(on, ack_timeout_s=1.5))
    began = time.monotonic()
    answer = await client.post(PATH, json=group(*(alert(f"A{n}") for n in range(30))))
    assert answer.status_code == 503 and time.monotonic() - began < 4
    on.records.away = False
    assert (await client.post(PATH, json=group(alert()))).status_code == 200


async def test_a_group_that_was_cut_starts_a_comparison_at_once() -> None:
    on, alertmanager = chassis(), FakeAlertmanager()
    made = room(on, alertmanager, reconcile_s=3600)
    loop = asyncio.create_task(_run(made.background[0]))
    try:
        async with asyncio.timeout(5):
            while alertmanager.asked < 1:
                await asyncio.sleep(0.01)
            answer = await http(made).post(PATH, json=group(alert(), truncatedAlerts=7))
            assert answer.json()["truncated"] == 7
            for odd in (True, 10**400, -1, "7"):
                answer = await http(made).post(PATH, json=group(alert(), truncatedAlerts=odd))
                assert answer.json()["truncated"] == 0 and len(answer.content) < 1024
            while alertmanager.asked < 2:
                await asyncio.sleep(0.01)
    finally:
        loop.cancel()


async def _run(background: Any) -> None:
    await background()


async def test_the_incident_joins_the_trace_that_the_sender_began() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    on = chassis()
    on.tracer = provider.get_tracer("test")
    trace = "0af7651916cd43dd8448eb211c80319c"
    await http(room(on)).post(PATH, json=group(alert()), headers={"traceparent": f"00-{trace}-b7ad6b7169203331-01"})
    await http(room(on)).post(PATH, json=group(alert(annotations={"a": "b"})))
    spans = exporter.get_finished_spans()
    assert {s.name for s in spans} == {"monitor opened", "monitor alert_updated"}
    assert {format(s.context.trace_id, "032x") for s in spans if s.context} == {trace}
    assert all((s.attributes or {})["incident.id"] == on.incidents[0].id for s in spans)
    assert on.incidents[0].log[0].headers["traceparent"].split("-")[1] == trace


async def test_without_a_senders_trace_each_incident_begins_its_own() -> None:
    on = chassis()
    await http(room(on)).post(PATH, json=group(alert(), alert(labels={"alertname": "Slow", "service": "orders"})))
    traces = {i.log[0].headers["traceparent"].split("-")[1] for i in on.incidents}
    assert len(traces) == 2


class served:
    """The room behind a real HTTP server."""

    def __init__(self, **changes: Any) -> None:
        self.changes = changes

    async def __aenter__(self) -> httpx2.AsyncClient:
        async def ready() -> dict[str, str]:
            return {}

        server = HttpServer(application("monitor", room(chassis(), **self.changes).routers, ready), "127.0.0.1", 0)
        self.server, self.task = server, asyncio.create_task(server.serve())
        self.client = httpx2.AsyncClient(
            base_url=f"http://127.0.0.1:{server.port}", headers={"authorization": "Bearer am-token"}, timeout=30, trust_env=False
        )
        return self.client

    async def __aexit__(self, *_: object) -> None:
        await self.client.aclose()
        self.server.stop()
        await asyncio.wait([self.task], timeout=5)


async def test_a_hundred_megabytes_are_refused_while_others_are_served() -> None:
    async with served() as client:
        big = asyncio.create_task(_status(client, b" " * 100 * 2**20))
        slowest = 0.0
        for _ in range(20):
            began = time.monotonic()
            assert (await client.get("/healthz")).status_code == 200
            slowest = max(slowest, time.monotonic() - began)
        assert await big == 413
    assert slowest < 1


async def _status(client: httpx2.AsyncClient, body: bytes) -> int:
    """A server that refuses early may close the connection while the body is still being sent."""
    try:
        return (await client.post(PATH, content=body)).status_code
    except httpx2.TransportError:
        return 413


async def _raw(client: httpx2.AsyncClient, header: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port)
    writer.write(f"POST {PATH} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer am-token\r\n{header}\r\n\r\n".encode())
    return reader, writer


async def test_a_chunked_hundred_megabytes_get_413_over_a_real_connection() -> None:
    async with served() as client:
        reader, writer = await _raw(client, "transfer-encoding: chunked")
        for _ in range(100):
            writer.write(b"10000\r\n" + b" " * 65536 + b"\r\n")
        first = await asyncio.wait_for(reader.readline(), 10)
        writer.close()
    assert b"413" in first


async def test_a_slow_parse_does_not_hold_up_other_requests() -> None:
    text = "GET http://u:p@x/ password: a " * 2000
    body = json.dumps(group(*(alert(f"A{n}", annotations={f"k{m}": text for m in range(4)}) for n in range(15)))).encode()
    assert len(body) < 4 * 2**20
    async with served(ack_timeout_s=5) as client:
        posting = asyncio.create_task(client.post(PATH, content=body))
        await asyncio.sleep(0.02)
        waits = []
        while not posting.done():
            began = time.monotonic()
            assert (await client.get("/healthz")).status_code == 200
            waits.append(time.monotonic() - began)
            await asyncio.sleep(0.02)
        assert (await posting).status_code == 200
    assert len(waits) > 3 and sorted(waits)[len(waits) // 2] < 0.3


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3), max_leaves=8,
)
FIELDS = st.sampled_from(["status", "labels", "annotations", "startsAt", "endsAt", "generatorURL", "values"])


@given(
    st.one_of(JSON, st.builds(lambda a, t: {"alerts": a, "truncatedAlerts": t}, st.lists(st.dictionaries(FIELDS, JSON)), JSON))
)
def test_any_json_is_a_batch_or_unreadable_and_no_alert_goes_uncounted(value: Any) -> None:
    try:
        batch = wire.parse(json.dumps(value).encode(), "alertmanager", NOW)
    except wire.Unreadable:
        return
    assert len(batch.alerts) + batch.ignored == len(value["alerts"])
    assert batch.truncated >= 0
