"""A target: a thing that AutoPatch may heal, as its file in `targets/` describes it."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from autopatch.contract.actions import ActionKind

Rung = Literal["observe", "suggest", "approve", "auto"]
RUNGS: tuple[Rung, ...] = ("observe", "suggest", "approve", "auto")
"""The autonomy ladder, strictest first."""

SECRET_NAMES = ("password", "passwd", "secret", "token", "api_key", "apikey", "private_key", "credential")


DAY_S = 86_400


class Strict(BaseModel):
    """What a person wrote: an unknown field is a mistake and named, and a number is one that can be counted to."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Bounds(Strict):
    """What an editable key may be."""

    type: Literal["int", "float", "bool", "str"]
    min: float | None = None
    max: float | None = None
    choices: tuple[str, ...] = ()


class ConfigFile(Strict):
    """A file that holds configuration. `path` is on the host; relative paths are relative to the target file."""

    name: str
    path: str
    format: Literal["json", "yaml", "toml", "ini", "env"]
    effective_by: Literal["reload", "restart"] = "reload"
    editable: dict[str, Bounds] = Field(default_factory=dict, description="dotted key -> bounds")

    @model_validator(mode="after")
    def _no_secrets(self) -> "ConfigFile":
        for key in self.editable:
            if any(word in key.lower() for word in SECRET_NAMES):
                raise ValueError(f"editable key {key!r} looks like a secret; secrets are never edited or shown")
        return self


class DockerRuntime(Strict):
    """A container. Releases are image tags: `image`:`release`."""

    kind: Literal["docker"]
    container: str
    image: str
    releases: tuple[str, ...] = Field(min_length=1, description="known releases, oldest first")
    reload_signal: str = ""
    reload_url: str = Field(default="", description="POSTed to; 2xx means reloaded")
    source: str = Field(default="", description="folder in the image that is the repository's root; '' when code is not patched")


class ProcessRuntime(Strict):
    """A local process that AutoPatch starts. `command` may contain {release} and {config:NAME}."""

    kind: Literal["process"]
    command: tuple[str, ...] = Field(min_length=1)
    pidfile: str
    workdir: str = "."
    log: str = ""
    releases: tuple[str, ...] = Field(default=("1",), min_length=1)
    reload_signal: str = ""
    reload_url: str = ""


Runtime = Annotated[DockerRuntime | ProcessRuntime, Field(discriminator="kind")]


class Signal(Strict):
    """A PromQL query that gives one number, and what good means."""

    query: str
    unit: str = ""
    role: Literal["check", "guard", "traffic"] = "guard"
    bad: Literal["above", "below"] = "above"
    threshold: float | None = Field(default=None, description="required for checks")
    alerts: tuple[str, ...] = Field(default=(), description="alertnames that stand for this check")

    @model_validator(mode="after")
    def _checks_have_thresholds(self) -> "Signal":
        if self.role == "check" and self.threshold is None:
            raise ValueError("a signal with role 'check' needs a threshold")
        return self


class Soak(Strict):
    """How long a fix is watched. `settle_s` should cover the rate windows of the queries."""

    settle_s: float = Field(default=60, ge=0, le=DAY_S)
    soak_s: float = Field(default=300, gt=0, le=DAY_S)
    step_s: float = Field(default=5, gt=0, le=DAY_S, description="resolution of range queries")


class Rehearse(Strict):
    """A command that runs service and load on loopback inside one sandbox. Exit code 0: green, 1: red, 75: cannot judge
    here and now, tried again later; anything else: error.

    `command` may contain {release}, {config:NAME} (path of a copy in which secrets are replaced) and {signal:NAME} (what a check
    or a traffic signal was when the alert was reproduced, so that the rehearsal has the load of the real thing).
    """

    command: tuple[str, ...] = Field(min_length=1)
    image: str = Field(description="may contain {release}")
    timeout_s: float = Field(default=120, gt=0, le=600)


class PrometheusSource(Strict):
    """Where a target's metrics are."""

    url: str
    bearer_token_file: str = ""
    tenant: str = ""


class Autonomy(Strict):
    """How far AutoPatch goes alone; a plan takes the strictest rung of its steps."""

    default: Rung = "approve"
    actions: dict[ActionKind, Rung] = Field(default_factory=dict)
    unrehearsed: tuple[ActionKind, ...] = Field(default=(), description="kinds that may run on their rung without a rehearsal")


class Target(Strict):
    """One file of `targets/`."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")
    match: dict[str, str] = Field(min_length=1, description="labels that an alert must carry to belong here")
    runtime: Runtime
    configs: tuple[ConfigFile, ...] = ()
    signals: dict[str, Signal] = Field(min_length=1)
    prometheus: PrometheusSource
    health: str = Field(default="", description="URL that answers 2xx when well")
    autonomy: Autonomy = Autonomy()
    approvers: tuple[str, ...] = Field(default=(), description="names or roles; empty: everyone with the role approver")
    approval_ttl_s: float = Field(default=900, gt=0, le=30 * DAY_S)
    rehearse: Rehearse | None = None
    soak: Soak = Soak()
    on_inconclusive: Literal["keep", "rollback"] = "keep"
    source_of_truth: Literal["file", "git"] = "file"
    repository: str = ""
    tests: tuple[str, ...] = ()

    def config(self, name: str) -> ConfigFile | None:
        """The configuration file of that name."""
        return next((c for c in self.configs if c.name == name), None)

    def check_for(self, alertname: str) -> tuple[str, Signal] | None:
        """The check signal that an alert stands for; None when none or more than one fits and none names the alert."""
        checks = {n: s for n, s in self.signals.items() if s.role == "check"}
        named = [(n, s) for n, s in checks.items() if alertname in s.alerts]
        if len(named) == 1:
            return named[0]
        return next(iter(checks.items())) if len(checks) == 1 and not named else None

    def claims(self, labels: dict[str, str]) -> bool:
        """Does an alert with these labels belong here?"""
        return all(labels.get(k) == v for k, v in self.match.items())
