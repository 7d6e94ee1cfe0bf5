"""A plan: typed steps, each with what must be so before it and how it is undone, and how success is measured."""

from typing import Literal

from pydantic import Field

from autopatch.contract.actions import RISK, Action, Risk
from autopatch.contract.model import Word, canonical, digest


class Precondition(Word):
    """What the target itself checks as it acts. A field that is None is not checked; a step with none set is refused."""

    config_digest: str | None = Field(default=None, description="SHA-256 of the file that the step edits")
    release: str | None = None
    instance: str | None = Field(default=None, description="container id, or pid and start time of a process")


class Step(Word):
    """`undo` is the action that takes the step back, None when there is nothing to take back (reload, restart)."""

    action: Action
    precondition: Precondition
    undo: Action | None = None


class SuccessCheck(Word):
    """The signal of the target that must turn good, and for how long."""

    signal: str
    settle_s: float = Field(ge=0, description="seconds after the change that do not count: windows still hold old samples")
    soak_s: float = Field(gt=0, description="seconds that are judged")


class Basis(Word):
    """Where the plan comes from."""

    kind: Literal["lesson", "runbook", "template", "model", "person"]
    ref: str = Field(description="id of the lesson, name of the runbook, or name of the model")
    why: str


class Alternative(Word):
    """What was considered and not taken."""

    summary: str
    why_not: str


class Plan(Word):
    """What is to be done to one target. Approval binds to its `hash`."""

    target: str
    summary: str
    cause: str = Field(description="id of the diagnosed cause that it answers")
    steps: tuple[Step, ...] = Field(min_length=1)
    success: SuccessCheck
    basis: Basis
    rejected: tuple[Alternative, ...] = ()

    @property
    def hash(self) -> str:
        """SHA-256 over everything that would be done and by what it would be judged; wording is left out."""
        parts = self.model_dump(mode="json", include={"target", "steps", "success"})
        return digest(canonical(parts))

    @property
    def risk(self) -> Risk:
        """The highest risk of its steps."""
        return max((RISK[step.action.kind] for step in self.steps), key=("low", "medium", "high").index)


class UndoRecord(Word):
    """Written before the first side effect, byte-exact: at `offset` of `file`, `new` is put back to `old`."""

    step: int
    kind: Literal["splice", "release", "none"]
    file: str = ""
    offset: int = 0
    old: str = ""
    new: str = ""
    digest_before: str = ""
    digest_after: str = ""
    release: str = ""


class StepResult(Word):
    """What became of one step, or of its undo."""

    step: int
    done: bool
    detail: str
    already: bool = Field(default=False, description="the probe found the effect there before we acted")
