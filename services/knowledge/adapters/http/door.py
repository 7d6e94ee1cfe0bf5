"""Whoever writes shows the token that only the gateway knows; whoever reads is not asked."""

import hmac
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

Route = Callable[[Request], Coroutine[Any, Any, Response]]
TIP = "set AUTOPATCH_KNOWLEDGE_TOKEN, and AUTOPATCH_GATEWAY_KNOWLEDGE_TOKEN to the same; then `autopatch kb ingest` as an admin"


def door(token: str) -> type[APIRoute]:
    """The class of all routes: before a body is read, whatever is no GET is held against `token`. '' lets nobody in."""

    class Door(APIRoute):
        def get_route_handler(self) -> Route:
            inner = super().get_route_handler()

            async def handle(request: Request) -> Response:
                if request.method == "GET" or _knows(token, request.headers.get("authorization", "")):
                    return await inner(request)
                error = "writing needs the gateway's token" if token else "no token is set: nobody writes here"
                return JSONResponse({"error": error, "tip": TIP}, 401, headers={"WWW-Authenticate": "Bearer"})

            return handle

    return Door


def _knows(token: str, authorization: str) -> bool:
    """The comparison takes the same time whatever was sent."""
    scheme, _, given = authorization.partition(" ")
    return bool(token) and scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())
