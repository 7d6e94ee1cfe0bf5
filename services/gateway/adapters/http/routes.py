"""The REST routes. What they answer is typed in views.py and service.py; what they refuse is told in door.py."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field
from sse_starlette import EventSourceResponse

from autopatch.contract.envelope import Envelope
from autopatch.contract.lifecycle import State
from autopatch.contract.requests import Found
from services.gateway.adapters.http.door import needs
from services.gateway.adapters.http.stream import Streams
from services.gateway.agent import Caller
from services.gateway.desk import Desk, Kind, Outcome, PauseState, TargetView
from services.gateway.ports import Document, Ingested
from services.gateway.views import Page, View

Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Text = Annotated[str, Field(max_length=2000)]


class Body(BaseModel):
    """What a person sends."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Approval(Body):
    """Yes to exactly this plan."""

    plan_hash: Hash
    comment: Text = ""


class Rejection(Body):
    """No to exactly this plan, and why."""

    plan_hash: Hash
    reason: Annotated[str, Field(min_length=1, max_length=2000)]


class Reason(Body):
    """Why."""

    reason: Text = ""


class Documents(Body):
    """Texts for the knowledge base."""

    documents: tuple[Document, ...] = Field(min_length=1, max_length=100)


class Logged(BaseModel):
    """One event where the log holds it."""

    sequence: int
    envelope: Envelope


def incidents(desk: Desk, streams: Streams, route: type[APIRoute]) -> APIRouter:
    """Incidents: read, decide, follow."""
    router = APIRouter(prefix="/v1", route_class=route)

    @router.get("/incidents", dependencies=[needs("read")])
    async def list_incidents(
        state: Annotated[list[State] | None, Query()] = None, target: str = "", open: bool | None = None,  # noqa: A002
        limit: Annotated[int, Query(ge=1, le=200)] = 50, before: str = "",
    ) -> Page:
        return await desk.page(frozenset(state or ()), target, open, limit, before)

    @router.get("/incidents/{incident_id}", dependencies=[needs("read")])
    async def show(incident_id: str) -> View:
        return await desk.view(incident_id)

    @router.get("/incidents/{incident_id}/events", dependencies=[needs("read")])
    async def events(incident_id: str, after: Annotated[int, Query(ge=0)] = 0) -> list[Logged]:
        found = await desk.incident(incident_id)
        return [Logged(sequence=s.sequence, envelope=s.envelope) for s in found.log if s.sequence > after]

    @router.post("/incidents/{incident_id}/approve")
    async def approve(incident_id: str, body: Approval, caller: Annotated[Caller, needs("decide")]) -> Outcome:
        return await desk.approve(incident_id, caller, body.plan_hash, body.comment)

    @router.post("/incidents/{incident_id}/reject")
    async def reject(incident_id: str, body: Rejection, caller: Annotated[Caller, needs("decide")]) -> Outcome:
        return await desk.reject(incident_id, caller, body.plan_hash, body.reason)

    @router.post("/incidents/{incident_id}/cancel")
    async def cancel(incident_id: str, caller: Annotated[Caller, needs("cancel")], body: Reason = Reason()) -> Outcome:
        return await desk.cancel(incident_id, caller, body.reason)

    @router.post("/incidents/{incident_id}/reopen")
    async def reopen(incident_id: str, caller: Annotated[Caller, needs("reopen")], body: Reason = Reason()) -> Outcome:
        return await desk.reopen(incident_id, caller, body.reason)

    @router.get("/events", dependencies=[needs("read")], response_class=EventSourceResponse)
    async def follow(
        incident: str = "", after: Annotated[int, Query(ge=0, lt=10**18)] = 0,
        last_event_id: Annotated[str, Header(pattern=r"^[0-9]{0,18}$")] = "",
    ) -> EventSourceResponse:
        if incident:
            await desk.incident(incident)
        return streams.response(streams.admit(), int(last_event_id or after), incident)

    return router


def operations(desk: Desk, route: type[APIRoute]) -> APIRouter:
    """Targets, the pause, unmatched alerts, knowledge."""
    router = APIRouter(prefix="/v1", route_class=route)

    @router.get("/targets", dependencies=[needs("read")])
    async def targets() -> list[TargetView]:
        return [await desk.target(name) for name in desk.target_names()]

    @router.get("/targets/{name}/hold", dependencies=[needs("read")])
    async def held(name: str) -> TargetView:
        return await desk.target(name)

    @router.post("/targets/{name}/hold")
    async def hold(name: str, caller: Annotated[Caller, needs("hold")], body: Reason = Reason()) -> TargetView:
        return await desk.hold(name, caller, body.reason)

    @router.delete("/targets/{name}/hold")
    async def release(name: str, caller: Annotated[Caller, needs("hold")]) -> TargetView:
        return await desk.release(name, caller)

    @router.get("/pause", dependencies=[needs("read")])
    async def paused() -> PauseState:
        return await desk.paused()

    @router.post("/pause")
    async def pause(caller: Annotated[Caller, needs("pause")], body: Reason = Reason()) -> PauseState:
        return await desk.pause(caller, body.reason)

    @router.delete("/pause")
    async def resume(caller: Annotated[Caller, needs("pause")]) -> PauseState:
        return await desk.resume(caller)

    @router.get("/unmatched", dependencies=[needs("read")])
    async def unmatched(limit: Annotated[int, Query(ge=1, le=500)] = 100) -> list[dict[str, Any]]:
        return await desk.unmatched(limit)

    @router.get("/knowledge/search", dependencies=[needs("read")])
    async def search(
        q: Annotated[str, Query(min_length=1, max_length=4000)], target: str = "",
        kind: Annotated[list[Kind] | None, Query()] = None, limit: Annotated[int, Query(ge=1, le=50)] = 5,
    ) -> Found:
        return await desk.search(q, target, tuple(kind or ()), limit)

    @router.post("/knowledge/ingest")
    async def ingest(caller: Annotated[Caller, needs("ingest")], body: Documents) -> Ingested:
        return await desk.ingest(caller, body.documents)

    return router
