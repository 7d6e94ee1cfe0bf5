"""The event log on a real server."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from autopatch.chassis.bus import LARGEST_MESSAGE, Bus, TooLarge
from autopatch.chassis.clock import SystemClock
from autopatch.chassis.log import EventLog
from autopatch.chassis.stores import Blobs, BusControl, BusRecords, BusTimers
from autopatch.chassis.tests.nats_server import NatsServer
from autopatch.contract import events as ev
from autopatch.contract.errors import Conflict, ContractError
from autopatch.contract.lifecycle import Incident, State, chain_faults

OPENED = ev.Opened(target="payments", title="slow")


async def test_what_is_appended_is_read_back_with_a_whole_chain(bus: Bus) -> None:
    log = EventLog(bus, SystemClock())
    incident = await log.append(Incident("a-1"), [OPENED], by="monitor")
    await log.append(incident, [ev.NotReproduced(reason="green")], by="validator")
    again = await EventLog(bus, SystemClock()).load("a-1")
    assert (again.state, len(again.log), chain_faults(again)) == (State.CLOSED, 2, [])


async def test_a_stale_writer_is_refused_and_nothing_of_it_is_stored(bus: Bus) -> None:
    log = EventLog(bus, SystemClock())
    incident = await log.append(Incident("a-1"), [OPENED], by="monitor")
    await log.append(incident, [ev.Cancelled(person="ada")], by="gateway")
    with pytest.raises(Conflict):
        await log.append(incident, [ev.NotReproduced(reason="late")], by="validator")
    assert (await log.load("a-1")).state is State.CANCELLED


async def test_a_second_opened_of_the_same_incident_is_refused_by_the_log(bus: Bus) -> None:
    await EventLog(bus, SystemClock()).append(Incident("a-1"), [OPENED], by="monitor")
    with pytest.raises(Conflict):
        await EventLog(bus, SystemClock()).append(Incident("a-1"), [OPENED.model_copy(update={"title": "x"})], by="gateway")


async def test_a_repeat_after_a_lost_answer_finds_its_own_event(bus: Bus) -> None:
    first = await EventLog(bus, SystemClock()).append(Incident("a-1"), [OPENED], by="monitor")
    second = await EventLog(bus, SystemClock()).append(Incident("a-1"), [OPENED], by="monitor")
    assert first.log[0].envelope.event_id == second.log[0].envelope.event_id
    assert len((await EventLog(bus, SystemClock()).load("a-1")).log) == 1


async def test_sixteen_writers_race_and_exactly_one_wins(bus: Bus) -> None:
    incident = await EventLog(bus, SystemClock()).append(Incident("a-1"), [OPENED], by="monitor")
    logs = [EventLog(bus, SystemClock()) for _ in range(16)]
    results = await asyncio.gather(
        *(log.append(incident, [ev.Cancelled(person=str(i))], by=f"person:{i}") for i, log in enumerate(logs)),
        return_exceptions=True,
    )
    assert sum(not isinstance(r, Exception) for r in results) == 1
    assert all(isinstance(r, Conflict | Incident) for r in results)


async def test_an_illegal_event_is_refused_before_the_wire(bus: Bus) -> None:
    log = EventLog(bus, SystemClock())
    incident = await log.append(Incident("a-1"), [OPENED], by="monitor")
    with pytest.raises(ContractError, match="recovered is not legal"):
        await log.append(incident, [ev.Recovered(comparisons=())], by="validator")
    assert len((await log.load("a-1")).log) == 1


async def test_a_message_over_the_limit_is_refused_before_the_wire_and_the_connection_stays(bus: Bus) -> None:
    log = EventLog(bus, SystemClock())
    with pytest.raises(TooLarge):
        await log.append(Incident("a-1"), [OPENED.model_copy(update={"title": "x" * LARGEST_MESSAGE})], by="monitor")
    await log.append(Incident("a-1"), [OPENED], by="monitor")
    assert bus.up


async def test_an_append_survives_a_server_that_is_killed_and_comes_back(bus: Bus, nats_server: NatsServer) -> None:
    log = EventLog(bus, SystemClock())
    incident = await log.append(Incident("a-1"), [OPENED], by="monitor")
    nats_server.kill()
    appending = asyncio.create_task(log.append(incident, [ev.NotReproduced(reason="green")], by="validator"))
    await asyncio.sleep(0.5)
    nats_server.start()
    assert (await appending).state is State.CLOSED
    assert len((await EventLog(bus, SystemClock()).load("a-1")).log) == 2


async def test_following_gives_what_was_and_what_comes(bus: Bus) -> None:
    log = EventLog(bus, SystemClock())
    incident = await log.append(Incident("a-1"), [OPENED], by="monitor")
    seen: list[str] = []

    async def follow() -> None:
        async for stored in log.follow(0):
            seen.append(stored.envelope.event)
            if len(seen) == 2:
                return

    following = asyncio.create_task(follow())
    await asyncio.sleep(0.3)
    await log.append(incident, [ev.NotReproduced(reason="green")], by="validator")
    await asyncio.wait_for(following, 3)
    assert seen == ["opened", "not_reproduced"]
    assert await log.ids() == ["a-1"]
    assert await log.room_left()


async def test_a_timer_fires_once_and_setting_it_again_replaces_it(bus: Bus) -> None:
    timers = BusTimers(bus, "executor")
    now = datetime.now(UTC)
    await timers.set("a-1", "expiry", now + timedelta(seconds=1))
    await timers.set("a-1", "expiry", now + timedelta(seconds=3))
    subscription = await bus.js.pull_subscribe_bind(consumer="executor_timers", stream="TIMERS")
    messages = await subscription.fetch(batch=5, timeout=8)
    fired = datetime.now(UTC) - now
    assert len(messages) == 1 and b'"expiry"' in messages[0].data
    assert timedelta(seconds=2) < fired < timedelta(seconds=6)
    await messages[0].ack()
    with pytest.raises(TimeoutError):
        await subscription.fetch(batch=1, timeout=1.5)


async def test_records_are_written_by_compare_and_set(bus: Bus) -> None:
    records = BusRecords(bus)
    record, revision = await records.get("payments")
    assert (record.holder, revision) == ("", 0)
    held = record.model_copy(update={"holder": "a-1"})
    after = await records.put("payments", held, revision)
    with pytest.raises(Conflict):
        await records.put("payments", record.model_copy(update={"holder": "b-2"}), revision)
    assert (await records.get("payments")) == (held, after)


async def test_the_pause_is_read_back(bus: Bus) -> None:
    control = BusControl(bus)
    assert await control.paused() == ""
    await control.pause("freeze")
    assert await BusControl(bus).paused() == "freeze"
    await control.pause("")
    assert await control.paused() == ""


async def test_large_objects_come_back_by_their_digest(bus: Bus) -> None:
    ref = await Blobs(bus).put(b"x" * 300_000)
    assert await Blobs(bus).get(ref) == b"x" * 300_000
