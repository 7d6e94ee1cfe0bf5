"""Jobs that are watched over a real connection: stage by stage to the verdict, and what happens when the watcher goes away."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from autopatch.contract import events as ev
from autopatch.contract.code import RepairVerdict
from autopatch.contract.lifecycle import Incident, State
from services.gateway.tests import job_story
from services.gateway.tests.fakes import FakeChassis
from services.gateway.tests.job_story import asked
from services.gateway.tests.serving import Served, served


@pytest.fixture
def gateway(tmp_path: Path, chassis: FakeChassis) -> Iterator[Served]:
    with served(tmp_path, chassis, heartbeat_s=0.3, max_streams=2) as found:
        yield found


def client(gateway: Served) -> httpx2.Client:
    headers = {"Authorization": f"Bearer {gateway.tokens['olga']}"}
    return httpx2.Client(base_url=gateway.url, headers=headers, timeout=5)


def events(answer: httpx2.Response) -> Iterator[Any]:
    return iter(httpx2.EventSource(answer))


def within(seconds: float, done: Any) -> float:
    began = time.monotonic()
    while not done():
        assert time.monotonic() - began < seconds
        time.sleep(0.01)
    return time.monotonic() - began


def state(chassis: FakeChassis) -> State:
    found: Incident = asyncio.run(chassis.log.load(chassis.log.stored[0].envelope.incident_id))
    return found.state


def test_every_stage_comes_as_it_happens_and_the_verdict_is_last(gateway: Served) -> None:
    with client(gateway) as door, door.stream("POST", "/v1/repairs?stream=1", json=asked()) as answer:
        assert answer.status_code == 200
        stream = events(answer)
        opened = next(event for event in stream if event.id)
        assert opened.event == "opened"
        asyncio.run(job_story.fixed(gateway.chassis, json.loads(opened.data)["envelope"]["incident_id"]))
        rest = [event for event in stream if event.data]
    assert [event.event for event in rest] == [
        "reproduced", "diagnosed", "planned", "rehearsed", "applying", "applied", "recovered", "verdict",
    ]
    verdict = RepairVerdict.model_validate_json(rest[-1].data)
    assert verdict.verdict == "fixed" and verdict.diff and not gateway.chassis.live.told


def test_a_watcher_who_goes_away_cancels_the_job_at_once_where_that_was_asked_for(gateway: Served) -> None:
    body = asked(cancel_on_disconnect=True)
    with client(gateway) as door, door.stream("POST", "/v1/repairs?stream=1", json=body) as answer:
        next(event for event in events(answer) if event.id)
    assert within(1, lambda: gateway.chassis.live.told) < 1
    assert state(gateway.chassis) is State.CANCELLED
    cancelled = gateway.chassis.log.stored[-1].envelope.data
    assert isinstance(cancelled, ev.Cancelled) and cancelled.person == "olga" and "went away" in cancelled.reason


def test_without_that_wish_the_job_goes_on(gateway: Served) -> None:
    with client(gateway) as door, door.stream("POST", "/v1/repairs?stream=1", json=asked()) as answer:
        next(event for event in events(answer) if event.id)
    within(5, lambda: not gateway.chassis.log.followers)
    time.sleep(0.3)
    assert state(gateway.chassis) is State.OPEN and not gateway.chassis.live.told


def test_a_watcher_who_leaves_after_the_end_cancels_nothing(gateway: Served) -> None:
    body = asked(cancel_on_disconnect=True)
    with client(gateway) as door, door.stream("POST", "/v1/repairs?stream=1", json=body) as answer:
        stream = events(answer)
        opened = next(event for event in stream if event.id)
        asyncio.run(job_story.fixed(gateway.chassis, json.loads(opened.data)["envelope"]["incident_id"]))
        assert next(event for event in stream if event.event == "verdict")
    time.sleep(0.3)
    assert state(gateway.chassis) is State.RESOLVED and not gateway.chassis.live.told


def test_a_stream_that_ends_for_another_reason_cancels_nothing(tmp_path: Path, chassis: FakeChassis) -> None:
    body = asked(cancel_on_disconnect=True)
    with (
        served(tmp_path, chassis) as gateway, client(gateway) as door,
        door.stream("POST", "/v1/repairs?stream=1", json=body) as answer,
    ):
        stream = events(answer)
        next(event for event in stream if event.id)
        gateway.chassis.log.down = True
        assert [event.event for event in stream if event.data] == ["error"]
    assert not chassis.live.told
    chassis.log.down = False
    assert state(chassis) is State.OPEN


def test_a_cancellation_waits_for_a_log_that_is_away(gateway: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    chassis = gateway.chassis
    with client(gateway) as door, door.stream(
        "POST", "/v1/repairs?stream=1", json=asked(cancel_on_disconnect=True)
    ) as answer:
        next(event for event in events(answer) if event.id)
        real = chassis.log.append

        async def away(*_: Any, **__: Any) -> Any:
            chassis.log.append = real
            chassis.log.down = True
            asyncio.get_running_loop().call_later(0.2, setattr, chassis.log, "down", False)
            return await real(*_, **__)

        monkeypatch.setattr(chassis.log, "append", away)
    within(3, lambda: chassis.live.told)
    assert state(chassis) is State.CANCELLED


def test_one_watcher_too_many_begins_nothing(gateway: Served) -> None:
    with client(gateway) as door:
        first = door.stream("POST", "/v1/repairs?stream=1", json=asked(request_id="1"))
        second = door.stream("POST", "/v1/repairs?stream=1", json=asked(request_id="2"))
        with first as a, second as b:
            lines = a.iter_lines(), b.iter_lines()
            assert all(next(each) for each in lines)
            within(2, lambda: gateway.chassis.log.followers == 2)
            refused = door.post("/v1/repairs?stream=1", json=asked(request_id="3"))
            assert refused.status_code == 503 and len(gateway.chassis.log.stored) == 2


class Slow:
    """An object store that takes its time until `go`."""

    def __init__(self, chassis: FakeChassis, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked, self.go, self._put = threading.Event(), threading.Event(), chassis.blobs.put
        monkeypatch.setattr(chassis.blobs, "put", self.put)

    async def put(self, data: bytes) -> Any:
        self.asked.set()
        while not self.go.is_set():
            await asyncio.sleep(0.01)
        return await self._put(data)


def test_a_place_that_was_free_when_a_job_was_asked_for_is_kept_until_it_is_watched(
    tmp_path: Path, chassis: FakeChassis, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow(chassis, monkeypatch)
    with (
        served(tmp_path, chassis, max_streams=1) as gateway, client(gateway) as door, client(gateway) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        watched = door.stream("POST", "/v1/repairs?stream=1", json=asked(cancel_on_disconnect=True))
        begun = pool.submit(watched.__enter__)
        assert slow.asked.wait(5)
        with other.stream("GET", "/v1/events") as refused:
            slow.go.set()
            assert begun.result(5).status_code == 200 and refused.status_code == 503
        next(event for event in events(begun.result()) if event.id)
        watched.__exit__(None, None, None)
        within(1, lambda: chassis.live.told)

        def free() -> bool:
            with other.stream("GET", "/v1/events") as answer:
                return answer.status_code == 200

        within(1, free)
    assert state(chassis) is State.CANCELLED


def test_a_watcher_who_goes_away_before_there_is_a_job_cancels_it_when_there_is(
    gateway: Served, chassis: FakeChassis, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow(chassis, monkeypatch)
    with client(gateway) as door, pytest.raises(httpx2.ReadTimeout):
        door.post("/v1/repairs?stream=1", json=asked(cancel_on_disconnect=True), timeout=0.3)
    slow.go.set()
    within(2, lambda: chassis.live.told)
    assert state(chassis) is State.CANCELLED


def test_a_place_is_free_again_when_the_job_could_not_be_begun(gateway: Served) -> None:
    with client(gateway) as door:
        for _ in range(3):
            assert door.post("/v1/repairs?stream=1", json=asked(archive="AAAA")).status_code == 400
        gateway.chassis.blobs.down = True
        for _ in range(3):
            assert door.post("/v1/repairs?stream=1", json=asked()).json()["error"] == "nats: not connected"
        gateway.chassis.blobs.down = False
        with door.stream("POST", "/v1/repairs?stream=1", json=asked()) as answer:
            assert answer.status_code == 200
