"""The gateway on a real nats-server: the promises that the chassis in memory makes are the real ones."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from opentelemetry import trace

from autopatch.chassis import admin
from autopatch.chassis.bus import connect
from autopatch.chassis.clock import SystemClock
from autopatch.chassis.http import HttpServer, application
from autopatch.chassis.main import desk
from autopatch.chassis.settings import Common
from autopatch.chassis.tests.nats_server import NatsServer
from autopatch.contract import events as ev
from autopatch.contract.catalogue import live_subject
from autopatch.repair.tree import read_archive, tree_digest
from services.gateway.adapters.http.tokens import mint, write
from services.gateway.service import build
from services.gateway.settings import Settings
from services.gateway.tests import job_story, story
from services.gateway.tests.conftest import _ready
from services.gateway.tests.fakes import FakeChassis, FakeTargets
from services.gateway.tests.story import ID


@dataclass
class Real:
    """A served gateway, its chassis, and clients by role."""

    chassis: Any
    nats: NatsServer
    client: Callable[[str], httpx2.AsyncClient]


@pytest.fixture
async def real(tmp_path: Path) -> AsyncIterator[Real]:
    server = NatsServer(tmp_path).start()
    bus = await connect(server.url, "gateway", budget_s=2)
    await admin.prepare(bus, admin.Limits())
    targets: Any = FakeTargets(story.target())
    common = Common(trace_url="http://j.test/{trace_id}")
    chassis: Any = desk("gateway", bus, common, targets, SystemClock(), trace.get_tracer("test"))
    made = {role: mint(role, role, person=True) for role in ("viewer", "operator", "approver")}
    write(tmp_path / "t.yaml", [entry for _, entry in made.values()])
    room = build(Settings(tokens_file=str(tmp_path / "t.yaml")), chassis)
    http = HttpServer(application("gateway", room.routers, _ready), "127.0.0.1", 0)
    serving = asyncio.create_task(http.serve())
    clients: list[httpx2.AsyncClient] = []

    def client(role: str) -> httpx2.AsyncClient:
        headers = {"Authorization": f"Bearer {made[role][0]}"}
        clients.append(httpx2.AsyncClient(base_url=f"http://127.0.0.1:{http.port}/v1", headers=headers, timeout=15))
        return clients[-1]

    yield Real(chassis, server, client)
    for found in clients:
        await found.aclose()
    http.stop()
    for hook in room.on_stop:
        await hook()
    await serving
    await bus.close()
    server.kill()


async def awaiting(real: Real, incident_id: str = ID) -> str:
    """The story's events on the real log, whatever their clock."""
    told = FakeChassis(story.target())
    made = story.awaiting(told, incident_id)
    incident = await real.chassis.log.load(incident_id)
    for stored in told.log.stored:
        event = stored.envelope.data
        if isinstance(event, ev.ApprovalRequested):
            event = event.model_copy(update={"expires_at": real.chassis.clock.now().replace(year=2999)})
        incident = await real.chassis.log.append(incident, [event], by=stored.envelope.by)
    return made.hash


async def test_a_person_approves_on_the_real_log_once(real: Real) -> None:
    plan_hash = await awaiting(real)
    client = real.client("approver")
    answers = await asyncio.gather(*(
        client.post(f"/incidents/{ID}/approve", json={"plan_hash": plan_hash}) for _ in range(5)
    ))
    assert [a.status_code for a in answers] == [200] * 5
    assert (await client.post(f"/incidents/{ID}/approve", json={"plan_hash": plan_hash})).json()["already"]
    shown = (await client.get(f"/incidents/{ID}")).json()
    assert shown["state"] == "approved" and shown["chain_ok"]
    assert [s["event"] for s in shown["stages"]].count("approved") == 1


async def test_lists_are_newest_first_whatever_the_ids(real: Real) -> None:
    for name in ("zebra-1", "alpha-1", "middle-1"):
        await awaiting(real, name)
    found = (await real.client("viewer").get("/incidents")).json()
    assert [row["id"] for row in found["items"]] == ["middle-1", "alpha-1", "zebra-1"]


async def test_the_stream_follows_the_real_log_and_resumes(real: Real) -> None:
    await awaiting(real)
    seen: list[int] = []
    client = real.client("viewer")
    async with client.stream("GET", "/events", params={"incident": ID, "after": 4}) as answer:
        async for event in httpx2.EventSource(answer):
            if not event.id:
                continue
            seen.append(int(event.id))
            if len(seen) == 2:
                await real.client("operator").post(f"/incidents/{ID}/cancel", json={"reason": "enough"})
            if event.event == "cancelled":
                break
    assert seen == [5, 6, 7]


async def test_cancel_reaches_whoever_works_on_it_at_once(real: Real) -> None:
    await awaiting(real)
    told = asyncio.Event()

    async def heard(_: Any) -> None:
        told.set()

    await real.chassis.bus.client.subscribe(live_subject(ID), cb=heard)
    await real.client("operator").post(f"/incidents/{ID}/cancel")
    await asyncio.wait_for(told.wait(), 1)


async def test_hold_and_pause_are_kept_where_the_executor_looks(real: Real) -> None:
    client = real.client("operator")
    assert (await client.post("/targets/payments/hold", json={"reason": "x"})).json()["held_by"] == "operator"
    assert (await real.chassis.records.get("payments"))[0].held_by_operator == "operator"
    await client.request("DELETE", "/targets/payments/hold")
    assert (await real.chassis.records.get("payments"))[0].held_by_operator == ""
    await client.post("/pause", json={"reason": "deploy"})
    assert await real.chassis.control.paused() == "operator: deploy"
    await client.request("DELETE", "/pause")
    assert await real.chassis.control.paused() == ""


async def test_unmatched_alerts_come_newest_first(real: Real) -> None:
    alert = story.opened().alert
    assert alert
    for reason in ("no target", "two targets"):
        await real.chassis.unmatched.add(alert, reason)
    found = (await real.client("viewer").get("/unmatched")).json()
    assert [entry["reason"] for entry in found] == ["two targets", "no target"]


async def test_a_repair_is_begun_on_the_real_log_once_and_cancelled_when_its_watcher_goes(real: Real) -> None:
    client, told = real.client("operator"), asyncio.Event()
    body = job_story.asked(cancel_on_disconnect=True)

    async def heard(_: Any) -> None:
        told.set()

    begun = await asyncio.gather(*(client.post("/repairs", json=job_story.asked(request_id="r")) for _ in range(5)))
    assert sorted(answer.status_code for answer in begun) == [200] * 4 + [201]
    assert len({answer.json()["incident"] for answer in begun}) == 1
    async with client.stream("POST", "/repairs?stream=1", json=body) as answer:
        stream = aiter(httpx2.EventSource(answer))
        while (event := await anext(stream)).event != "opened":
            pass
        incident = json.loads(event.data)["envelope"]["incident_id"]
        await real.chassis.bus.client.subscribe(live_subject(incident), cb=heard)
        job = (await real.chassis.log.load(incident)).opened.job
        assert job.tree == tree_digest(read_archive(await real.chassis.blobs.get(job.snapshot)))
    await asyncio.wait_for(told.wait(), 1)
    verdict = (await client.get(f"/repairs/{incident}")).json()
    assert verdict["verdict"] == "cancelled" and "went away" in verdict["reason"]


@pytest.mark.long
async def test_with_nats_gone_every_answer_is_503_in_time_and_all_is_well_again_after(real: Real) -> None:
    plan_hash = await awaiting(real)
    client = real.client("approver")
    real.nats.kill()
    for method, path, body in (
        ("GET", "/incidents", None), ("GET", f"/incidents/{ID}", None), ("GET", "/pause", None), ("GET", "/unmatched", None),
        ("POST", f"/incidents/{ID}/approve", {"plan_hash": plan_hash}), ("POST", "/targets/payments/hold", {"reason": "x"}),
    ):
        began = time.monotonic()
        answer = await client.request(method, path, json=body)
        assert answer.status_code == 503 and answer.json()["error"] and time.monotonic() - began < 10, path
    real.nats.start()
    deadline = time.monotonic() + 15
    while (answer := await client.post(f"/incidents/{ID}/approve", json={"plan_hash": plan_hash})).status_code == 503:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.3)
    assert answer.json()["state"] == "approved"
