"""Questions between rooms: several answered at a time, and a cancelled incident ends its answers at once."""

import asyncio
import time

import pytest

from autopatch.chassis.asking import Answering, BusAsker
from autopatch.chassis.bus import connect
from autopatch.chassis.stores import BusLive
from autopatch.chassis.telemetry import provider, scope
from autopatch.chassis.tests.nats_server import NatsServer
from autopatch.contract.errors import Unavailable
from autopatch.contract.requests import Recheck, Rechecked


ROOMS = ("executor", "validator", "gateway")


async def test_answers_do_not_wait_for_each_other_and_end_when_their_incident_is_cancelled(nats_server: NatsServer) -> None:
    asked, answering, gateway = [await connect(nats_server.url, room, budget_s=5) for room in ROOMS]
    ended: list[str] = []

    async def slowly(request: Recheck) -> Rechecked:
        try:
            await asyncio.sleep(0 if request.incident_id == "quick" else 60)
        except asyncio.CancelledError:
            ended.append(request.incident_id)
            raise
        return Rechecked(status="red")

    tracer = provider("validator", "").get_tracer("test")
    room = Answering(answering, tracer, {Recheck: slowly})
    await room.start()

    async def ask(incident_id: str) -> Rechecked:
        with scope(tracer, incident_id, {}):
            return await BusAsker(asked).ask(Recheck(incident_id=incident_id), Rechecked)

    slow, other = asyncio.create_task(ask("a-1")), asyncio.create_task(ask("a-2"))
    assert (await ask("quick")).status == "red"
    began = time.monotonic()
    await BusLive(gateway).cancelled("a-1")
    with pytest.raises(Unavailable, match="cancelled"):
        await slow
    assert time.monotonic() - began < 1 and ended == ["a-1"] and not other.done()
    with pytest.raises(Unavailable, match="cancelled"):
        await ask("a-1")  # sent before its asker heard of it, and heard after
    assert ended == ["a-1"]
    await room.stop()
    assert ended == ["a-1", "a-2"]
    with pytest.raises(Unavailable):
        await other
    for bus in (asked, answering, gateway):
        await bus.close()


async def test_what_the_answering_room_misses_is_told_with_its_remedy(nats_server: NatsServer) -> None:
    asked, answering = [await connect(nats_server.url, room, budget_s=5) for room in ROOMS[:2]]

    async def missing(_: Recheck) -> Rechecked:
        raise Unavailable("docker", "no image x:1", tip="build x")

    room = Answering(answering, provider("validator", "").get_tracer("test"), {Recheck: missing})
    await room.start()
    with pytest.raises(Unavailable) as caught:
        await BusAsker(asked).ask(Recheck(incident_id="a-1"), Rechecked)
    await room.stop()
    for bus in (asked, answering):
        await bus.close()
    assert (caught.value.service, caught.value.reason, caught.value.tip) == ("docker", "no image x:1", "build x")


async def test_an_answer_that_nobody_waits_for_any_more_is_given_up(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answering = [await connect(nats_server.url, room, budget_s=5) for room in ROOMS[:2]]
    monkeypatch.setattr(Recheck, "timeout_s", 0.2)
    ended = asyncio.Event()

    async def never(_: Recheck) -> Rechecked:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return Rechecked(status="red")

    room = Answering(answering, provider("validator", "").get_tracer("test"), {Recheck: never})
    await room.start()
    with pytest.raises(Unavailable):
        await BusAsker(asked).ask(Recheck(incident_id="a-1"), Rechecked)
    async with asyncio.timeout(5):
        await ended.wait()
    await room.stop()
    for bus in (asked, answering):
        await bus.close()
