"""The webhooks of Alertmanager and Grafana. 2xx only after the log has acknowledged everything; input is never repeated."""

import asyncio
import hmac
from typing import Literal

import structlog
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict
from starlette.requests import ClientDisconnect

from autopatch.chassis.clock import Clock
from autopatch.contract.errors import Unavailable
from services.monitor.adapters.sources import wire
from services.monitor.ingest import Ingest
from services.monitor.metrics import ALERTS, REFUSED
from services.monitor.reconcile import Reconciliation

log = structlog.get_logger("monitor")
Sender = Literal["alertmanager", "grafana"]


class Senders(BaseModel):
    """The token of each sender; without one it is refused."""

    model_config = ConfigDict(frozen=True)

    alertmanager: str = ""
    grafana: str = ""

    def check(self, sender: Sender, authorization: str) -> None:
        """Raises Refusal. The comparison takes the same time whatever was sent."""
        token = self.alertmanager if sender == "alertmanager" else self.grafana
        if not token:
            raise Refusal(401, f"no token is set for this sender: AUTOPATCH_MONITOR_{sender.upper()}_TOKEN")
        scheme, _, given = authorization.partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), token.encode()):
            raise Refusal(401, "the bearer token is missing or wrong")


class Refusal(Exception):
    """The request is answered with this status; nothing was stored."""

    def __init__(self, status: int, error: str) -> None:
        super().__init__(error)
        self.status = status


def webhooks(
    senders: Senders, ingest: Ingest, reconciliation: Reconciliation, clock: Clock, max_bytes: int, timeout_s: float
) -> APIRouter:
    """POST /v1/webhooks/alertmanager, POST /v1/webhooks/grafana, GET /v1/webhooks (who may send, and what does not work)."""
    router = APIRouter(prefix="/v1/webhooks")

    async def receive(sender: Sender, request: Request) -> JSONResponse:
        try:
            senders.check(sender, request.headers.get("authorization", ""))
            body = await _body(request, max_bytes, timeout_s)
            batch = await asyncio.to_thread(wire.parse, body, sender, clock.now())
            trace = {k: v for k in ("traceparent", "tracestate") if (v := request.headers.get(k))}
            taken = await ingest.take(batch.alerts, trace)
        except wire.Unreadable as error:
            return _refused(sender, Refusal(400, str(error)))
        except Refusal as refusal:
            return _refused(sender, refusal)
        except Unavailable as error:
            return _refused(sender, Refusal(503, str(error)))
        if batch.ignored:
            log.warning("a webhook's list holds what is no alert", sender=sender, count=batch.ignored)
            ALERTS.labels(sender, "ignored").inc(batch.ignored)
        if batch.truncated:
            reconciliation.now()
        return JSONResponse({**taken.model_dump(), "ignored": batch.ignored, "truncated": batch.truncated})

    @router.post("/alertmanager")
    async def alertmanager(request: Request) -> JSONResponse:
        return await receive("alertmanager", request)

    @router.post("/grafana")
    async def grafana(request: Request) -> JSONResponse:
        return await receive("grafana", request)

    @router.get("")
    async def state() -> JSONResponse:
        return JSONResponse({
            "senders": {name: "ready" if token else "no token is set: refused" for name, token in senders.model_dump().items()},
            "reconciliation": reconciliation.problem or "works",
        })

    return router


async def _body(request: Request, most: int, timeout_s: float) -> bytes:
    """At most so many bytes, however they come and whatever content-length says. Raises Refusal."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Refusal(415, "compressed bodies are not taken")
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or int(length[:20]) > most:
        raise Refusal(413, f"more than {most} bytes")
    body = bytearray()
    try:
        async with asyncio.timeout(timeout_s):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most:
                    raise Refusal(413, f"more than {most} bytes")
    except TimeoutError as error:
        raise Refusal(408, f"the body did not arrive within {timeout_s:g} s") from error
    except ClientDisconnect as error:
        raise Refusal(400, "the sender went away") from error
    return bytes(body)


def _refused(sender: Sender, refusal: Refusal) -> JSONResponse:
    REFUSED.labels(sender, str(refusal.status)).inc()
    close = {"connection": "close"} if refusal.status in (401, 408, 413, 415) else {}
    return JSONResponse({"error": str(refusal)[:400]}, refusal.status, headers=close)
