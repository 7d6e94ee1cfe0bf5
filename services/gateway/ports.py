"""What the gateway needs of the world beyond what every room gets."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

from opentelemetry.trace import Tracer
from pydantic import Field

from autopatch.chassis.chassis import Chassis, Control, Log
from autopatch.chassis.settings import Common
from autopatch.contract.errors import AutoPatchError
from autopatch.contract.lifecycle import Stored
from autopatch.contract.model import Word


class Unauthenticated(AutoPatchError):
    """No token, or none that we know."""


class Live(Protocol):
    """Word that cannot wait for the log."""

    async def cancelled(self, incident_id: str) -> None:
        """Tell whoever works on this incident to stop now. Best effort: the log tells them too, a little later."""
        ...


class FollowedLog(Log, Protocol):
    """The log, also as it grows."""

    def follow(self, after_sequence: int, incident_id: str = "") -> AsyncIterator[Stored]:
        """Events after that sequence, of one incident when named, without end, as fast as they are read. Raises Unavailable."""
        ...

    async def room_left(self) -> bool:
        """False when the log is so full that nothing new may open. Raises Unavailable."""
        ...


class Switch(Control, Protocol):
    """The global pause, with its button."""

    async def pause(self, reason: str) -> None:
        """Engage; with an empty reason release. Raises Unavailable."""
        ...


class Unmatched(Protocol):
    """Alerts that no target, or more than one, claims."""

    async def newest(self, limit: int = 100) -> list[dict[str, Any]]:
        """The newest ones, oldest first, redacted: {reason, alert}. Raises Unavailable."""
        ...


class Document(Word):
    """A text for the knowledge base: Markdown, with front matter when it is a runbook. `source` says where it is from."""

    source: str = Field(min_length=1, max_length=500)
    text: str
    attached: dict[str, str] = Field(default_factory=dict, description="texts of files beside it, by their path from it")


class Ingested(Word):
    """Numbers of documents, and of the chunks that were written."""

    added: int = 0
    unchanged: int = 0
    removed: int = 0
    chunks: int = 0


class Ingest(Protocol):
    """The knowledge room's door for documents."""

    async def ingest(self, documents: Sequence[Document]) -> Ingested:
        """Raises Unavailable, OperatorError."""
        ...


class GatewayChassis(Chassis, Protocol):
    """A chassis with what only the gateway uses."""

    log: FollowedLog
    control: Switch
    live: Live
    unmatched: Unmatched
    tracer: Tracer
    common: Common
