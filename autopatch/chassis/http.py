"""The HTTP side of a room: /metrics, /healthz, /readyz and the room's own routes; bodies are capped before they are read."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence

import structlog
import uvicorn
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException

from autopatch.contract.errors import AutoPatchError, Conflict, ContractError, OperatorError, Refused, Unavailable

log = structlog.get_logger("http")
Ready = Callable[[], Awaitable[dict[str, str]]]
"""What is not ready and why; empty when all is."""

STATUS: tuple[tuple[type[AutoPatchError], int], ...] = (
    (Unavailable, 503), (Conflict, 409), (ContractError, 409), (Refused, 403), (OperatorError, 400), (AutoPatchError, 500),
)


def application(room: str, routers: Sequence[APIRouter], ready: Ready) -> FastAPI:
    """The room's app. Errors are short JSON that never repeats what was sent."""
    app = FastAPI(title=f"AutoPatch {room}", docs_url=None, redoc_url=None)

    @app.get("/healthz")
    async def healthz() -> PlainTextResponse:
        return PlainTextResponse("ok\n")

    @app.get("/readyz")
    async def readyz() -> JSONResponse:
        missing = await ready()
        return JSONResponse({"ready": not missing, "missing": missing}, 503 if missing else 200)

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(await asyncio.to_thread(generate_latest), media_type=CONTENT_TYPE_LATEST)

    @app.exception_handler(AutoPatchError)
    async def ours(_: Request, error: AutoPatchError) -> JSONResponse:
        status = next(code for kind, code in STATUS if isinstance(error, kind))
        return JSONResponse({"error": str(error.args[0])[:400], "tip": error.tip[:400]}, status)

    @app.exception_handler(HTTPException)
    async def unknown(_: Request, error: HTTPException) -> JSONResponse:
        tip = f"the README of services/{room} lists the routes"
        return JSONResponse({"error": error.detail[:400], "tip": tip}, error.status_code, headers=error.headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        fault = error.errors()[0]
        where = ".".join(str(p) for p in fault["loc"] if isinstance(p, str))[:100]
        return JSONResponse({"error": f"{where}: {fault['msg'][:200]}", "tip": "see the reference of the API"}, 422)

    for router in routers:
        app.include_router(router)
    return app


class HttpServer:
    """uvicorn inside the room's own loop."""

    def __init__(self, app: FastAPI, host: str, port: int) -> None:
        self._config = uvicorn.Config(
            app, log_config=None, access_log=False, timeout_graceful_shutdown=3, timeout_keep_alive=15, server_header=False,
            lifespan="off",
        )
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._socket = socket.create_server((host, port), family=family, backlog=512)
        except OSError as error:
            raise OperatorError(f"{host}:{port}: {error.strerror}", tip="choose another port in the room's settings") from error
        self.host = host
        self.port: int = self._socket.getsockname()[1]
        self._server = _Quiet(self._config)

    async def serve(self) -> None:
        """Until cancelled."""
        try:
            await self._server.serve(sockets=[self._socket])
        finally:
            self._server.should_exit = True
            for listening in getattr(self._server, "servers", ()):
                listening.close()
            self._socket.close()

    def stop(self) -> None:
        """Let open requests end."""
        self._server.should_exit = True


class _Quiet(uvicorn.Server):
    """Leaves the process's signals to whoever owns the process."""

    def install_signal_handlers(self) -> None:
        """Nothing."""

    def capture_signals(self):  # type: ignore[no-untyped-def]
        """Nothing."""
        from contextlib import nullcontext

        return nullcontext()
