"""What nobody can handle, on a real server: kept, and said on its incident, whatever stream it came from."""

import asyncio
import json
from collections.abc import Sequence

import pytest

from autopatch.chassis import admin
from autopatch.chassis.bus import Bus
from autopatch.chassis.clock import SystemClock
from autopatch.chassis.room import Heard, Reject, Room
from autopatch.chassis.stores import BusTimers
from autopatch.chassis.tests.nats_server import NatsServer, until
from autopatch.chassis.tests.rooms import is_in, opened, running
from autopatch.contract import catalogue as cat
from autopatch.contract import events as ev
from autopatch.contract.lifecycle import State

NOW = SystemClock().now


@pytest.mark.parametrize("error", [Reject("no target file"), ValueError("boom")], ids=["rejected", "failed five times"])
async def test_a_timer_that_cannot_be_handled_escalates_its_incident(
    bus: Bus, nats_server: NatsServer, error: Exception
) -> None:
    async def soaked(heard: Heard) -> Sequence[ev.Event]:
        raise error

    log = await opened(bus)
    await BusTimers(bus, "validator").set("a-1", "soak", NOW())
    async with running(nats_server.url, Room("validator", timers={"soak": soaked}), backoff_s=0.05):
        await until(lambda: is_in(log, State.ESCALATED), 30)
    escalated = (await log.load("a-1")).last(ev.Escalated)
    assert escalated and escalated.room == "validator" and escalated.reason.startswith("timer soak could not be handled")
    assert str(error) in escalated.reason


@pytest.mark.parametrize("body", [b"{not json", b"[]", b"{}", b'{"incident_id": "a-1"}'])
async def test_a_timer_that_does_not_say_whose_it_is_becomes_a_dead_letter(
    bus: Bus, nats_server: NatsServer, body: bytes
) -> None:
    await bus.js.publish("timers.fired.validator", body)
    async with running(nats_server.url, Room("validator", timers={"soak": _never}), backoff_s=0.01):
        await until(lambda: _letters(bus, 1), 20)


@pytest.mark.parametrize("timer", [False, True], ids=["event", "timer"])
async def test_a_handler_that_no_delivery_survives_is_told_by_the_server_and_escalated(
    bus: Bus, nats_server: NatsServer, timer: bool
) -> None:
    asked = 0

    async def deadly(heard: Heard) -> Sequence[ev.Event]:
        nonlocal asked
        asked += 1
        await asyncio.Event().wait()
        return []

    await admin.prepare(bus, admin.Limits(ack_wait_s=0.2))
    log = await opened(bus)
    if timer:
        await BusTimers(bus, "validator").set("a-1", "soak", NOW())
    room = Room("validator", timers={"soak": deadly}) if timer else Room("validator", {ev.Opened: deadly})
    # whoever works on it is gone: with so long an ack_wait no heartbeat comes before the server gives up
    async with running(nats_server.url, room, ack_wait_s=600), running(nats_server.url, Room("gateway")):
        await until(lambda: is_in(log, State.ESCALATED), 30)
    assert asked == admin.MAX_DELIVER
    letter = await bus.js.get_msg(cat.DEAD_LETTERS, 1)
    assert letter.subject == cat.dead_letter_subject("gateway")
    told = json.loads(letter.data or b"{}")
    assert told["subject"] == ("timers.fired.validator" if timer else "incidents.a-1.opened")
    assert f"did not survive {admin.MAX_DELIVER} deliveries" in told["error"]
    escalated = (await log.load("a-1")).last(ev.Escalated)
    assert escalated and "did not survive" in escalated.reason


async def _never(heard: Heard) -> Sequence[ev.Event]:
    return []


async def _letters(bus: Bus, number: int) -> bool:
    return (await bus.js.stream_info(cat.DEAD_LETTERS)).state.messages == number
