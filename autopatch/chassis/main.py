"""Starts rooms: one by `python -m services.<room>`, all of them by `autopatch up`."""

import asyncio
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog
from opentelemetry.trace import Tracer

from autopatch.chassis import admin, asking, logs, metrics, stores, telemetry
from autopatch.chassis.bus import TRANSIENT, Bus, connect
from autopatch.chassis.clock import Clock, SystemClock
from autopatch.chassis.crash import Crash, no_crash
from autopatch.chassis.http import HttpServer, application
from autopatch.chassis.log import EventLog
from autopatch.chassis.room import Room
from autopatch.chassis.runner import Runner
from autopatch.chassis.settings import Common, RoomSettings, load, strangers
from autopatch.chassis.targets import FileTargets, load_targets
from autopatch.chassis.tasks import surely
from autopatch.contract import catalogue as cat
from autopatch.contract.errors import AutoPatchError

log = structlog.get_logger("main")


@dataclass
class Desk:
    """What a room is built on (the `Chassis` protocol), with the parts that only some rooms use."""

    name: str
    bus: Bus
    log: EventLog
    asker: asking.BusAsker
    timers: stores.BusTimers
    targets: FileTargets
    records: stores.BusRecords
    control: stores.BusControl
    unmatched: stores.BusUnmatched
    live: stores.BusLive
    blobs: stores.Blobs
    leases: stores.Bucket
    clock: Clock
    tracer: Tracer
    common: Common


Build = Callable[[Any, Any], Room]


@dataclass
class Blueprint:
    """A room that is to be started."""

    name: str
    settings: type[RoomSettings]
    build: Build
    given: dict[str, Any] = field(default_factory=dict)


@dataclass
class Running:
    """A started room and where it is."""

    name: str
    room: Room
    url: str
    desk: Desk
    task: asyncio.Task[None]


def desk(
    name: str, bus: Bus, common: Common, targets: FileTargets, clock: Clock, tracer: Tracer, crash: Crash = no_crash
) -> Desk:
    """Everything that hangs on one connection."""
    return Desk(
        name=name, bus=bus, log=EventLog(bus, clock, crash), asker=asking.BusAsker(bus), timers=stores.BusTimers(bus, name),
        targets=targets, records=stores.BusRecords(bus, crash), control=stores.BusControl(bus),
        unmatched=stores.BusUnmatched(bus), live=stores.BusLive(bus),
        blobs=stores.Blobs(bus), leases=stores.Bucket(bus, cat.LEASES_BUCKET), clock=clock, tracer=tracer, common=common,
    )


async def start(
    blueprint: Blueprint, common: Common, stack: AsyncExitStack, *, clock: Clock | None = None, crash: Crash = no_crash,
    fatal: Callable[[], None] | None = None, targets: FileTargets | None = None,
) -> Running:
    """Start one room; the stack stops it. `targets` stand in for those of the folder. Raises OperatorError and Unavailable."""
    clock = clock or SystemClock()
    settings = load(blueprint.settings, **blueprint.given)
    targets = load_targets(Path(common.targets)) if targets is None else targets
    bus = await connect(
        common.nats_url, blueprint.name, nkey_folder=common.nkey_folder, budget_s=common.publish_budget_s, fatal=fatal
    )
    stack.push_async_callback(bus.close)
    await admin.look(bus)
    provider = telemetry.provider(blueprint.name, common.otlp_endpoint)
    stack.push_async_callback(asyncio.to_thread, provider.shutdown)
    tracer = provider.get_tracer("autopatch")
    own = desk(blueprint.name, bus, common, targets, clock, tracer, crash)
    room = blueprint.build(settings, own)
    for hook in room.on_start:
        await hook()
    for hook in reversed(room.on_stop):
        stack.push_async_callback(hook)
    answering = asking.Answering(bus, tracer, room.responders)
    stack.push_async_callback(answering.stop)
    await answering.start()

    async def ready() -> dict[str, str]:
        return {} if bus.up else {"nats": "not connected; tries again by itself"}

    server = HttpServer(application(room.name, room.routers, ready), settings.host, settings.port)
    runner = Runner(
        room, bus, own.log, clock, tracer, ack_wait_s=common.ack_wait_s, waiting_limit_s=common.waiting_limit_s,
        retry_s=common.retry_s, crash=crash,
    )
    task = asyncio.create_task(_together(runner, server, bus, room), name=room.name)
    stack.push_async_callback(_stopped, task, server)
    url = f"http://{server.host}:{server.port}"
    log.info("room started", room=room.name, url=url)
    return Running(room.name, room, url, own, task)


async def prepare(common: Common) -> None:
    """Make the streams and consumers (the admin user, when there are users)."""
    bus = await connect(common.nats_url, "admin", nkey_folder=common.nkey_folder, budget_s=common.publish_budget_s)
    try:
        await admin.prepare(bus, admin.Limits(common.stream_bytes, common.stream_age_s, common.ack_wait_s))
    finally:
        await bus.close()


def check(blueprints: Sequence[Blueprint], common: Common) -> None:
    """Settings and targets, which need no server: a mistake in them is told whatever else is missing. Raises OperatorError."""
    for blueprint in blueprints:
        load(blueprint.settings, **blueprint.given)
    load_targets(Path(common.targets))


async def run_rooms(
    blueprints: Sequence[Blueprint], common: Common, started: Callable[[list[Running]], None] | None = None
) -> None:
    """Run rooms until SIGINT, SIGTERM or until one of them fails. What they bind to is made first where admin's seed is there."""
    check(blueprints, common)
    for name, nearest in strangers(blueprint.settings for blueprint in blueprints).items():
        log.warning("unknown variable: it sets nothing", variable=name, nearest=nearest)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if not common.nkey_folder or (Path(common.nkey_folder) / "admin").is_dir():
        await prepare(common)
    async with AsyncExitStack() as stack:
        running = [await start(b, common, stack, fatal=stop.set) for b in blueprints]
        if started:
            started(running)
        stopping = asyncio.create_task(stop.wait())
        done, _ = await asyncio.wait([stopping, *(r.task for r in running)], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        for task in done - {stopping}:
            task.result()


def run(name: str, settings: type[RoomSettings], build: Build) -> int:
    """The whole of a room's __main__. Returns the exit code: 0 stopped, 1 failed, 2 an operator's mistake."""
    try:
        common = load(Common)
        logs.set_up(common.log_level)
        asyncio.run(run_rooms([Blueprint(name, settings, build)], common))
    except AutoPatchError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    return 0


async def _together(runner: Runner, server: HttpServer, bus: Bus, room: Room) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(runner.run())
        group.create_task(server.serve())
        group.create_task(surely(_lag(bus, room)))


async def _lag(bus: Bus, room: Room) -> None:
    while True:
        for event in room.handlers:
            durable = cat.durable(room.name, event)
            try:
                info = await bus.js.consumer_info(cat.INCIDENTS, durable)
            except TRANSIENT:
                continue
            metrics.PENDING.labels(room.name, durable).set(info.num_pending or 0)
        await asyncio.sleep(15)


async def _stopped(task: asyncio.Task[None], server: HttpServer) -> None:
    server.stop()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
