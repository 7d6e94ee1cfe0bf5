"""Questions that rooms ask each other. A request owns its subject; every reply is one of these words or a Fault."""

from typing import ClassVar, Literal

from pydantic import Field

from autopatch.contract.evidence import Similar, TargetState
from autopatch.contract.model import Moment, Word
from autopatch.contract.plan import Plan


class Request(Word):
    """A question with its subject and the kind of its answer."""

    subject: ClassVar[str]
    reply: ClassVar[type[Word]]
    timeout_s: ClassVar[float] = 10.0


class Fault(Word):
    """The room could not answer; `missing` names a server when that is why."""

    error: str
    missing: str = ""


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

REQUESTS: tuple[type[Request], ...] = (Search, Recall, Inspect, Logs, Recheck, Silenced)
