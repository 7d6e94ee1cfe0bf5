"""What the collectors found, before anything is concluded from it. Each source says: here it is, nothing there, or failed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from autopatch.contract.evidence import ReadingStatus, Similar, TargetState
from autopatch.contract.requests import Lesson, RunbookPlan

Direction = Literal["up", "down", "flat"]
Novelty = Literal["new", "grown", "vanished", "steady"]
ChangeKind = Literal["release", "config", "code"]


@dataclass(frozen=True)
class Track:
    """One number over time: unix seconds and values, oldest first. `role` is empty for what the target does not name."""

    name: str
    query: str
    unit: str = ""
    role: str = ""
    times: tuple[float, ...] = ()
    values: tuple[float, ...] = ()
    status: ReadingStatus = "value"
    reason: str = ""


@dataclass(frozen=True)
class Shift:
    """How a track moved. `strength` (0 to 1) is 0 when it did not; `tie` is its absolute correlation with the check, 0 to 1."""

    name: str
    query: str
    unit: str
    role: str
    before: float
    after: float
    onset: datetime | None
    direction: Direction
    strength: float
    tie: float


@dataclass(frozen=True)
class Saturation:
    """A resource that is used up: `used` of `size`, as a share, while the incident lasts."""

    name: str
    query: str
    share: float
    before: float | None


@dataclass(frozen=True)
class Pattern:
    """A kind of log line, and how many of it were seen while red and before."""

    template: str
    count: int
    before: int
    novelty: Novelty
    severe: bool
    sample: str


@dataclass(frozen=True)
class Raised:
    """An exception, where in the target's own source it came from, and how often: while red, and before if that is known.

    `foreign`: it was raised in code of others that its own called.
    """

    error: str
    path: str
    line: int
    function: str
    foreign: bool
    count: int
    before: int | None
    novelty: Novelty

    @property
    def key(self) -> str:
        """By which causes cite it."""
        return f"raised:{self.path}:{self.line}"


@dataclass(frozen=True)
class Change:
    """Something was changed `ago_s` seconds before the onset (negative: after). `strength` is 0 when it cannot be the cause."""

    kind: ChangeKind
    what: str
    at: datetime
    ago_s: float
    strength: float


@dataclass(frozen=True)
class Health:
    """What the health endpoint said."""

    url: str
    well: bool
    said: str


@dataclass(frozen=True)
class Facts:
    """Everything that is known of one incident. `silent` and `failed` map a source to why it says nothing.

    `runbooks` and `lessons` map causes: to a runbook that names this alert, and to a trusted lesson of this target and check.
    """

    target: str
    check: str
    onset: datetime
    state: TargetState
    shifts: tuple[Shift, ...] = ()
    saturations: tuple[Saturation, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    raised: tuple[Raised, ...] = ()
    changes: tuple[Change, ...] = ()
    similar: tuple[Similar, ...] = ()
    health: Health | None = None
    runbooks: Mapping[str, RunbookPlan] = field(default_factory=dict)
    lessons: Mapping[str, Lesson] = field(default_factory=dict)
    silent: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
