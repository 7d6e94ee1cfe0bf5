"""The live stream: the log as server-sent events. An event's id is its sequence, so that a reader resumes without a gap."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, suppress
from typing import Any

import structlog
from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import SendTimeoutError
from starlette.types import Receive, Scope, Send

from autopatch.contract.errors import AutoPatchError, Unavailable
from autopatch.contract.lifecycle import Stored
from services.gateway import words
from services.gateway.ports import FollowedLog

log = structlog.get_logger("stream")
RETRY_MS = 2000
Until = Callable[[Stored], Awaitable[ServerSentEvent | None]]
"""Asked about each event that was sent: the last one to send, or None to go on."""


async def _for_ever(_: Stored) -> None:
    return None


class Streams:
    """All live streams of this process: at most `most`, all ended by `close`."""

    def __init__(self, log: FollowedLog, *, most: int, heartbeat_s: float, send_timeout_s: float) -> None:
        self._log = log
        self._most = most
        self._heartbeat_s = heartbeat_s
        self._send_timeout_s = send_timeout_s
        self._closing = asyncio.Event()
        self._places = set[ExitStack]()

    async def close(self) -> None:
        """Ends every stream; the readers come back to whoever serves next."""
        self._closing.set()

    def admit(self) -> ExitStack:
        """A place, which closing gives back and `response` takes over. Raises Unavailable when there are too many readers."""
        if len(self._places) >= self._most:
            raise Unavailable("gateway", f"{self._most} live streams are open already", tip="try again later, or poll")
        place = ExitStack()
        self._places.add(place)
        place.callback(self._places.discard, place)
        return place

    def response(
        self, place: ExitStack, after: int, incident_id: str, *, until: Until = _for_ever, gone: Callable[[], None] = lambda: None
    ) -> EventSourceResponse:
        """In a place from `admit`. `gone` is called when the reader leaves before the stream has ended."""
        ended = asyncio.Event()
        events = self._events(after, incident_id, until, ended)
        made = _Response(events, ping=self._heartbeat_s, send_timeout=self._send_timeout_s, sep="\n")
        made.place, made.left = place.pop_all(), lambda: None if ended.is_set() else gone()
        return made

    async def _events(self, after: int, incident_id: str, until: Until, ended: asyncio.Event) -> AsyncIterator[ServerSentEvent]:
        source = self._log.follow(after, incident_id)
        closing = asyncio.create_task(self._closing.wait())
        try:
            yield ServerSentEvent(comment="live", retry=RETRY_MS)
            while (stored := await _next(source, closing)) is not None:
                yield _event(stored)
                if last := await until(stored):
                    yield last
                    break
        except AutoPatchError as error:
            yield _failed(str(error)[:400])
        finally:
            closing.cancel()
            if hasattr(source, "aclose"):
                with suppress(RuntimeError):  # a reader that left twice: the step that was cancelled closes it as it ends
                    await source.aclose()
        ended.set()


class _Response(EventSourceResponse):
    place: ExitStack
    left: Callable[[], None]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The reader that is too slow is dropped; it comes back with the id of the last event that it got."""
        try:
            with self.place:
                await super().__call__(scope, receive, send)
        except SendTimeoutError:
            log.warning("slow reader dropped", client=str((scope.get("client") or ("",))[0]))
        self.left()


async def _next(source: AsyncIterator[Stored], closing: asyncio.Task[Any]) -> Stored | None:
    """The next event; None when the source has ended or everything closes."""
    step = asyncio.create_task(_step(source))
    both: set[asyncio.Task[Any]] = {step, closing}
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        return step.result() if step.done() else None
    finally:
        step.cancel()
        await asyncio.gather(step, return_exceptions=True)


async def _step(source: AsyncIterator[Stored]) -> Stored | None:
    return await anext(source, None)


def _event(stored: Stored) -> ServerSentEvent:
    envelope = stored.envelope
    data = {
        "sequence": stored.sequence, "text": words.line(envelope.data), "envelope": envelope.model_dump(mode="json"),
    }
    return ServerSentEvent(id=str(stored.sequence), event=envelope.event, data=json.dumps(data, ensure_ascii=False))


def _failed(reason: str) -> ServerSentEvent:
    return ServerSentEvent(event="error", data=json.dumps({"error": reason, "tip": "reconnect"}))
