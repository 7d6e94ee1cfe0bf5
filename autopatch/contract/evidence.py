"""What was seen: readings of outside systems, measurements, evidence, causes. "No data" is told apart from "failed"."""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from autopatch.contract.model import Moment, Word, later

ReadingStatus = Literal["value", "nothing", "failed"]
Verdict = Literal["better", "same", "worse", "unknown"]


class Alert(Word):
    """One alert, as Alertmanager or Grafana told it, redacted. `identity` is the digest of its labels."""

    identity: str
    alertname: str
    labels: dict[str, str]
    annotations: dict[str, str] = Field(default_factory=dict)
    starts_at: Moment
    status: Literal["firing", "resolved"] = "firing"
    silenced: bool = False
    source: Literal["alertmanager", "grafana", "reconciliation", "watch"] = "alertmanager"
    generator_url: str = ""


class Measurement(Word):
    """One signal over one window. `blocks` are means of equal parts of the window, oldest first."""

    signal: str
    query: str
    unit: str = ""
    start: Moment
    end: Moment
    status: ReadingStatus
    reason: str = ""
    mean: float | None = None
    last: float | None = None
    blocks: tuple[float, ...] = ()
    red_share: float | None = Field(default=None, ge=0, le=1, description="share of samples on the bad side of the threshold")


class Comparison(Word):
    """One signal before and after the change, judged on block means by a rank test."""

    signal: str
    role: Literal["check", "guard", "traffic"]
    before: Measurement
    after: Measurement
    p_value: float | None = None
    effect: float | None = Field(default=None, description="(after - before) / |before|, of the medians of the blocks")
    verdict: Verdict
    why: str = ""


class Evidence(Word):
    """One item that a cause can cite by `id`."""

    id: str
    source: Literal["metric", "log", "change", "config", "release", "incident", "runbook", "health", "target", "test"]
    summary: str
    status: ReadingStatus = "value"
    query: str = ""
    before: float | None = None
    after: float | None = None
    onset: Moment | None = None
    sample: str = Field(default="", description="one redacted line")


class Cause(Word):
    """A ranked explanation. `confidence` is computed from the evidence, never taken from a model."""

    id: str = Field(description="a stable name, such as pool_exhausted")
    summary: str
    confidence: float = Field(ge=0, le=1)
    cites: tuple[str, ...] = Field(description="ids of evidence")
    runbook: str = ""


class ConfigState(Word):
    """One configuration file as the executor saw it: its digest, and the editable keys only."""

    file: str
    digest: str
    values: dict[str, str | int | float | bool]
    modified: Moment | None = None


class TargetState(Word):
    """What a target is right now; the basis of preconditions."""

    target: str
    at: Moment
    running: bool
    release: str = ""
    releases: tuple[str, ...] = Field(default=(), description="known releases, oldest first")
    released_at: Moment | None = None
    instance: str = ""
    configs: tuple[ConfigState, ...] = ()


class ModelUse(Word):
    """What was asked of a model for one event. Zero calls means that none was needed."""

    mode: Literal["off", "local", "remote"]
    model: str = ""
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    cost_usd: float = 0.0
    prompt: str = Field(default="", description="SHA-256 of the prompt file")
    note: str = Field(default="", description="why it was not asked, or why its answer was not used")

    @classmethod
    def summed(cls, uses: "Sequence[ModelUse]") -> "ModelUse | None":
        """Calls, tokens, seconds and cost of all of them, the rest as the last that made a call has it; None without any."""
        if not uses:
            return None
        last = next((use for use in reversed(uses) if use.calls), uses[-1])
        counts = ("calls", "input_tokens", "output_tokens", "seconds", "cost_usd")
        return last.model_copy(update={name: sum(getattr(use, name) for use in uses) for name in counts})


class Similar(Word):
    """Something that the knowledge room recalled."""

    id: str
    kind: Literal["lesson", "incident", "runbook", "document", "code"]
    title: str
    text: str
    score: float
    source: str = ""


class BlobRef(Word):
    """A claim check: where the object store holds what is too large for an event."""

    name: str
    size: int = Field(ge=0, description="bytes")
    digest: str = Field(description="SHA-256")


class RehearsalRun(Word):
    """One run of the target's rehearse command in the sandbox."""

    label: Literal["unchanged", "changed"]
    outcome: Literal["green", "red", "error"]
    exit_code: int | None
    seconds: float
    figures: dict[str, float] = Field(default_factory=dict)
    output: str = Field(default="", description="head and tail, redacted")
    runtime: str = ""


class Rehearsal(Word):
    """Red with what runs now, green with the plan."""

    runs: tuple[RehearsalRun, ...] = ()
    passed: bool
    skipped: str = Field(default="", description="why there was no rehearsal; such a plan is marked unrehearsed everywhere")
    reason: str = ""
    diff: str = ""
    tests: BlobRef | None = later(None, "of a code patch: a Reports document of both copies")
