"""What delivery needs of a runtime: Docker and local processes first."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from autopatch.contract.plan import Precondition


@dataclass(frozen=True)
class RuntimeState:
    """`instance` changes with every start: container or process id and start time. `half_way`: a release change was cut off.

    `unwell`: it is there and not `running`, by its own health check only.
    """

    running: bool
    release: str = ""
    instance: str = ""
    started_at: datetime | None = None
    released_at: datetime | None = None
    half_way: bool = False
    unwell: bool = False


class Runtime(Protocol):
    """How a target runs. Actions check the precondition as they act and raise StaleTarget, Failed, Refused or Unavailable."""

    async def inspect(self) -> RuntimeState:
        """What runs now."""
        ...

    async def reload(self, precondition: Precondition) -> str:
        """Have the configuration read again; returns what was done. May be repeated without harm."""
        ...

    async def restart(self, precondition: Precondition) -> str:
        """Start anew, or start when stopped; returns when it is well again."""
        ...

    async def run_release(self, release: str, precondition: Precondition) -> str:
        """Run a known release; finishes what an interrupted call began. Returns when it is well."""
        ...

    async def logs(self, start: datetime, end: datetime, limit: int) -> Sequence[str]:
        """At most `limit` newest lines of that time, oldest first, not redacted."""
        ...
