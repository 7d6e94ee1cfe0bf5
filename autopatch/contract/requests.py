"""Questions that rooms ask each other. A request owns its subject; every reply is one of these words or a Fault."""

from typing import ClassVar, Literal

from pydantic import Field

from autopatch.contract.code import CodeJob
from autopatch.contract.evidence import BlobRef, Similar, TargetState
from autopatch.contract.model import Moment, Word
from autopatch.contract.plan import Plan


class Request(Word):
    """A question with its subject and the kind of its answer."""

    subject: ClassVar[str]
    reply: ClassVar[type[Word]]
    timeout_s: ClassVar[float] = 10.0


class Fault(Word):
    """The room could not answer; `missing` names a server when that is why, `tip` what to try."""

    error: str
    missing: str = ""
    tip: str = ""


class Found(Word):
    """Best first."""

    items: tuple[Similar, ...]


class Search(Request):
    """What does knowledge hold that is near to this text? Dense and lexical, fused."""

    subject: ClassVar[str] = "knowledge.search"
    reply: ClassVar[type[Word]] = Found
    text: str = Field(min_length=1, max_length=4000)
    target: str = ""
    kinds: tuple[Literal["lesson", "incident", "runbook", "document", "code"], ...] = ()
    limit: int = Field(default=5, ge=1, le=50)


class RunbookPlan(Word):
    """The structured actions of a runbook, as its author wrote them."""

    name: str
    title: str
    causes: tuple[str, ...]
    alerts: tuple[str, ...] = ()
    service: str = ""
    actions: tuple[dict[str, str | int | float | bool], ...]
    source: str = ""
    attached: dict[str, str] = Field(default_factory=dict, description="tests that show the fault, by path in the repository")


class Lesson(Word):
    """A fix and how often it was seen to work. `trust` is computed from validated outcomes, fading with age."""

    id: str
    signature: str
    target: str
    cause: str
    plan: Plan
    recovered: int
    failed: int
    trust: float = Field(ge=0, le=1)
    last_outcome_at: Moment


class Recalled(Word):
    """Lessons past all three gates, most trusted first, and the runbooks that answer the cause."""

    lessons: tuple[Lesson, ...] = ()
    runbooks: tuple[RunbookPlan, ...] = ()
    withheld: tuple[str, ...] = Field(default=(), description="lessons that fit but were not trusted, and why")


class Recall(Request):
    """Which proven fix, and which runbook, answers this fault?"""

    subject: ClassVar[str] = "knowledge.recall"
    reply: ClassVar[type[Word]] = Recalled
    signature: str
    target: str
    cause: str
    alertname: str = ""


class Inspect(Request):
    """What is the target right now? Asked of the executor, the only room that may look at it."""

    subject: ClassVar[str] = "executor.inspect"
    reply: ClassVar[type[Word]] = TargetState
    target: str


class Logs(Request):
    """Log lines of a target, redacted, oldest first."""

    subject: ClassVar[str] = "executor.logs"
    reply: ClassVar[type[Word]]
    timeout_s: ClassVar[float] = 15.0
    target: str
    start: Moment
    end: Moment
    limit: int = Field(default=2000, ge=1, le=5000)


class LogLines(Word):
    """At most 48 KiB in all; `truncated` says that older ones were left out."""

    lines: tuple[str, ...]
    truncated: bool = False


Logs.reply = LogLines


class Recheck(Request):
    """Is the incident's check still red? Asked of the validator before anything is applied; a green one closes the incident."""

    subject: ClassVar[str] = "validator.recheck"
    reply: ClassVar[type[Word]]
    timeout_s: ClassVar[float] = 15.0
    incident_id: str


class Rechecked(Word):
    """`unknown` when Prometheus could not say."""

    status: Literal["red", "green", "unknown"]
    reason: str = ""


Recheck.reply = Rechecked


class Silenced(Request):
    """Is the incident's alert silenced in Alertmanager now?"""

    subject: ClassVar[str] = "monitor.silenced"
    reply: ClassVar[type[Word]]
    incident_id: str


class SilenceState(Word):
    """`unknown` when Alertmanager could not say: treated as silenced."""

    status: Literal["silenced", "active", "unknown"]
    reason: str = ""


Silenced.reply = SilenceState


class RunTests(Request):
    """Run a job's tests in the sandbox, on the unchanged copy, on candidates, or on a copy that a diff was applied to.

    Asked of the executor, the only room that reaches an engine. The snapshot's own tests are used whatever a candidate changes.
    """

    subject: ClassVar[str] = "executor.run_tests"
    reply: ClassVar[type[Word]]
    timeout_s: ClassVar[float] = 900.0
    incident_id: str
    job: CodeJob
    unchanged: int = Field(default=0, ge=0, le=10, description="runs of the unchanged copy, each with its own seeds")
    trials: BlobRef | None = Field(default=None, description="a Trials document")
    diff: BlobRef | None = Field(default=None, description="a unified diff; its report's trial is 'diff'")
    only: tuple[str, ...] = Field(default=(), description="ids of tests; empty: all")
    coverage: bool = Field(default=False, description="of the unchanged copy, line by line")
    enough: int = Field(default=0, ge=0, description="stop when so many trials passed all that was run; 0: try all")
    limit_s: float = Field(default=120, gt=0, le=840, description="seconds for all of it; what was not reached is not reported")


class RanTests(Word):
    """`reports` is a Reports document."""

    reports: BlobRef
    runtime: str
    tried: int = Field(default=0, description="trials that were run to their end")


RunTests.reply = RanTests


class Snapped(Word):
    """A target's source as a job, and the commit that runs."""

    job: CodeJob


class Snapshot(Request):
    """A target's repository as it is built from, as a job; `attached` are tests that a runbook brings, by path.

    Asked of the executor, the only room that reaches targets and their repositories.
    """

    subject: ClassVar[str] = "executor.snapshot"
    reply: ClassVar[type[Word]] = Snapped
    timeout_s: ClassVar[float] = 60.0
    target: str
    attached: dict[str, str] = Field(default_factory=dict)


class Indexed(Word):
    """How much of a repository knowledge holds now."""

    chunks: int
    changed: int = Field(description="chunks that were read anew; the rest was known by digest")


class IndexCode(Request):
    """Read a job's repository into the collection `code`, incrementally by digest."""

    subject: ClassVar[str] = "knowledge.index_code"
    reply: ClassVar[type[Word]] = Indexed
    timeout_s: ClassVar[float] = 120.0
    job: CodeJob


REQUESTS: tuple[type[Request], ...] = (Search, Recall, Inspect, Logs, Recheck, Silenced, RunTests, Snapshot, IndexCode)
