"""What the sandbox is given, and what it gives back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class Job:
    """One command for the sandbox. `files` are put into its work folder, paths relative to it.

    `first`: it is process 1 of its container, which nothing inside can end or look into; it has to keep its own time.
    `base`: files that are there from the start; the command waits for the others, until there is a file READY (see limits).
    `more_bytes` and `more_files` widen the limits by what the files unpack to.
    """

    image: str
    command: tuple[str, ...]
    timeout_s: float
    files: Mapping[str, bytes] = field(default_factory=dict, compare=False)
    base: Mapping[str, bytes] = field(default_factory=dict, compare=False)
    first: bool = False
    more_bytes: int = 0
    more_files: int = 0


@dataclass(frozen=True)
class Outcome:
    """`exit_code` is None when the command did not end by itself; `why` says then what ended it. `output` is head and tail."""

    exit_code: int | None
    stdout: str
    stderr: str
    seconds: float
    runtime: str
    why: str = ""


class Sandbox(Protocol):
    """A sealed container. Cancelling the task kills it."""

    async def run(self, job: Job) -> Outcome:
        """Raises Unavailable when there is no engine or no image."""
        ...
