"""The generated permissions on a real server: every room can do its work and nothing of another's."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from nats.js.errors import NotFoundError

from autopatch.chassis import admin
from autopatch.chassis.bus import Bus, connect
from autopatch.chassis.clock import SystemClock
from autopatch.chassis.log import EventLog
from autopatch.chassis.permissions import allowed, make_keys, server_config
from autopatch.chassis.stores import Blobs, BusControl, BusRecords
from autopatch.chassis.tests.nats_server import NatsServer
from autopatch.contract import catalogue as cat
from autopatch.contract import events as ev
from autopatch.contract.errors import OperatorError, Unavailable
from autopatch.contract.lifecycle import Incident


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[tuple[NatsServer, str]]:
    keys = make_keys(tmp_path / "keys")
    server = NatsServer(tmp_path, server_config(keys)).start()
    made = await connect(server.url, "admin", nkey_folder=str(tmp_path / "keys"), budget_s=5)
    await admin.prepare(made, admin.Limits())
    await made.close()
    yield server, str(tmp_path / "keys")
    server.kill()


async def test_nobody_gets_in_without_a_key(guarded: tuple[NatsServer, str]) -> None:
    with pytest.raises(Unavailable):
        await connect(guarded[0].url, "monitor", budget_s=2)


@pytest.mark.parametrize("room", cat.ROOMS)
async def test_a_room_that_has_its_own_seed_only_finds_all_it_needs_or_says_what_is_not_there(tmp_path: Path, room: str) -> None:
    public = make_keys(tmp_path / "keys")
    server = NatsServer(tmp_path, server_config(public)).start()
    own = tmp_path / "own"
    shutil.copytree(tmp_path / "keys" / room, own / room)
    bus = await connect(server.url, room, nkey_folder=str(own), budget_s=5)
    with pytest.raises(OperatorError, match=r"NATS has no .* infra\.nats\.streams"):
        await admin.look(bus)
    made = await connect(server.url, "admin", nkey_folder=str(tmp_path / "keys"), budget_s=5)
    await admin.prepare(made, admin.Limits())
    await admin.look(bus)
    assert bus.violations == 0
    with pytest.raises(OperatorError, match="no nkey seed for room admin"):
        await connect(server.url, "admin", nkey_folder=str(own), budget_s=5)
    for one in (bus, made):
        await one.close()
    server.kill()


async def test_a_room_says_and_hears_what_the_catalogue_gives_it(guarded: tuple[NatsServer, str]) -> None:
    server, keys = guarded
    monitor, validator = [await connect(server.url, room, nkey_folder=keys, budget_s=5) for room in ("monitor", "validator")]
    incident = await EventLog(monitor, SystemClock()).append(Incident("a-1"), [ev.Opened(target="p", title="t")], by="monitor")
    subscription = await validator.js.pull_subscribe_bind(consumer="validator_opened", stream=cat.INCIDENTS)
    message = (await subscription.fetch(timeout=5))[0]
    await EventLog(validator, SystemClock()).append(incident, [ev.NotReproduced(reason="green")], by="validator")
    await message.ack_sync(timeout=2)
    await BusRecords(monitor).get("payments")
    assert monitor.violations == validator.violations == 0
    for bus in (monitor, validator):
        await bus.close()


@pytest.mark.parametrize("room", cat.ROOMS)
async def test_a_room_is_denied_every_event_that_is_not_its_own(guarded: tuple[NatsServer, str], room: str) -> None:
    server, keys = guarded
    bus = await connect(server.url, room, nkey_folder=keys, budget_s=5)
    own = {event.name for event in cat.SAYS[room]}
    foreign = [f"incidents.x-1.{name}" for name in ev.EVENTS if name not in own]
    foreign += [cat.dead_letter_subject(other) for other in cat.ROOMS if other != room]
    foreign += ["$JS.API.STREAM.DELETE.INCIDENTS", "$JS.API.STREAM.PURGE.INCIDENTS", "$JS.API.STREAM.CREATE.X"]
    foreign += [f"$JS.ACK.INCIDENTS.{cat.durable(o, e)}.1" for o in cat.ROOMS if o != room for e in cat.HEARS[o]]
    before = bus.violations
    for subject in foreign:
        await bus.client.publish(subject, b"{}")
    for subject in (">", "_INBOX.>", "_IN_admin.>", "$JS.EVENT.>"):
        await bus.client.subscribe(subject)
    await bus.flush()
    await asyncio.sleep(0.2)
    assert bus.violations - before == len(foreign) + 4
    await bus.close()


async def test_the_pause_can_be_read_but_not_set_by_the_executor(guarded: tuple[NatsServer, str]) -> None:
    server, keys = guarded
    bus: Bus = await connect(server.url, "executor", nkey_folder=keys, budget_s=1)
    assert await BusControl(bus).paused() == ""
    with pytest.raises(Unavailable):
        await BusControl(bus).pause("no")
    await bus.close()


@pytest.mark.parametrize("stream", [cat.INCIDENTS, cat.TIMER_STREAM])
async def test_the_gateway_reads_what_the_server_gave_up_on(guarded: tuple[NatsServer, str], stream: str) -> None:
    server, keys = guarded
    bus = await connect(server.url, "gateway", nkey_folder=keys, budget_s=5)
    with pytest.raises(NotFoundError):
        await bus.js.get_msg(stream, seq=1, direct=True)
    assert bus.violations == 0
    await bus.close()


async def test_rooms_hand_each_other_large_objects_and_none_can_purge_them(guarded: tuple[NatsServer, str]) -> None:
    server, keys = guarded
    giver, taker = [await connect(server.url, room, nkey_folder=keys, budget_s=5) for room in ("gateway", "planner")]
    data = b"x" * 300_000
    refs = [await Blobs(bus).put(data) for bus in (giver, giver, taker)]
    assert await Blobs(taker).get(refs[0]) == data and len({ref.digest for ref in refs}) == 1
    with pytest.raises(Unavailable, match="not in the object store"):
        await Blobs(taker).get(refs[0].model_copy(update={"name": "0" * 64, "digest": "0" * 64}))
    assert giver.violations == taker.violations == 0
    await taker.client.publish(f"$JS.API.STREAM.PURGE.OBJ_{cat.BLOBS_BUCKET}", b"{}")
    await taker.flush()
    await asyncio.sleep(0.2)
    assert taker.violations == 1 and await Blobs(giver).get(refs[0]) == data
    for bus in (giver, taker):
        await bus.close()


def test_only_the_executor_may_say_applying_and_only_the_gateway_approved() -> None:
    sayers = {e: [r for r in cat.ROOMS if f"incidents.*.{e}" in allowed(r)[0]] for e in ("applying", "approved", "rolling_back")}
    assert sayers == {"applying": ["executor"], "approved": ["gateway"], "rolling_back": ["executor"]}
