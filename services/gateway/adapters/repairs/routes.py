"""The routes of repairs: begin one, wait for its verdict, watch it stage by stage, take its diff."""

from typing import Annotated

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from sse_starlette import ServerSentEvent

from autopatch.contract.code import RepairVerdict
from autopatch.contract.errors import OperatorError
from autopatch.contract.lifecycle import Stored
from services.gateway import views
from services.gateway.adapters.http.door import needs
from services.gateway.adapters.http.stream import Streams
from services.gateway.adapters.repairs.jobs import Jobs
from services.gateway.adapters.repairs.words import Ask, Begun, Unfinished
from services.gateway.agent import Caller
from services.gateway.ports import GatewayChassis

ENVELOPE_BYTES = 65_536
"""Of a request beside its archive."""


def body_bytes(archive_bytes: int) -> int:
    """How large a request may be whose archive has so many bytes in base64."""
    return (archive_bytes + 2) // 3 * 4 + ENVELOPE_BYTES


def repairs(jobs: Jobs, chassis: GatewayChassis, streams: Streams, route: type[APIRoute]) -> APIRouter:
    """Behind the door `route`, which lets larger bodies through than the others."""
    router = APIRouter(prefix="/v1", route_class=route)

    @router.post("/repairs", response_model=Begun, status_code=201)
    async def begin(body: Ask, caller: Annotated[Caller, needs("repair")], stream: bool = False) -> Response:
        """201 when it was begun now, 200 when it had been; with `stream` its events and, last, its verdict."""
        if body.cancel_on_disconnect and not stream:
            raise OperatorError("body.cancel_on_disconnect: nobody is connected without stream=1", tip="POST …?stream=1")
        if not stream:
            begun = await jobs.open(body, caller)
            where = {"Location": f"/v1/repairs/{begun.incident}"}
            return JSONResponse(begun.model_dump(), 201 if begun.created else 200, headers=where)

        async def until(stored: Stored) -> ServerSentEvent | None:
            found = await jobs.verdict_after(stored)
            return ServerSentEvent(event="verdict", data=found.model_dump_json()) if found else None

        def gone() -> None:
            if body.cancel_on_disconnect:
                jobs.abandon(begun.incident, caller)

        with streams.admit() as place:  # before the job: none runs whose watcher is turned away
            begun = await jobs.open(body, caller)
            return streams.response(place, 0, begun.incident, until=until, gone=gone)

    @router.get("/repairs/{incident_id}", dependencies=[needs("read")], responses={202: {"model": Unfinished}})
    async def verdict(incident_id: str) -> RepairVerdict:
        """200 with the verdict; 202 with how far it is until then."""
        found = await jobs.verdict(incident_id)
        if found is not None:
            return found
        row = views.row(await jobs.job(incident_id), chassis.clock.now())
        return JSONResponse(row.model_dump(mode="json"), 202)  # type: ignore[return-value]

    @router.get("/repairs/{incident_id}/diff", dependencies=[needs("read")], response_class=Response)
    async def diff(incident_id: str) -> Response:
        """What `git apply` takes."""
        return Response(await jobs.diff(incident_id), media_type="text/x-diff")

    return router
