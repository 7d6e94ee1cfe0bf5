"""What the executor needs of the world: a runtime per kind of target, a sandbox, and hands that act on one target."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from autopatch.contract.errors import AutoPatchError
from autopatch.contract.evidence import Rehearsal, TargetState
from autopatch.contract.plan import Plan, Precondition, UndoRecord
from autopatch.contract.target import Target


class Failed(AutoPatchError):
    """A step was tried and did not work; what has been done so far must be undone."""


@dataclass(frozen=True)
class RuntimeState:
    """`instance` changes with every start: container id or process id, and when it started. `half_way`: a release change was interrupted."""

    running: bool
    release: str = ""
    instance: str = ""
    started_at: datetime | None = None
    released_at: datetime | None = None
    half_way: bool = False


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


@dataclass(frozen=True)
class Prepared:
    """What applying a plan would do: one undo record per step, and the change as people read it, without secrets."""

    undo: tuple[UndoRecord, ...]
    diff: str


class Hands(Protocol):
    """Everything that may be done to one target. Steps are named by their index in the plan."""

    def fence(self) -> AbstractAsyncContextManager[None]:
        """One at a time on this machine, also for a process that was paused meanwhile. Raises RetryLater when somebody else is inside."""
        ...

    async def state(self) -> TargetState:
        """What the target is right now; values of editable keys only."""
        ...

    async def prepare(self, plan: Plan) -> Prepared:
        """Raises StaleTarget when a precondition does not hold, Refused or OperatorError when a step can't be done."""
        ...

    async def has_effect(self, plan: Plan, undo: Sequence[UndoRecord], step: int) -> bool:
        """Is the effect of this step there already? Always False for a reload, which leaves no trace and may be repeated."""
        ...

    async def act(self, plan: Plan, undo: Sequence[UndoRecord], step: int) -> str:
        """Raises StaleTarget when the target itself refuses, Failed, Unavailable."""
        ...

    async def is_undone(self, plan: Plan, undo: Sequence[UndoRecord], step: int, since: datetime) -> bool:
        """Is the target as it was before this step? `since` is when the rollback was claimed."""
        ...

    async def take_back(self, plan: Plan, undo: Sequence[UndoRecord], step: int) -> str:
        """Raises StaleTarget when somebody changed the target since, Failed, Unavailable."""
        ...

    async def logs(self, start: datetime, end: datetime, limit: int) -> Sequence[str]:
        """Redacted lines, oldest first."""
        ...


@dataclass(frozen=True)
class Job:
    """One command for the sandbox. `files` are put into its work folder, paths relative to it."""

    image: str
    command: tuple[str, ...]
    timeout_s: float
    files: Mapping[str, bytes] = field(default_factory=dict)


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


class Rehearse(Protocol):
    """Tries a plan on copies."""

    async def __call__(self, target: Target, plan: Plan, release: str) -> Rehearsal:
        """Red unchanged, green changed, or why not. `release` runs now. Raises Unavailable, OperatorError."""
        ...
