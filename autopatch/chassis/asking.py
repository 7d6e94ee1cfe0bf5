"""Request and reply between rooms over core NATS."""

import json
from collections.abc import Mapping, Sequence
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
from autopatch.contract.catalogue import ROOMS
from autopatch.contract.errors import AutoPatchError, Unavailable
from autopatch.contract.model import Word
from autopatch.contract.requests import Fault, Request

log = structlog.get_logger("asking")
R = TypeVar("R", bound=Word)

INCIDENT = "Autopatch-Incident"
"""Header of a request: for which incident it is asked, so that the answer's spans say so."""


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
                raise Unavailable(fault.missing or room, fault.error)
            return reply.model_validate(answer["answer"])
        except (ValueError, KeyError, ValidationError) as error:
            raise Unavailable(room, f"{request.subject}: unreadable answer") from error


async def serve(bus: Bus, tracer: Tracer, responders: Mapping[type[Any], Responder]) -> list[Subscription]:
    """Answer requests from now on; replicas share them."""
    assert bus.room in ROOMS
    served = []
    for kind, responder in responders.items():
        async def answer(message: Msg, kind: type[Any] = kind, responder: Responder = responder) -> None:
            data = await _answered(bus.room, tracer, kind, responder, message)
            try:
                await message.respond(data)
            except TRANSIENT as error:
                log.warning("could not answer", subject=kind.subject, error=type(error).__name__)

        served.append(await bus.client.subscribe(kind.subject, queue=bus.room, cb=answer))
    await bus.patiently(lambda: bus.client.flush(timeout=2))
    return served


async def stop(served: Sequence[Subscription]) -> None:
    """Before what the answers need is closed."""
    for subscription in served:
        with suppress(*TRANSIENT):
            await subscription.unsubscribe()


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
        return _fault(error.reason, error.service)
    except AutoPatchError as error:
        return _fault(str(error), "")
    except ValidationError as error:
        return _fault(f"{error.error_count()} faults in the request", "")
    except Exception as error:  # the bus boundary: whatever a responder raises must not silence it
        log.exception("responder failed", subject=kind.subject)
        return _fault(f"{type(error).__name__} while answering", "")


def _fault(error: str, missing: str) -> bytes:
    return json.dumps({"fault": {"error": error[:500], "missing": missing}}).encode()
