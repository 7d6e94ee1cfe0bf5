"""The door for alerts: what it takes, what it refuses, and what is found when nobody knocked."""

import asyncio
import json
import socket
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from autopatch.contract.lifecycle import State
from tests.flow.harness import WEBHOOK_TOKEN, Flow, flow, names

MARK = "repeat-me-if-you-dare"
PATH = "/v1/webhooks/alertmanager"
HUGE = 100 * 1024 * 1024


def raw(it: Flow, head: str, *, body: bytes = b"", chunks: int = 0) -> tuple[int, bytes]:
    """Speaks HTTP by hand, in a thread; `chunks` of a megabyte are sent as long as somebody takes them."""
    host, port = it.url("monitor").removeprefix("http://").split(":")
    request = f"POST {PATH} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {WEBHOOK_TOKEN}\r\n{head}\r\n\r\n"
    answer = bytearray()
    with socket.create_connection((host, int(port)), timeout=15) as sender, suppress(OSError):
        sender.sendall(request.encode() + body)
        with suppress(OSError):
            for _ in range(chunks):
                sender.sendall(b"100000\r\n" + b"x" * 0x100000 + b"\r\n")
        while data := sender.recv(65536):
            answer += data
    return int(answer.split(b" ", 2)[1]) if answer else 0, bytes(answer)


async def test_who_has_no_token_is_refused_without_an_echo(tmp_path: Path) -> None:
    async with flow(tmp_path, rooms=("monitor", "gateway")) as it:
        for header in ({}, {"Authorization": f"Bearer {MARK}"}, {"Authorization": f"Basic {WEBHOOK_TOKEN}"}):
            answer = await it.http.post(f"{it.url('monitor')}{PATH}", json={"alerts": [MARK]}, headers=header)
            assert answer.status_code == 401 and len(answer.content) < 1024 and MARK not in answer.text
        assert await it.log.ids() == []


NO_WEBHOOKS = (
    b"", b'{"alerts": [', b"\xff\xfe" + MARK.encode(), b"[" * 200_000, json.dumps([MARK]).encode(),
    json.dumps({MARK: 1}).encode(), json.dumps({"alerts": MARK}).encode(),
)


async def test_what_is_no_webhook_is_refused_without_an_echo(tmp_path: Path) -> None:
    async with flow(tmp_path, rooms=("monitor", "gateway")) as it:
        headers = {"Authorization": f"Bearer {WEBHOOK_TOKEN}"}
        for body in NO_WEBHOOKS:
            answer = await it.http.post(f"{it.url('monitor')}{PATH}", content=body, headers=headers)
            assert answer.status_code == 400 and len(answer.content) < 1024 and MARK not in answer.text, body[:40]
        assert await it.log.ids() == []


@pytest.mark.parametrize("head, chunks", [(f"Content-Length: {HUGE}", 0), ("Transfer-Encoding: chunked", 100)])
async def test_a_hundred_megabytes_are_refused_while_others_are_served(tmp_path: Path, head: str, chunks: int) -> None:
    async with flow(tmp_path, given={"monitor": {"body_timeout_s": 1.5}}) as it:
        sending = asyncio.create_task(asyncio.to_thread(raw, it, head, chunks=chunks))
        dawdling = asyncio.create_task(asyncio.to_thread(raw, it, "Content-Length: 1000", body=b"{"))
        for _ in range(5):
            begun = time.monotonic()
            assert (await it.http.get(f"{it.url('monitor')}/healthz")).status_code == 200
            assert time.monotonic() - begun < 4  # 1.5 s, and what a busy machine adds
        assert (await it.alert("payments")).status_code == 200
        status, answer = await sending
        assert status == 413 and len(answer) < 1024 and b"xxx" not in answer
        status, answer = await dawdling
        assert status == 408 and len(answer) < 1024
        await it.wait(State.RESOLVED)


async def test_without_nats_the_sender_is_told_to_come_back_and_nothing_is_lost(tmp_path: Path) -> None:
    async with flow(tmp_path) as it:
        it.nats.kill()
        starts = datetime.now(UTC)
        begun = time.monotonic()
        answer = await it.alert("payments", starts=starts, note=MARK)
        assert time.monotonic() - begun < 4  # 1.5 s, and what a busy machine adds
        assert answer.status_code == 503 and len(answer.content) < 1024 and MARK not in answer.text
        it.nats.start()
        while (await it.alert("payments", starts=starts, note=MARK)).status_code != 200:
            await asyncio.sleep(0.1)
        await it.wait(State.RESOLVED)
        await it.only()


async def test_a_webhook_that_never_arrived_is_found_by_reconciliation(tmp_path: Path) -> None:
    async with flow(tmp_path, given={"monitor": {"reconcile_s": 0.2}}) as it:
        it.silent_alert("payments")
        incident = await it.wait(State.RESOLVED)
        assert incident.opened.alert and incident.opened.alert.source == "reconciliation"
        await it.only()


async def test_the_end_of_an_alert_that_nobody_told_is_found_by_reconciliation(tmp_path: Path) -> None:
    given = {"monitor": {"reconcile_s": 0.2, "alertmanager_grace_s": 0}}
    async with flow(tmp_path, rung="approve", given=given) as it:
        await it.alert("payments")
        await it.wait(State.AWAITING)
        it.world.alerts.clear()
        assert names(await it.wait(State.CLOSED))[-1] == "cleared"
        await it.untouched()


async def test_the_same_webhook_twice_and_from_two_alertmanagers_at_once_is_one_incident(tmp_path: Path) -> None:
    async with flow(tmp_path, rung="approve") as it:
        starts = datetime.now(UTC)
        answers = await asyncio.gather(*(it.alert("payments", starts=starts) for _ in range(8)))
        assert {a.status_code for a in answers} == {200}
        await it.wait(State.AWAITING)
        incident = await it.only()
        assert names(incident).count("opened") == 1 and names(incident).count("planned") == 1
        assert (await it.alert("payments", starts=starts)).status_code == 200
        await it.only()


async def test_another_alert_of_the_target_joins_its_open_incident(tmp_path: Path) -> None:
    async with flow(tmp_path, rung="approve") as it:
        await it.alert("payments")
        await it.wait(State.AWAITING)
        assert (await it.alert("payments", severity="page")).json()["told"] == 1
        incident = await it.only()
        assert incident.log[-1].envelope.event == "alert_updated"


async def test_a_crowd_of_alerts_told_again_and_again_is_written_once(tmp_path: Path) -> None:
    async with flow(tmp_path, rung="approve") as it:
        starts = datetime.now(UTC)
        crowd = [{**it.world.alert("payments", starts, pod=f"p-{n}"), "status": "firing"} for n in range(230)]
        it.http.timeout = 60
        assert (await it.group(*crowd)).json()["opened"] == 1
        written = len((await it.wait(State.AWAITING)).log)
        assert (await it.group(*crowd)).json()["nothing"] == 230
        assert len((await it.only()).log) == written


async def test_after_a_reopen_the_next_alert_of_the_target_joins_the_reopened_incident(tmp_path: Path) -> None:
    async with flow(tmp_path, rung="approve", given={"monitor": {"cool_down_s": 0}}) as it:
        await it.alert("payments")
        first = await it.wait(State.AWAITING)
        await it.say(first, "reject")
        await it.wait(State.ESCALATED, incident_id=first.id)
        assert (await it.alert("payments", severity="page")).json()["opened"] == 1
        second = next(i for i in await it.log.ids() if i != first.id)
        asked = await it.wait(State.AWAITING, incident_id=second)
        assert (await it.say(first, "reopen")).status_code == 200
        await it.say(asked, "cancel")
        await it.wait(State.CANCELLED, incident_id=second)
        assert (await it.alert("payments", severity="third")).json()["told"] == 1
        assert sorted(await it.log.ids()) == sorted((first.id, second))


async def test_an_alert_of_nobody_is_shown_to_people_and_opens_nothing(tmp_path: Path) -> None:
    async with flow(tmp_path, rooms=("monitor", "gateway")) as it:
        answer = await it.alert("a-stranger")
        assert answer.status_code == 200 and answer.json()["unmatched"] == 1
        shown = (await it.person("GET", "/v1/unmatched")).json()
        assert len(shown) == 1
        assert shown[0]["alert"]["labels"]["service"] == "a-stranger" and "no target" in shown[0]["reason"]
        assert await it.log.ids() == []


async def test_a_mixed_group_is_split_per_alert(tmp_path: Path) -> None:
    async with flow(tmp_path, ["payments", "orders"], rung="approve") as it:
        starts = datetime.now(UTC)
        await it.alert("payments", starts=starts)
        payments = await it.wait(State.AWAITING)
        answer = await it.group(
            {**it.world.alert("payments", starts), "status": "resolved", "endsAt": datetime.now(UTC).isoformat()},
            {**it.silent_alert("orders"), "status": "firing", "unknown": {"field": [1]}},
            {**it.world.alert("a-stranger", starts), "status": "firing"},
            {"status": "firing", "labels": 7},
            {**it.world.alert("payments", starts, pod="p-1"), "status": "firing", "startsAt": "9999-12-31T23:59:59-05:00"},
        )
        assert answer.status_code == 200
        body = answer.json()
        assert (body["opened"], body["told"], body["unmatched"], body["ignored"]) == (1, 1, 3, 0)
        reasons = {entry["reason"] for entry in (await it.person("GET", "/v1/unmatched")).json()}
        assert reasons == {"claimed by no target", "its labels cannot be read", "its startsAt cannot be read"}
        await it.wait(State.CLOSED, incident_id=payments.id)
        orders = next(i for i in await it.log.ids() if i.startswith("orders"))
        await it.wait(State.AWAITING, incident_id=orders)
