"""What the diagnosis needs from outside."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from autopatch.chassis.prometheus import Result
from autopatch.contract.target import Target


class Metrics(Protocol):
    """One Prometheus. Every method raises Unavailable when it does not answer."""

    async def query(self, expr: str, at: datetime | None = None) -> Result:
        """An instant query."""
        ...

    async def query_range(self, expr: str, start: datetime, end: datetime, step_s: float) -> Result:
        """A range query."""
        ...


class Sources(Protocol):
    """The Prometheus of each target."""

    def of(self, target: Target) -> Metrics:
        """Raises Unavailable when the target's settings for it cannot be used."""
        ...

    async def aclose(self) -> None:
        """Close every connection."""
        ...


class History(Protocol):
    """The history of a repository, read only."""

    async def commits(self, repository: str, since: datetime, limit: int) -> Sequence[tuple[datetime, str]]:
        """Time and subject of each, the newest first. Raises Unavailable."""
        ...


class Health(Protocol):
    """Asks a health endpoint."""

    async def probe(self, url: str) -> tuple[bool, str]:
        """Did it answer 2xx, and what it answered."""
        ...

    async def aclose(self) -> None:
        """Close every connection."""
        ...
