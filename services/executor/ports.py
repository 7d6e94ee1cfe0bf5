"""What the executor needs of the world: hands that act on one target, and a rehearsal."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from autopatch.contract.actions import PatchCode
from autopatch.contract.errors import AutoPatchError
from autopatch.contract.evidence import Rehearsal, TargetState
from autopatch.contract.plan import Plan, UndoRecord
from autopatch.contract.target import Target
from autopatch.repair.tree import Files


class Failed(AutoPatchError):
    """A step was tried and did not work; what has been done so far must be undone."""


@dataclass(frozen=True)
class Prepared:
    """What applying a plan would do: one undo record per step, and the change as people read it, without secrets."""

    undo: tuple[UndoRecord, ...]
    diff: str


class Hands(Protocol):
    """Everything that may be done to one target. Steps are named by their index in the plan."""

    def fence(self) -> AbstractAsyncContextManager[None]:
        """One at a time on this machine, whoever was paused meanwhile. Raises RetryLater when somebody else is inside."""
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

    async def is_untouched(self, plan: Plan, undo: Sequence[UndoRecord], step: int) -> bool:
        """Is it seen that this step was not even begun? Not so is what may be half done."""
        ...

    async def take_back(self, plan: Plan, undo: Sequence[UndoRecord], step: int) -> str:
        """Raises StaleTarget when somebody changed the target since, Failed, Unavailable."""
        ...

    async def logs(self, start: datetime, end: datetime, limit: int) -> Sequence[str]:
        """Redacted lines, oldest first."""
        ...


class Rehearse(Protocol):
    """Tries a plan on copies."""

    async def __call__(self, target: Target, plan: Plan, release: str) -> Rehearsal:
        """Red unchanged, green changed, or why not. `release` runs now. Raises Unavailable, OperatorError."""
        ...


class PatchesReleases(Protocol):
    """Releases with a patch. `release` is the one that the patch is laid over; all raise Unavailable, Failed."""

    async def compare(self, target: Target, release: str, tree: Files) -> None:
        """Raises OperatorError when the release was built of other code than the tree's."""
        ...

    async def check(self, target: Target, action: PatchCode, release: str) -> None:
        """Raises StaleTarget when the release's files are not those that the patch was made for, Refused."""
        ...

    async def build(self, target: Target, action: PatchCode, release: str) -> str:
        """The patched release, which can be run then; it may be there already."""
        ...
