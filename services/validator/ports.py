"""What the validator needs from outside."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from autopatch.chassis.prometheus import AlertRule, Result
from autopatch.contract.target import Target


class Metrics(Protocol):
    """One Prometheus. Every method raises Unavailable when it does not answer."""

    async def query(self, expr: str, at: datetime | None = None) -> Result:
        """An instant query."""
        ...

    async def query_range(self, expr: str, start: datetime, end: datetime, step_s: float) -> Result:
        """A range query."""
        ...

    async def rules(self) -> tuple[AlertRule, ...]:
        """All alerting rules."""
        ...


class Sources(Protocol):
    """The Prometheus of each target."""

    def of(self, target: Target) -> Metrics:
        """Raises Unavailable when the target's settings for it cannot be used."""
        ...

    async def aclose(self) -> None:
        """Close every connection."""
        ...


class Health(Protocol):
    """Asks a health endpoint."""

    async def probe(self, url: str) -> tuple[bool, str]:
        """Did it answer 2xx, and what it answered."""
        ...

    async def aclose(self) -> None:
        """Close every connection."""
        ...


class Cores(Protocol):
    """Keeps a local model quiet while a soak is measured on the same cores."""

    async def begin_measuring(self, incident_id: str) -> datetime | None:
        """Returns once no model computes, and since when; None when nothing can disturb.

        Asked again for the same incident it returns the same time, unless the reservation was lost meanwhile. Raises Unavailable.
        """
        ...

    async def end_measuring(self, incident_id: str) -> None:
        """The cores are free again; harmless when they were."""
        ...

    def measured(self) -> Sequence[str]:
        """Incidents for which the cores are kept quiet by this process."""
        ...
