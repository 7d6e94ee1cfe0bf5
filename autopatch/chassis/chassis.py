"""What a room's composition root is given."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from autopatch.chassis.clock import Clock
from autopatch.contract.events import Event
from autopatch.contract.evidence import BlobRef
from autopatch.contract.lifecycle import Incident
from autopatch.contract.model import Word
from autopatch.contract.requests import Request
from autopatch.contract.target import Target

R = TypeVar("R", bound=Word)


class Log(Protocol):
    """The incidents' event log."""

    async def load(self, incident_id: str) -> Incident:
        """The incident as it is now; state NONE when there is none. Raises Unavailable."""
        ...

    async def append(
        self, incident: Incident, events: Sequence[Event], *, by: str, caused_by: str = "", key: str = ""
    ) -> Incident:
        """Append after what was loaded. Raises Conflict when another writer was first, ContractError when not legal, Unavailable.

        The event ids follow from (incident, caused_by, by, key, expected sequence), so a repeat after a lost answer finds it.
        """
        ...

    async def ids(self) -> list[str]:
        """Ids of all incidents on the log, oldest first."""
        ...


class Asker(Protocol):
    """Requests to other rooms."""

    async def ask(self, request: Request, reply: type[R]) -> R:
        """Raises Unavailable when nobody answers, or when the room answers that something is missing."""
        ...


class Timers(Protocol):
    """Durable timers; setting one again for the same (incident, purpose) replaces it."""

    async def set(self, incident_id: str, purpose: str, at: datetime) -> None:
        """The room's timer handler of that purpose is called at `at` with the incident's current event."""
        ...


class Targets(Protocol):
    """The target files, validated."""

    def get(self, name: str) -> Target | None:
        """The target of that name."""
        ...

    def all(self) -> Sequence[Target]:
        """In the order of their names."""
        ...

    def claimed_by(self, labels: dict[str, str]) -> Sequence[Target]:
        """Targets that claim an alert with these labels; anything but exactly one is unmatched."""
        ...


class TargetRecord(Word):
    """What is known of a target across incidents; one key of the TARGETS bucket.

    `open_incident` is what later alerts join; `holder` is the incident whose action holds the target; `held_by_operator` is
    set by `autopatch hold`. `episodes` maps an alert identity to its newest incident.
    """

    open_incident: str = ""
    holder: str = ""
    held_by_operator: str = ""
    hold_reason: str = ""
    episodes: dict[str, "Episode"] = {}
    actions: tuple[datetime, ...] = ()


class Episode(Word):
    """The newest incident of one alert identity, and when its generations were opened (at most a day back)."""

    incident_id: str
    generation: int
    starts_at: datetime
    opened_at: tuple[datetime, ...]


class Records(Protocol):
    """Compare-and-set records per target."""

    async def get(self, target: str) -> tuple[TargetRecord, int]:
        """The record and its revision (0: none yet). Raises Unavailable."""
        ...

    async def put(self, target: str, record: TargetRecord, revision: int) -> int:
        """Returns the new revision. Raises Conflict when somebody else wrote since `revision`, Unavailable."""
        ...


class Control(Protocol):
    """The global pause (kill switch)."""

    async def paused(self) -> str:
        """Why everything is paused; '' when it is not. Raises Unavailable (which callers treat as paused)."""
        ...


class Blobs(Protocol):
    """Large things: the object store holds them, events and requests name them."""

    async def put(self, data: bytes) -> BlobRef:
        """Stored under its digest. Raises Unavailable."""
        ...

    async def get(self, ref: BlobRef) -> bytes:
        """Raises Unavailable."""
        ...


class Chassis(Protocol):
    """One room's connection to the rest. Everything that a room needs from outside arrives through this or through an adapter."""

    name: str
    log: Log
    asker: Asker
    timers: Timers
    targets: Targets
    records: Records
    control: Control
    blobs: Blobs
    clock: Clock


__all__ = [
    "Asker", "Blobs", "Chassis", "Control", "Episode", "Log", "Records", "TargetRecord", "Targets", "Timers",
]
