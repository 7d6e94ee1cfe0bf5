"""Runs a room: hears its events, guards against repeats, appends what was decided, then acknowledges."""

import asyncio
import json
import random
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import structlog
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from opentelemetry.trace import Tracer

from autopatch.chassis.bus import TRANSIENT, Bus
from autopatch.chassis.clock import Clock
from autopatch.chassis.crash import Crash, no_crash
from autopatch.chassis.dead_letters import DeadLetters
from autopatch.chassis.log import EventLog
from autopatch.chassis.metrics import HANDLED, INCIDENTS, SECONDS
from autopatch.chassis.room import Handler, Heard, Reject, RetryLater, Room
from autopatch.chassis.tasks import surely
from autopatch.chassis.telemetry import scope, span
from autopatch.contract import catalogue as cat
from autopatch.contract import events as ev
from autopatch.contract.envelope import decode
from autopatch.contract.errors import Conflict, ContractError, Unavailable
from autopatch.contract.lifecycle import Incident, Stored, is_current, waiting_since

logger = structlog.get_logger("runner")

TRIES = 5
"""Deliveries that a handler may fail with an unexpected error before the message becomes a dead letter."""
AT_ONCE = 64
"""Handlers that one room has at work at a time. One that waits is not at work."""


async def _for_ever() -> None:
    await asyncio.Event().wait()


class Runner:
    """One room on one connection."""

    def __init__(
        self, room: Room, bus: Bus, log: EventLog, clock: Clock, tracer: Tracer, *, ack_wait_s: float = 30,
        waiting_limit_s: float = 1800, retry_s: float = 3, backoff_s: float = 1, crash: Crash = no_crash,
    ) -> None:
        self.room = room
        self._bus = bus
        self._log = log
        self._clock = clock
        self._tracer = tracer
        self._beat_s = min(ack_wait_s / 3, 5)
        self._waiting_limit = timedelta(seconds=waiting_limit_s)
        self._retry_s = retry_s
        self._backoff_s = backoff_s
        self._crash = crash
        self._dead = DeadLetters(bus, log, room.name)
        self._at_work: dict[str, set[asyncio.Task[None]]] = defaultdict(set)
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False

    async def run(self) -> None:
        """Until cancelled. A loop that ends by an error ends the room."""
        await self._bus.client.subscribe(cat.live_subject("*"), cb=self._live_cancelled)
        loops: list[Coroutine[Any, Any, None]] = [
            self._hear(cat.INCIDENTS, cat.durable(self.room.name, event), self._on_event) for event in self.room.handlers
        ]
        if self.room.timers:
            loops.append(self._hear(cat.TIMER_STREAM, f"{self.room.name}_timers", self._on_timer))
        if self.room.name == "gateway":
            loops.append(self._hear(cat.ADVISORIES, "gateway_advisories", self._on_advisory))
        try:
            async with asyncio.TaskGroup() as group:
                for loop in loops:
                    group.create_task(surely(loop))
                for background in self.room.background:
                    group.create_task(surely(background()))
                group.create_task(_for_ever())
        finally:
            self._stopping = True
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _hear(self, stream: str, durable: str, handle: Callable[[Msg], Coroutine[Any, Any, None]]) -> None:
        subscription: JetStreamContext.PullSubscription = await self._bus.js.pull_subscribe_bind(consumer=durable, stream=stream)
        while True:
            async with self._slots:
                pass  # a room that is full leaves what comes to others of its name
            try:
                messages = await subscription.fetch(batch=8, timeout=5)
            except TimeoutError:
                continue
            except TRANSIENT as error:
                logger.warning("cannot fetch", consumer=durable, error=type(error).__name__)
                await asyncio.sleep(0.5)
                continue
            for message in messages:
                task = asyncio.create_task(self._guarded(message, handle))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _guarded(self, message: Msg, handle: Callable[[Msg], Coroutine[Any, Any, None]]) -> None:
        """The bus boundary: what a handler raises decides what becomes of its message, and nothing is swallowed."""
        await self._crash("received")
        beat = asyncio.create_task(self._heartbeat(message))
        try:
            await handle(message)
            await self._crash("before_ack")
            await message.ack()
            await self._crash("after_ack")
        except asyncio.CancelledError:
            with suppress(*TRANSIENT):
                await message.nak(delay=0.2)
            if self._stopping:
                raise
        except (Reject, ContractError) as error:
            await self._bury(message, error)
        except Exception as error:  # noqa: BLE001 - the bus boundary: logged with its traceback, tried again, then a dead letter
            await self._failed(message, error)
        finally:
            beat.cancel()

    async def _failed(self, message: Msg, error: Exception) -> None:
        tries = message.metadata.num_delivered or 1
        logger.exception("handler failed", room=self.room.name, subject=message.subject, tries=tries)
        HANDLED.labels(self.room.name, "failed").inc()
        if tries >= TRIES and not isinstance(error, Unavailable):
            await self._bury(message, error)
            return
        with suppress(*TRANSIENT):
            await message.nak(delay=min(30, self._backoff_s * 2**tries) * random.uniform(0.5, 1))  # noqa: S311

    async def _bury(self, message: Msg, error: Exception) -> None:
        HANDLED.labels(self.room.name, "dead").inc()
        try:
            await self._dead.bury(message.data, message.subject, message.metadata.sequence.stream, error)
            await message.term()
        except (Unavailable, *TRANSIENT) as failed:
            logger.error("dead letter not stored, will be tried again", error=str(failed))

    async def _heartbeat(self, message: Msg) -> None:
        while True:
            await asyncio.sleep(self._beat_s)
            with suppress(*TRANSIENT):
                await message.in_progress()

    async def _on_event(self, message: Msg) -> None:
        envelope = decode(message.data)
        incident = await self._log.load(envelope.incident_id)
        await self._crash("loaded")
        stored = next((s for s in incident.log if s.envelope.event_id == envelope.event_id), None)
        if stored is None:
            raise ContractError(f"{envelope.event} of {envelope.incident_id} is not on the log")
        handler = self.room.handlers[type(envelope.data)]
        await self._work(incident, stored, handler, since=stored.envelope.at)

    async def _on_timer(self, message: Msg) -> None:
        body = json.loads(message.data)
        handler = self.room.timers.get(body["purpose"])
        if handler is None:
            raise Reject(f"no timer {body['purpose']!r} in room {self.room.name}")
        incident = await self._log.load(body["incident_id"])
        stored = next((s for s in incident.log if s.envelope.event_id == incident.moved_by), None)
        if stored is not None and not incident.terminal:
            key = f"timer-{body['purpose']}-{message.metadata.sequence.stream}"
            since = min(message.metadata.timestamp, self._clock.now())  # the server's clock may be ahead of ours
            await self._work(incident, stored, handler, since=since, key=key)

    async def _on_advisory(self, message: Msg) -> None:
        await self._dead.from_advisory(message.data)

    async def _work(self, incident: Incident, stored: Stored, handler: Handler, *, since: datetime, key: str = "") -> None:
        """Ask the handler until it decided, the event is no longer current, or waiting took too long.

        `key` names a timer's message. No wait that it goes on with began before `since`, when the message came to be.
        """
        this = asyncio.current_task()
        assert this is not None
        watch: asyncio.Task[None] | None = None
        if type(stored.envelope.data) not in self.room.shielded and not key and not self.room.historian:
            self._at_work[incident.id].add(this)
            watch = asyncio.create_task(self._watch(this, incident.id, stored))
        try:
            while True:
                async with self._slots:
                    incident = await self._log.load(incident.id)
                    if not self._wanted(incident, stored, key):
                        return
                    if this.cancelling():
                        raise asyncio.CancelledError
                    try:
                        await self._decide(Heard(incident, stored), handler, key)
                        return
                    except (RetryLater, Unavailable) as error:
                        missing = error
                    except Conflict:
                        continue
                await self._wait(incident.id, stored, missing, since=since, key=key)
        finally:
            if watch:
                watch.cancel()
            self._at_work[incident.id].discard(this)
            if not self._at_work[incident.id]:
                self._at_work.pop(incident.id, None)

    async def _watch(self, task: asyncio.Task[None], incident_id: str, stored: Stored) -> None:
        """A live word of cancellation may be lost: look at the log as well."""
        while True:
            await asyncio.sleep(self._beat_s)
            with suppress(Unavailable):
                incident = await self._log.load(incident_id)
                if incident.cancel_requested and not is_current(incident, stored.envelope.event_id):
                    task.cancel()

    def _wanted(self, incident: Incident, stored: Stored, key: str) -> bool:
        event_id = stored.envelope.event_id
        answered = not key and self._answered(incident, event_id)
        return not answered and (self.room.historian or is_current(incident, event_id))

    def _answered(self, incident: Incident, event_id: str) -> bool:
        """Is this room's decision about that event on the log?"""
        return any(
            s.envelope.caused_by == event_id and s.envelope.by == self.room.name and not isinstance(s.envelope.data, ev.Waiting)
            for s in incident.log
        )

    async def _decide(self, heard: Heard, handler: Handler, key: str) -> None:
        envelope = heard.stored.envelope
        with (
            scope(self._tracer, heard.incident.id, heard.stored.headers),
            span(
                f"{self.room.name} {key.split('-')[1] if key else envelope.event}", incident_state=str(heard.incident.state),
                incident_attempt=heard.incident.attempts, event_id=envelope.event_id, target=heard.incident.target,
            ) as current,
            SECONDS.labels(self.room.name, envelope.event).time(),
        ):
            await self._crash("asking")
            events = await handler(heard)
            await self._crash("decided")
            if events:
                current.set_attribute("decided", [e.name for e in events])
                await self._append(heard.incident, events, envelope.event_id, key)
        HANDLED.labels(self.room.name, "handled").inc()

    async def _append(self, incident: Incident, events: Sequence[ev.Event], caused_by: str, key: str) -> None:
        """A note that came meanwhile moved nothing: what was decided still stands, and nobody is asked for it again."""
        while True:
            try:
                after = await self._log.append(incident, events, by=self.room.name, caused_by=caused_by, key=key)
                break
            except Conflict:
                newer = await self._log.load(incident.id)
                if newer.moved_by != incident.moved_by or self._answered(newer, caused_by):
                    raise
                incident = newer
        if after.terminal and not incident.terminal:
            INCIDENTS.labels(str(after.state)).inc()

    async def _wait(
        self, incident_id: str, stored: Stored, error: RetryLater | Unavailable, *, since: datetime, key: str
    ) -> None:
        on, after_s = (error.on, error.after_s) if isinstance(error, RetryLater) else (error.service, self._retry_s)
        why = f"{error.reason} ({error.tip})" if error.tip else error.reason
        logger.info("waiting", room=self.room.name, incident=incident_id, on=on, reason=error.reason)
        incident = await self._log.load(incident_id)
        began = waiting_since(incident, self.room.name, on)
        cause = stored.envelope.event_id
        with suppress(Conflict, ContractError), scope(self._tracer, incident.id, stored.headers):
            if began is None or began < since:
                note = ev.Waiting(on=on, reason=why, room=self.room.name)
                await self._log.append(incident, [note], by=self.room.name, caused_by=cause, key=key)
            elif self._clock.now() - began > self._waiting_limit and not self.room.historian:
                reason = f"waited {self._waiting_limit.total_seconds():.0f} s for {on}: {why}"
                escalated = ev.Escalated(reason=reason, room=self.room.name)
                await self._log.append(incident, [escalated], by=self.room.name, caused_by=cause)
        await self._clock.sleep(after_s)

    async def _live_cancelled(self, message: Msg) -> None:
        for task in list(self._at_work.get(message.subject.rsplit(".", 1)[1], ())):
            task.cancel()
