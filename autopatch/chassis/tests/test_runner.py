"""The runner on a real server: repeats, crashes, waiting, dead letters, cancellation."""

import asyncio
from collections.abc import Sequence

import pytest

from autopatch.chassis.bus import Bus
from autopatch.chassis.crash import POINTS
from autopatch.chassis.room import Heard, RetryLater, Room
from autopatch.chassis.stores import BusLive
from autopatch.chassis.tests.nats_server import NatsServer, until
from autopatch.chassis.tests.rooms import is_in, opened, running, validator
from autopatch.contract import events as ev
from autopatch.contract.errors import Unavailable
from autopatch.contract.lifecycle import State


async def test_a_handler_is_asked_and_its_decision_is_on_the_log_with_its_cause(bus: Bus, nats_server: NatsServer) -> None:
    async def green(heard: Heard) -> Sequence[ev.Event]:
        return [ev.NotReproduced(reason="green")]

    log = await opened(bus)
    async with running(nats_server.url, validator(green)):
        await until(lambda: is_in(log, State.CLOSED))
    incident = await log.load("a-1")
    assert incident.log[1].envelope.caused_by == incident.log[0].envelope.event_id
    assert incident.log[1].envelope.by == "validator"


@pytest.mark.parametrize("point", [p for p in POINTS if not p.endswith("_put")])
async def test_a_crash_at_any_point_neither_loses_nor_doubles_the_decision(bus: Bus, nats_server: NatsServer, point: str) -> None:
    asked = 0
    died = asyncio.Event()

    async def green(heard: Heard) -> Sequence[ev.Event]:
        nonlocal asked
        asked += 1
        return [ev.NotReproduced(reason="green")]

    async def crash(at: str) -> None:
        if at == point:
            died.set()
            await asyncio.Event().wait()

    log = await opened(bus)
    async with running(nats_server.url, validator(green), crash=crash, ack_wait_s=600):
        await asyncio.wait_for(died.wait(), 5)
        # the process is gone from here on: nothing of it may say a word, so its connection goes first
    async with running(nats_server.url, validator(green)):
        await until(lambda: is_in(log, State.CLOSED))
        await asyncio.sleep(2.5)
    assert [s.envelope.event for s in (await log.load("a-1")).log] == ["opened", "not_reproduced"]
    assert asked <= 2


async def test_what_is_missing_is_noted_once_and_the_handler_resumes_alone(bus: Bus, nats_server: NatsServer) -> None:
    missing = True

    async def handler(heard: Heard) -> Sequence[ev.Event]:
        if missing:
            raise Unavailable("prometheus", "connection refused", tip="start it")
        return [ev.NotReproduced(reason="green")]

    log = await opened(bus)
    async with running(nats_server.url, validator(handler)):
        await asyncio.sleep(1)
        missing = False
        await until(lambda: is_in(log, State.CLOSED))
    incident = await log.load("a-1")
    assert [s.envelope.event for s in incident.log] == ["opened", "waiting", "not_reproduced"]
    noted = incident.last(ev.Waiting)
    assert noted and noted.reason == "connection refused (start it)"


async def test_waiting_too_long_escalates(bus: Bus, nats_server: NatsServer) -> None:
    async def handler(heard: Heard) -> Sequence[ev.Event]:
        raise RetryLater(0.1, on="target", reason="held by b-2")

    log = await opened(bus)
    async with running(nats_server.url, validator(handler), waiting_limit_s=0.5):
        await until(lambda: is_in(log, State.ESCALATED))
    escalated = (await log.load("a-1")).last(ev.Escalated)
    assert escalated and "held by b-2" in escalated.reason


async def test_a_handler_that_always_fails_becomes_a_dead_letter_and_delays_no_other(
    bus: Bus, nats_server: NatsServer
) -> None:
    async def handler(heard: Heard) -> Sequence[ev.Event]:
        if heard.incident.id == "poison":
            raise ValueError("boom")
        return [ev.NotReproduced(reason="green")]

    log = await opened(bus, "poison")
    await opened(bus, "a-1")
    async with running(nats_server.url, validator(handler), backoff_s=0.05):
        await until(lambda: is_in(log, State.CLOSED), 2)
        await until(lambda: is_in(log, State.ESCALATED, "poison"), 60)
    letter = await bus.js.get_msg("DEAD_LETTERS", 1)
    assert b"boom" in (letter.data or b"") and b"Traceback" in (letter.data or b"")


async def test_undecodable_bytes_become_a_dead_letter_at_once(bus: Bus, nats_server: NatsServer) -> None:
    await bus.js.publish("incidents.junk.opened", b"{not json")

    async def handler(heard: Heard) -> Sequence[ev.Event]:
        return []

    async with running(nats_server.url, validator(handler)):
        async def buried() -> bool:
            return (await bus.js.stream_info("DEAD_LETTERS")).state.messages == 1

        await until(buried, 5)


async def test_a_cancellation_ends_the_handler_within_a_second(bus: Bus, nats_server: NatsServer) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def slow(heard: Heard) -> Sequence[ev.Event]:
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return []

    log = await opened(bus)
    async with running(nats_server.url, validator(slow)):
        await asyncio.wait_for(began.wait(), 5)
        await log.append(await log.load("a-1"), [ev.Cancelled(person="ada")], by="person:ada")
        await BusLive(bus).cancelled("a-1")
        await asyncio.wait_for(ended.wait(), 1)
    assert (await log.load("a-1")).state is State.CANCELLED


async def test_a_lost_word_of_cancellation_is_found_on_the_log(bus: Bus, nats_server: NatsServer) -> None:
    ended = asyncio.Event()

    async def slow(heard: Heard) -> Sequence[ev.Event]:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return []

    log = await opened(bus)
    async with running(nats_server.url, validator(slow)):
        await asyncio.sleep(0.5)
        await log.append(await log.load("a-1"), [ev.Cancelled(person="ada")], by="person:ada")
        await asyncio.wait_for(ended.wait(), 5)


async def test_a_slow_handler_is_not_asked_a_second_time_while_it_works(bus: Bus, nats_server: NatsServer) -> None:
    asked = 0

    async def slow(heard: Heard) -> Sequence[ev.Event]:
        nonlocal asked
        asked += 1
        await asyncio.sleep(6)
        return [ev.NotReproduced(reason="green")]

    log = await opened(bus)
    async with running(nats_server.url, validator(slow)), running(nats_server.url, validator(slow)):
        await until(lambda: is_in(log, State.CLOSED), 12)
    assert asked == 1


async def test_a_historian_hears_every_ending_also_when_the_incident_moved_on(bus: Bus, nats_server: NatsServer) -> None:
    heard_of: list[str] = []

    async def learn(heard: Heard) -> Sequence[ev.Event]:
        heard_of.append(heard.event.name)
        return [ev.LessonRecorded(lesson_id="l", signature="s", outcome="o", trust=0)]

    log = await opened(bus)
    incident = await log.append(await log.load("a-1"), [ev.Cancelled(person="ada")], by="person:ada")
    await log.append(incident, [ev.Reopened(person="ada")], by="person:ada")
    room = Room("knowledge", {ev.Cancelled: learn}, historian=True)
    async with running(nats_server.url, room):
        async def learnt() -> bool:
            return (await log.load("a-1")).last(ev.LessonRecorded) is not None

        await until(learnt, 5)
    assert heard_of == ["cancelled"]


async def test_a_note_that_comes_while_it_is_decided_does_not_ask_the_handler_again(bus: Bus, nats_server: NatsServer) -> None:
    asked = 0
    log = await opened(bus)

    async def slow(heard: Heard) -> Sequence[ev.Event]:
        nonlocal asked
        asked += 1
        note = ev.Waiting(on="model", reason="a note of somebody else", room="planner")
        await log.append(await log.load("a-1"), [note], by="planner")
        return [ev.NotReproduced(reason="green")]

    async with running(nats_server.url, validator(slow)):
        await until(lambda: is_in(log, State.CLOSED))
    assert asked == 1
    assert [s.envelope.event for s in (await log.load("a-1")).log] == ["opened", "waiting", "not_reproduced"]


async def test_a_loop_that_swallows_its_cancellation_is_ended_all_the_same(nats_server: NatsServer) -> None:
    swallowed, started = 0, asyncio.Event()

    async def deaf() -> None:
        nonlocal swallowed
        while True:
            started.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                swallowed += 1
                if swallowed > 1:
                    raise

    async with running(nats_server.url, Room("validator", background=(deaf,))):
        await asyncio.wait_for(started.wait(), 10)
    assert swallowed == 2
