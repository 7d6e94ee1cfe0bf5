"""Everything that can happen to an incident. An event owns its name and version; its subject is incidents.<id>.<name>."""

from typing import ClassVar, Literal

from pydantic import Field

from autopatch.contract.code import CodeJob, TestTable
from autopatch.contract.evidence import Alert as Alert
from autopatch.contract.evidence import BlobRef, Cause, Comparison, Evidence, Measurement, ModelUse, Rehearsal, TargetState
from autopatch.contract.model import Moment, later
from autopatch.contract.notes import AlertUpdated as AlertUpdated
from autopatch.contract.notes import Cleared as Cleared
from autopatch.contract.notes import Event as Event
from autopatch.contract.notes import LessonRecorded as LessonRecorded
from autopatch.contract.notes import Waiting as Waiting
from autopatch.contract.plan import Plan, StepResult, UndoRecord
from autopatch.contract.target import Rung


class Opened(Event):
    """An alert that one target claims, or a defect job of a person."""

    name: ClassVar[str] = "opened"
    target: str
    title: str
    alert: Alert | None = None
    generation: int = 0
    job: CodeJob | None = later(None, "a defect job; its target is its repository's name")


class Reproduced(Event):
    """The check was measured and is red now."""

    name: ClassVar[str] = "reproduced"
    signal: str
    checks: tuple[Measurement, ...]
    tests: TestTable | None = later(None)


class NotReproduced(Event):
    """The check is green: nothing is changed."""

    name: ClassVar[str] = "not_reproduced"
    reason: str
    checks: tuple[Measurement, ...] = ()
    kind: Literal["green", "flaky", "environment_error"] = later("green")
    tests: TestTable | None = later(None)


class Diagnosed(Event):
    """Ranked causes with the evidence they cite; `missing` says what could not be had and why."""

    name: ClassVar[str] = "diagnosed"
    causes: tuple[Cause, ...] = Field(min_length=1)
    evidence: tuple[Evidence, ...]
    missing: tuple[str, ...] = ()
    state: TargetState
    explanation: str = ""
    signature: str = Field(description="what lessons are recalled by: target, check and top cause")
    places: BlobRef | None = later(None, "a Places document: suspicious places of the code")
    model: ModelUse


class Undiagnosed(Event):
    """No cause stands out; a person gets the evidence."""

    name: ClassVar[str] = "undiagnosed"
    reason: str
    evidence: tuple[Evidence, ...] = ()
    missing: tuple[str, ...] = ()
    model: ModelUse


class Planned(Event):
    """One attempt."""

    name: ClassVar[str] = "planned"
    plan: Plan
    plan_hash: str
    model: ModelUse


class Observed(Event):
    """The target's rung is observe: the diagnosis is all that is wanted."""

    name: ClassVar[str] = "observed"
    summary: str


class Rehearsed(Event):
    """Red unchanged, green changed; or not rehearsed, and why that is allowed."""

    name: ClassVar[str] = "rehearsed"
    plan_hash: str
    rehearsal: Rehearsal


class RehearsalFailed(Event):
    """The plan did not turn red into green in the sandbox."""

    name: ClassVar[str] = "rehearsal_failed"
    plan_hash: str
    rehearsal: Rehearsal


class ApprovalRequested(Event):
    """A person must decide, before `expires_at`."""

    name: ClassVar[str] = "approval_requested"
    plan_hash: str
    why: str
    approvers: tuple[str, ...] = ()
    needed: int = Field(default=1, ge=1)
    expires_at: Moment


class Approved(Event):
    """A person said yes to exactly this plan."""

    name: ClassVar[str] = "approved"
    plan_hash: str
    person: str
    comment: str = ""


class Rejected(Event):
    """A person said no."""

    name: ClassVar[str] = "rejected"
    plan_hash: str
    person: str
    reason: str


class Expired(Event):
    """Nobody decided in time."""

    name: ClassVar[str] = "expired"
    plan_hash: str


class Refused(Event):
    """Policy does not allow the plan."""

    name: ClassVar[str] = "refused"
    plan_hash: str
    rule: str
    reason: str


class Proposed(Event):
    """The target's rung is suggest: the rehearsed plan is handed over."""

    name: ClassVar[str] = "proposed"
    plan_hash: str
    why: str


class Applying(Event):
    """The claim, appended before the first side effect; holds the undo."""

    name: ClassVar[str] = "applying"
    plan_hash: str
    undo: tuple[UndoRecord, ...]
    rung: Rung
    rule: str
    rehearsed: bool
    approved_by: tuple[str, ...] = ()


class Applied(Event):
    """Every step has its effect."""

    name: ClassVar[str] = "applied"
    plan_hash: str
    results: tuple[StepResult, ...]
    diff: str = ""
    at: Moment


class ApplyFailed(Event):
    """A step failed; what was done is undone."""

    name: ClassVar[str] = "apply_failed"
    plan_hash: str
    results: tuple[StepResult, ...]
    reason: str


class RollingBack(Event):
    """The claim on undoing."""

    name: ClassVar[str] = "rolling_back"
    reason: str


class RolledBack(Event):
    """The target is as it was, or there was nothing to undo."""

    name: ClassVar[str] = "rolled_back"
    results: tuple[StepResult, ...]
    detail: str = ""


class RollbackFailed(Event):
    """Critical: a person must look now."""

    name: ClassVar[str] = "rollback_failed"
    results: tuple[StepResult, ...]
    reason: str


class Stale(Event):
    """The target is not what the plan was made for; nothing was changed."""

    name: ClassVar[str] = "stale"
    reason: str


class Recovered(Event):
    """Proven on live signals; a defect job on a copy of its own, by all its tests."""

    name: ClassVar[str] = "recovered"
    comparisons: tuple[Comparison, ...] = ()
    tests: TestTable | None = later(None)


class NotRecovered(Event):
    """Worse, or still firing."""

    name: ClassVar[str] = "not_recovered"
    reason: str
    comparisons: tuple[Comparison, ...] = ()
    tests: TestTable | None = later(None)


class Inconclusive(Event):
    """Neither proven nor refuted; the soak is extended, or it is said for good."""

    name: ClassVar[str] = "inconclusive"
    reason: str
    comparisons: tuple[Comparison, ...] = ()


class Escalated(Event):
    """A person is needed; every attempt's evidence is in this log."""

    name: ClassVar[str] = "escalated"
    reason: str
    critical: bool = False
    room: str
    kind: Literal["", "no_fix_found", "format_error"] = later("", "of a defect job")
    model: ModelUse | None = later(None, "what was asked of a model in vain")


class Cancelled(Event):
    """A person stopped it."""

    name: ClassVar[str] = "cancelled"
    person: str
    reason: str = ""


class Reopened(Event):
    """A person wants another try."""

    name: ClassVar[str] = "reopened"
    person: str
    reason: str = ""


EVENTS: dict[str, type[Event]] = {cls.name: cls for cls in Event.__subclasses__()}
"""By name."""
