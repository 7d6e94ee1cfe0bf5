"""Puts the gateway together."""

from pathlib import Path

from autopatch.chassis.room import Room
from services.gateway.adapters.http.door import door
from services.gateway.adapters.http.gauges import Gauges
from services.gateway.adapters.http.knowledge import KnowledgeDoor
from services.gateway.adapters.http.routes import incidents, operations
from services.gateway.adapters.http.stream import Streams
from services.gateway.adapters.http.tokens import TokenFile
from services.gateway.adapters.repairs.jobs import Jobs
from services.gateway.adapters.repairs.routes import body_bytes, repairs
from services.gateway.desk import Desk
from services.gateway.ports import GatewayChassis, Ingest
from services.gateway.settings import Settings


def build(settings: Settings, chassis: GatewayChassis, *, knowledge: Ingest | None = None) -> Room:
    """Tests pass another door to the knowledge room."""
    tokens = TokenFile(Path(settings.tokens_file))
    tokens.refresh()
    desk = Desk(chassis, knowledge or KnowledgeDoor(settings.knowledge_url, settings.knowledge_token.get_secret_value()))
    patience = {"heartbeat_s": settings.heartbeat_s, "send_timeout_s": settings.send_timeout_s}
    streams = Streams(chassis.log, most=settings.max_streams, **patience)
    jobs, route = Jobs(chassis, desk), door(tokens, settings.max_body_bytes)
    repairing = repairs(jobs, chassis, streams, door(tokens, body_bytes(settings.max_archive_bytes)))
    return Room(
        name="gateway", routers=(incidents(desk, streams, route), operations(desk, route), repairing),
        background=(Gauges(chassis.log, chassis.clock).run,), on_stop=(streams.close, jobs.close),
    )
