"""The live stream over a real connection."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest

from autopatch.contract import events as ev
from services.gateway.tests import story
from services.gateway.tests.fakes import FakeChassis
from services.gateway.tests.serving import Served, served
from services.gateway.tests.story import ID


@pytest.fixture
def gateway(tmp_path: Path, chassis: FakeChassis) -> Iterator[Served]:
    with served(tmp_path, chassis, heartbeat_s=0.3, max_streams=2) as found:
        yield found


def client(gateway: Served) -> httpx2.Client:
    return httpx2.Client(base_url=gateway.url, headers={"Authorization": f"Bearer {gateway.tokens['vic']}"}, timeout=5)


def read(gateway: Served, count: int, *, last: str = "", **params: Any) -> list[tuple[int, str]]:
    headers = {"Last-Event-ID": last} if last else {}
    found: list[tuple[int, str]] = []
    with client(gateway) as door, door.stream("GET", "/v1/events", params=params, headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        for event in httpx2.EventSource(answer):
            if event.id:
                assert json.loads(event.data)["envelope"]["event"] == event.event
                found.append((int(event.id), event.event))
            if len(found) == count:
                break
    return found


def freed(chassis: FakeChassis) -> bool:
    deadline = time.monotonic() + 5
    while chassis.log.followers and time.monotonic() < deadline:
        time.sleep(0.02)
    return not chassis.log.followers


def test_a_reader_resumes_after_the_last_event_that_it_got(gateway: Served) -> None:
    story.awaiting(gateway.chassis)
    first = read(gateway, 3)
    assert first == [(1, "opened"), (2, "reproduced"), (3, "diagnosed")]
    assert read(gateway, 3, last=str(first[-1][0])) == [(4, "planned"), (5, "rehearsed"), (6, "approval_requested")]
    assert freed(gateway.chassis)


def test_one_incident_can_be_followed_alone(gateway: Served) -> None:
    story.awaiting(gateway.chassis)
    story.awaiting(gateway.chassis, "other-1")
    assert read(gateway, 1, incident="other-1") == [(7, "opened")]
    with client(gateway) as door:
        assert door.get("/v1/events", params={"incident": "nope"}).status_code == 404


def test_what_happens_while_someone_listens_arrives_and_silence_is_filled_with_heartbeats(gateway: Served) -> None:
    story.awaiting(gateway.chassis)
    with client(gateway) as door, door.stream("GET", "/v1/events", params={"after": 6}) as answer:
        lines = answer.iter_lines()
        assert next(line for line in lines if "ping" in line)
        gateway.chassis.log.say(ID, ev.Cancelled(person="olga"), by="person:olga")
        assert next(line for line in lines if line.startswith("event:")) == "event: cancelled"


def test_one_reader_too_many_is_told_to_come_back_and_gets_in_when_another_left(gateway: Served) -> None:
    story.awaiting(gateway.chassis)
    with client(gateway) as door, door.stream("GET", "/v1/events") as a, door.stream("GET", "/v1/events") as b:
        both = a.iter_lines(), b.iter_lines()
        assert all(next(lines) is not None for lines in both)
        with client(gateway) as three:
            refused = three.get("/v1/events")
            assert refused.status_code == 503 and refused.headers["retry-after"]
    assert freed(gateway.chassis)
    assert read(gateway, 1) == [(1, "opened")]


@pytest.mark.parametrize("last", ["x", "-1", "1e3", "9" * 30])
def test_a_last_event_id_that_is_no_sequence_is_refused(gateway: Served, last: str) -> None:
    with client(gateway) as door:
        answer = door.get("/v1/events", headers={"Last-Event-ID": last})
    assert answer.status_code == 400 and last not in answer.json()["error"]


def test_a_log_that_goes_away_ends_the_stream_with_a_word(gateway: Served) -> None:
    story.awaiting(gateway.chassis)
    with client(gateway) as door, door.stream("GET", "/v1/events", params={"after": 6}) as answer:
        events = iter(httpx2.EventSource(answer))
        gateway.chassis.log.down = True
        assert [e.event for e in events if e.event == "error"] == ["error"]
    assert freed(gateway.chassis)


def test_streams_end_at_once_when_the_gateway_stops(tmp_path: Path, chassis: FakeChassis) -> None:
    with ExitStack() as stack:
        gateway = stack.enter_context(served(tmp_path, chassis))
        with client(gateway) as door, door.stream("GET", "/v1/events") as answer:
            lines = answer.iter_lines()
            next(lines)
            began = time.monotonic()
            stack.close()
            assert list(lines) is not None and time.monotonic() - began < 4
    assert freed(chassis)


def test_a_reader_that_does_not_read_is_dropped_and_others_are_served(tmp_path: Path, chassis: FakeChassis) -> None:
    story.awaiting(chassis)
    for _ in range(400):
        chassis.log.say(ID, ev.Waiting(on="docker", reason="x" * 20_000, room="executor"), by="executor")
    with served(tmp_path, chassis, send_timeout_s=0.5) as gateway, ExitStack() as stack:
        lazy = stack.enter_context(socket.create_connection(("127.0.0.1", int(gateway.url.rsplit(":")[-1]))))
        lazy.sendall(f"GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {gateway.tokens['vic']}\r\n\r\n".encode())
        while not chassis.log.followers:
            time.sleep(0.01)
        assert read(gateway, 1) == [(1, "opened")]
        assert freed(chassis)
