"""Waiting on a real server: it takes no slot from others, and what is counted is the present wait."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from autopatch.chassis.bus import Bus
from autopatch.chassis.clock import SystemClock
from autopatch.chassis.log import EventLog
from autopatch.chassis.room import Heard, RetryLater, Room
from autopatch.chassis.runner import AT_ONCE
from autopatch.chassis.stores import BusTimers
from autopatch.chassis.tests.nats_server import NatsServer, until
from autopatch.chassis.tests.rooms import Leaping, is_in, opened, running, validator
from autopatch.contract import events as ev
from autopatch.contract.errors import Unavailable
from autopatch.contract.lifecycle import State

GREEN = ev.NotReproduced(reason="green")
LONG = timedelta(minutes=29)
"""A little less than the limit."""


class Missing:
    """A handler that waits for what is missing, and is green when nothing is."""

    def __init__(self, on: str) -> None:
        self.on = on
        self.asked = 0

    async def __call__(self, heard: Heard) -> Sequence[ev.Event]:
        """Counts how often."""
        self.asked += 1
        if self.on:
            raise Unavailable(self.on, "connection refused")
        return [GREEN]

    async def refuses(self, times: int = 3) -> None:
        """It was asked, and asked again."""
        wanted = self.asked + times
        async with asyncio.timeout(10):
            while self.asked < wanted:
                await asyncio.sleep(0.02)


async def _refuses_and_goes_on(log: EventLog, clock: Leaping, missing: Missing) -> None:
    """Long after, it is still only waited for."""
    clock.ahead += LONG
    await missing.refuses()
    missing.on = ""
    await until(lambda: is_in(log, State.CLOSED))


async def test_more_incidents_wait_than_the_room_works_on_and_others_are_handled_all_the_same(
    bus: Bus, nats_server: NatsServer
) -> None:
    waiting = set[str]()

    async def paused(heard: Heard) -> Sequence[ev.Event]:
        waiting.add(heard.incident.id)
        raise RetryLater(60, on="pause", reason="everything is paused")

    async def urgent(heard: Heard) -> Sequence[ev.Event]:
        return [GREEN]

    async def all_wait() -> bool:
        return len(waiting) == AT_ONCE + 8

    for number in range(AT_ONCE + 8):
        await opened(bus, f"w-{number}")
    async with running(nats_server.url, Room("validator", {ev.Opened: paused, ev.Reopened: urgent})):
        await until(all_wait, 20)
        log = await opened(bus)
        cancelled = await log.append(await log.load("a-1"), [ev.Cancelled(person="ada")], by="person:ada")
        await log.append(cancelled, [ev.Reopened(person="ada")], by="person:ada")
        await until(lambda: is_in(log, State.CLOSED))


async def test_no_more_handlers_are_at_work_than_there_are_slots(bus: Bus, nats_server: NatsServer) -> None:
    at_work, most, go = 0, 0, asyncio.Event()

    async def busy(heard: Heard) -> Sequence[ev.Event]:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        await go.wait()
        at_work -= 1
        return [GREEN]

    async def full() -> bool:
        return at_work >= AT_ONCE

    for number in range(AT_ONCE + 8):
        log = await opened(bus, f"w-{number}")
    async with running(nats_server.url, validator(busy)):
        await until(full, 20)
        await asyncio.sleep(0.5)
        go.set()
        for number in range(AT_ONCE + 8):
            await until(lambda n=number: is_in(log, State.CLOSED, f"w-{n}"))
    assert most == AT_ONCE


async def test_a_wait_for_something_else_counts_from_its_own_beginning(bus: Bus, nats_server: NatsServer) -> None:
    handler, clock = Missing("target"), Leaping()
    log = await opened(bus)
    async with running(nats_server.url, validator(handler), clock=clock):
        await until(lambda: _waits(log, ["target"]))
        clock.ahead += LONG
        handler.on = "pause"
        await until(lambda: _waits(log, ["target", "pause"]))
        await _refuses_and_goes_on(log, clock, handler)


async def test_a_wait_that_ended_before_a_timer_fired_is_not_counted(bus: Bus, nats_server: NatsServer) -> None:
    missing, soaked, clock = Missing("prometheus"), Missing("prometheus"), Leaping()
    log = await opened(bus)

    async def watch(heard: Heard) -> Sequence[ev.Event]:
        await missing(heard)
        await BusTimers(bus, "validator").set("a-1", "soak", SystemClock().now())
        return []

    async with running(nats_server.url, Room("validator", {ev.Opened: watch}, {"soak": soaked}), clock=clock):
        await until(lambda: _waits(log, ["prometheus"]))
        clock.ahead += LONG
        missing.on = ""
        await until(lambda: _waits(log, ["prometheus", "prometheus"]))
        await _refuses_and_goes_on(log, clock, soaked)


async def test_a_wait_goes_on_counting_when_the_room_is_started_again(bus: Bus, nats_server: NatsServer) -> None:
    soaked, clock = Missing("prometheus"), Leaping()
    room = Room("validator", timers={"soak": soaked})
    log = await opened(bus)
    await BusTimers(bus, "validator").set("a-1", "soak", clock.now())
    async with running(nats_server.url, room, clock=clock):
        await until(lambda: _waits(log, ["prometheus"]))
    clock.ahead += LONG + timedelta(minutes=2)
    async with running(nats_server.url, room, clock=clock):
        await until(lambda: is_in(log, State.ESCALATED))
    assert await _waits(log, ["prometheus"])


async def test_a_historian_that_waits_for_ever_escalates_nothing_and_learns_in_the_end(
    bus: Bus, nats_server: NatsServer
) -> None:
    missing, clock = Missing("qdrant"), Leaping()

    async def learn(heard: Heard) -> Sequence[ev.Event]:
        await missing(heard)
        return [ev.LessonRecorded(lesson_id="l", signature="s", outcome="o", trust=0)]

    log = await opened(bus)
    incident = await log.append(await log.load("a-1"), [ev.Cancelled(person="ada")], by="person:ada")
    await log.append(incident, [ev.Reopened(person="ada")], by="person:ada")
    async with running(nats_server.url, Room("knowledge", {ev.Cancelled: learn}, historian=True), clock=clock):
        await until(lambda: _waits(log, ["qdrant"]))
        clock.ahead += 2 * LONG
        await missing.refuses()
        assert await is_in(log, State.OPEN)
        missing.on = ""

        async def learnt() -> bool:
            return (await log.load("a-1")).last(ev.LessonRecorded) is not None

        await until(learnt)
    assert await is_in(log, State.OPEN) and await _waits(log, ["qdrant"])


async def _waits(log: EventLog, on: list[str]) -> bool:
    """What the notes name so far."""
    return [s.envelope.data.on for s in (await log.load("a-1")).log if isinstance(s.envelope.data, ev.Waiting)] == on
