"""Request and reply between rooms over core NATS."""

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TypeVar

import structlog
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import NoRespondersError
from opentelemetry.trace import Tracer
from pydantic import ValidationError

from autopatch.chassis.bus import LARGEST_MESSAGE, TRANSIENT, Bus
from autopatch.chassis.room import Responder
from autopatch.chassis.telemetry import carrier, incident, scope, span
from autopatch.contract.catalogue import ROOMS, live_subject
from autopatch.contract.errors import AutoPatchError, Unavailable
from autopatch.contract.model import Word
from autopatch.contract.requests import Fault, Request

log = structlog.get_logger("asking")
R = TypeVar("R", bound=Word)

INCIDENT = "Autopatch-Incident"
"""Header of a request: for which incident it is asked, so that the answer's spans say so."""
OVERTAKEN_S = 2.0
"""A request that its asker sent just before being cancelled may be heard so long after the word of the cancellation."""


class BusAsker:
    """Asks; whoever is asked is a room, so an answer that does not come means that the room is missing."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def ask(self, request: Request, reply: type[R]) -> R:
        """Raises Unavailable: nobody answers, the answer is unreadable, or the room says what it misses."""
        room = request.subject.split(".")[0]
        headers = {**carrier(), **({INCIDENT: incident()} if incident() else {})}
        try:
            message = await self._bus.client.request(
                request.subject, request.model_dump_json().encode(), timeout=request.timeout_s, headers=headers
            )
        except NoRespondersError as error:
            raise Unavailable(room, f"nobody answers {request.subject}") from error
        except TRANSIENT as error:
            raise Unavailable(room, f"{request.subject}: {type(error).__name__}") from error
        try:
            answer = json.loads(message.data)
            if answer.get("fault"):
                fault = Fault.model_validate(answer["fault"])
                raise Unavailable(fault.missing or room, fault.error, tip=fault.tip)
            return reply.model_validate(answer["answer"])
        except (ValueError, KeyError, ValidationError) as error:
            raise Unavailable(room, f"{request.subject}: unreadable answer") from error


class Answering:
    """A room's answers: several at a time, and one whose incident is cancelled ends at once."""

    def __init__(self, bus: Bus, tracer: Tracer, responders: Mapping[type[Any], Responder]) -> None:
        self._bus = bus
        self._tracer = tracer
        self._responders = responders
        self._subscriptions: list[Subscription] = []
        self._under_way: dict[asyncio.Task[None], str] = {}
        self._just_cancelled: set[str] = set()

    async def start(self) -> None:
        """Answer requests from now on; replicas share them."""
        assert self._bus.room in ROOMS
        for kind, responder in self._responders.items():
            async def heard(message: Msg, kind: type[Any] = kind, responder: Responder = responder) -> None:
                task = asyncio.create_task(self._answer(kind, responder, message))
                self._under_way[task] = (message.headers or {}).get(INCIDENT, "")
                task.add_done_callback(lambda done: self._under_way.pop(done, None))

            self._subscriptions.append(await self._bus.client.subscribe(kind.subject, queue=self._bus.room, cb=heard))
        if self._responders:
            self._subscriptions.append(await self._bus.client.subscribe(live_subject("*"), cb=self._cancelled))
        await self._bus.patiently(self._bus.flush)

    async def stop(self) -> None:
        """Before what the answers need is closed."""
        for subscription in self._subscriptions:
            with suppress(*TRANSIENT):
                await subscription.unsubscribe()
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _cancelled(self, message: Msg) -> None:
        incident_id = message.subject.rsplit(".", 1)[1]
        self._just_cancelled.add(incident_id)
        asyncio.get_running_loop().call_later(OVERTAKEN_S, self._just_cancelled.discard, incident_id)
        for task in [task for task, asked_for in self._under_way.items() if asked_for == incident_id]:
            task.cancel()

    async def _answer(self, kind: type[Any], responder: Responder, message: Msg) -> None:
        """Given up when the asker is, who waits no longer than the request's own time."""
        try:
            if (message.headers or {}).get(INCIDENT, "") in self._just_cancelled:
                raise asyncio.CancelledError
            async with asyncio.timeout(kind.timeout_s):
                data = await _answered(self._bus.room, self._tracer, kind, responder, message)
        except asyncio.CancelledError:
            data = _fault("cancelled", "")
        except TimeoutError:
            data = _fault(f"no answer within {kind.timeout_s:g} s", "")
        try:
            await message.respond(data)
        except TRANSIENT as error:
            log.warning("could not answer", subject=kind.subject, error=type(error).__name__)


async def _answered(room: str, tracer: Tracer, kind: type[Any], responder: Responder, message: Msg) -> bytes:
    headers = {k.lower(): v for k, v in (message.headers or {}).items()}
    try:
        request = kind.model_validate_json(message.data)
        with scope(tracer, headers.get(INCIDENT.lower(), ""), headers), span(f"{room} answers {kind.subject}"):
            reply = await responder(request)
        data = json.dumps({"answer": reply.model_dump(mode="json")}).encode()
        if len(data) > LARGEST_MESSAGE - 1024:
            return _fault(f"the answer has {len(data)} bytes, more than fit on the bus", "")
        return data
    except Unavailable as error:
        return _fault(error.reason, error.service, error.tip)
    except AutoPatchError as error:
        return _fault(str(error), "")
    except ValidationError as error:
        return _fault(f"{error.error_count()} faults in the request", "")
    except Exception as error:  # the bus boundary: whatever a responder raises must not silence it
        log.exception("responder failed", subject=kind.subject)
        return _fault(f"{type(error).__name__} while answering", "")


def _fault(error: str, missing: str, tip: str = "") -> bytes:
    return json.dumps({"fault": {"error": error[:500], "missing": missing, "tip": tip[:500]}}).encode()
