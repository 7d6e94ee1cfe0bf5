"""A room run on a real server, for tests."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta

from opentelemetry.sdk.trace import TracerProvider

from autopatch.chassis.bus import Bus, connect
from autopatch.chassis.clock import Clock, SystemClock
from autopatch.chassis.crash import Crash, no_crash
from autopatch.chassis.log import EventLog
from autopatch.chassis.room import Handler, Room
from autopatch.chassis.runner import Runner
from autopatch.contract import events as ev
from autopatch.contract.lifecycle import Incident, State

OPENED = ev.Opened(target="payments", title="slow")


class Leaping(SystemClock):
    """The machine's, as much ahead as a test wants it: half an hour passes at once."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def now(self) -> datetime:
        """UTC."""
        return super().now() + self.ahead


@asynccontextmanager
async def running(
    url: str, room: Room, *, crash: Crash = no_crash, clock: Clock | None = None, **options: float
) -> AsyncIterator[EventLog]:
    """The room at work; its tasks and its connection end with the block."""
    clock = clock or SystemClock()
    bus = await connect(url, room.name, budget_s=10)
    log = EventLog(bus, clock, crash)
    runner = Runner(
        room, bus, log, clock, TracerProvider().get_tracer("t"), crash=crash, **{"ack_wait_s": 2, "retry_s": 0.1, **options},
    )
    task = asyncio.create_task(runner.run())
    try:
        yield log
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await bus.close()


def validator(handler: Handler) -> Room:
    """It hears `opened`."""
    return Room("validator", {ev.Opened: handler})


async def opened(bus: Bus, incident_id: str = "a-1") -> EventLog:
    """A new incident and the log it is on."""
    log = EventLog(bus, SystemClock())
    await log.append(Incident(incident_id), [OPENED], by="monitor")
    return log


async def is_in(log: EventLog, state: State, incident_id: str = "a-1") -> bool:
    """Is the incident in that state now?"""
    return (await log.load(incident_id)).state is state
