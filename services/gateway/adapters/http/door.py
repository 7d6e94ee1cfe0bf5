"""Every route's door: who asks, how much they send, and how errors are told. Nothing of what came in is ever echoed."""

from collections.abc import Callable, Coroutine
from typing import Any

import structlog
from fastapi import Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.types import Message

from autopatch.contract.errors import AutoPatchError, Conflict, ContractError, OperatorError, Refused, Unavailable
from services.gateway.adapters.http.tokens import TokenFile
from services.gateway.agent import Caller, Deed, Forbidden, NotFound, permit
from services.gateway.ports import Unauthenticated

log = structlog.get_logger("gateway")
Route = Callable[[Request], Coroutine[Any, Any, Response]]

STATUS: tuple[tuple[type[AutoPatchError], int], ...] = (
    (Unauthenticated, 401), (Forbidden, 403), (NotFound, 404), (OperatorError, 400), (ContractError, 409), (Refused, 409),
    (Conflict, 409), (Unavailable, 503), (AutoPatchError, 500),
)
TIP = "services/gateway/README.md tells what each route takes"
HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "3"}}


def door(tokens: TokenFile, max_body_bytes: int) -> type[APIRoute]:
    """The class of all routes behind one tokens file."""

    class Door(APIRoute):
        def get_route_handler(self) -> Route:
            inner = super().get_route_handler()

            async def handle(request: Request) -> Response:
                try:
                    request.state.caller = tokens.caller(request.headers.get("authorization", ""))
                    return await inner(_capped(request, max_body_bytes))
                except RequestValidationError as error:
                    return answer(400, _fault(error), TIP)
                except HTTPException as error:
                    return answer(error.status_code, "the body is not JSON" if error.status_code == 400 else error.detail, TIP)
                except AutoPatchError as error:
                    return told(error)

            return handle

    return Door


def needs(deed: Deed) -> Any:
    """A dependency: the caller, if they may do this."""

    def check(request: Request) -> Caller:
        caller: Caller = request.state.caller
        permit(caller, deed)
        return caller

    return Depends(check)


def told(error: AutoPatchError) -> Response:
    """An error as an answer."""
    status = next(code for kind, code in STATUS if isinstance(error, kind))
    if status >= 500:
        log.warning("not answered", error=str(error))
    return answer(status, str(Exception.__str__(error)), error.tip)


def answer(status: int, error: str, tip: str) -> Response:
    """At most 1 kB."""
    return JSONResponse({"error": error[:400], "tip": tip[:300]}, status, headers=HEADERS.get(status))


def _capped(request: Request, limit: int) -> Request:
    """The same request, which ends with 413 as soon as more than `limit` bytes were sent or announced."""
    too_large = HTTPException(413, f"the body is larger than {limit} bytes")
    announced = request.headers.get("content-length", "0")
    if not announced.isdigit() or int(announced) > limit:
        raise too_large
    seen = 0

    async def receive() -> Message:
        nonlocal seen
        message = await request.receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            raise too_large
        return message

    return Request(request.scope, receive)


def _fault(error: RequestValidationError) -> str:
    fault = error.errors()[0]
    if fault["type"] == "json_invalid":
        return "the body is not JSON"
    if fault["type"] == "extra_forbidden":
        return "there is a field that is not known here"
    where = ".".join(str(part) for part in fault["loc"] if isinstance(part, str))
    return f"{where}: {_REASONS.get(fault['type'], 'not what this takes')}"


_REASONS = {
    "missing": "is missing", "string_pattern_mismatch": "does not have the right form", "string_too_long": "is too long",
    "string_too_short": "is too short", "int_parsing": "is not a whole number", "enum": "is none of the known ones",
    "literal_error": "is none of the known ones", "less_than_equal": "is too large", "less_than": "is too large",
    "greater_than_equal": "is too small", "greater_than": "is too small", "too_short": "is empty",
    "base64_decode": "is not base64",
}
