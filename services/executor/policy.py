"""May this plan run, and who decides? One pure function over what the operator wrote."""

from dataclasses import dataclass
from datetime import datetime, time, timedelta
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, AwareDatetime, Discriminator, Field, Tag, model_validator

from autopatch.contract.actions import RISK, ActionKind, PatchCode, Reload, Restart, RollbackRelease, Scalar, SetConfig
from autopatch.contract.plan import Plan, Step
from autopatch.contract.target import DAY_S, RUNGS, Bounds, DockerRuntime, Rung, Strict, Target

def _local(value: time) -> time:
    if value.tzinfo is not None:
        raise ValueError("has a zone of its own; `zone` says it for both times")
    return value


Local = Annotated[time, AfterValidator(_local)]
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


class Weekly(Strict):
    """From a time of those days until a time of the same or, when that is earlier, of the next day."""

    days: tuple[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"], ...] = Field(min_length=1)
    from_: Local = Field(alias="from")
    until: Local
    zone: ZoneInfo = Field(default_factory=lambda: ZoneInfo("UTC"))
    why: str = ""

    def holds(self, now: datetime) -> bool:
        """Is it that time?"""
        local = now.astimezone(self.zone)
        today, clock = DAYS[local.weekday()], local.time()
        if self.from_ < self.until:
            return today in self.days and self.from_ <= clock < self.until
        yesterday = DAYS[(local.weekday() - 1) % 7]
        return (today in self.days and clock >= self.from_) or (yesterday in self.days and clock < self.until)


class Dated(Strict):
    """Between two points in time."""

    start: AwareDatetime
    end: AwareDatetime
    why: str = ""

    @model_validator(mode="after")
    def _in_order(self) -> "Dated":
        if self.start >= self.end:
            raise ValueError("end must be after start")
        return self

    def holds(self, now: datetime) -> bool:
        """Is it that time?"""
        return self.start <= now < self.end


def _kind_of(window: Any) -> str:
    return "weekly" if isinstance(window, Weekly) or (isinstance(window, dict) and "days" in window) else "dated"


Window = Annotated[Annotated[Weekly, Tag("weekly")] | Annotated[Dated, Tag("dated")], Discriminator(_kind_of)]


class Rule(Strict):
    """What covers some kinds of action on some targets. See policies/policy.yaml for the meaning of each field."""

    name: str = Field(min_length=1)
    actions: tuple[ActionKind, ...] = Field(min_length=1)
    targets: tuple[str, ...] = Field(min_length=1)
    at_most: Rung = "auto"
    max_per_hour: int = Field(default=6, ge=1)
    cool_down_s: float = Field(default=0, ge=0, le=30 * DAY_S)
    max_steps: int = Field(default=3, ge=1)
    two_persons: bool | None = Field(default=None, description="None: as risky as the plan is")
    freeze: tuple[Window, ...] = ()

    @model_validator(mode="after")
    def _waived_by_name(self) -> "Rule":
        if self.two_persons is False and any(sign in target for target in self.targets for sign in "*?["):
            raise ValueError("two_persons: false is said of targets by name, without *")
        return self

    def covers(self, kind: str, target: str) -> bool:
        """Both."""
        return kind in self.actions and any(fnmatchcase(target, pattern) for pattern in self.targets)


class Policy(Strict):
    """All rules, the first that covers counts."""

    rules: tuple[Rule, ...] = Field(min_length=1)


@dataclass(frozen=True)
class Facts:
    """Times of earlier actions on the target, and whether this plan passed its rehearsal."""

    actions: tuple[datetime, ...] = ()
    rehearsed: bool = False


@dataclass(frozen=True)
class Verdict:
    """`refuse` or a rung, by which rules, and why. `people` must approve; nothing may be applied before `not_before`."""

    rung: Rung | Literal["refuse"]
    rule: str
    reasons: tuple[str, ...]
    people: int = 1
    not_before: datetime | None = None


def decide(policy: Policy, target: Target, plan: Plan, facts: Facts, now: datetime) -> Verdict:
    """The strictest rung of all steps, or refused with every reason."""
    kinds = list(dict.fromkeys(step.action.kind for step in plan.steps))
    found = {kind: next((rule for rule in policy.rules if rule.covers(kind, target.name)), None) for kind in kinds}
    rules = [rule for rule in dict.fromkeys(found.values()) if rule]
    names = ", ".join(rule.name for rule in rules) or "none"
    refused = plan_faults(target, plan)
    refused += [f"no rule covers {kind} on {target.name}" for kind, rule in found.items() if rule is None]
    if refused:
        return Verdict("refuse", names, tuple(refused))
    two = (rule.two_persons or (rule.two_persons is None and RISK[kind] == "high") for kind, rule in found.items() if rule)
    people = 2 if any(two) else 1
    rung, reasons = _rung(target, found, facts, people)
    limits = tuple(reason for rule in rules for reason in _limits(rule, plan, facts, now))
    if rung in ("observe", "suggest"):
        return Verdict(rung, names, reasons + limits)
    if limits:
        return Verdict("refuse", names, limits)
    cool_down = timedelta(seconds=max(rule.cool_down_s for rule in rules))
    not_before = max(facts.actions) + cool_down if facts.actions else None
    return Verdict(rung, names, reasons, people, not_before)


def _rung(target: Target, found: dict[ActionKind, Rule | None], facts: Facts, people: int) -> tuple[Rung, tuple[str, ...]]:
    caps: list[tuple[Rung, str]] = []
    for kind, rule in found.items():
        own = target.autonomy.actions.get(kind, target.autonomy.default)
        caps.append((own, f"the target's autonomy for {kind} is {own}"))
        if rule and rule.at_most != "auto":
            caps.append((rule.at_most, f"rule {rule.name} allows {kind} at most by {rule.at_most}"))
    if not facts.rehearsed and not set(found) <= set(target.autonomy.unrehearsed):
        caps.append(("approve", "the plan was not rehearsed"))
    if people > 1:
        caps.append(("approve", "two people must approve"))
    strictest = min((rung for rung, _ in caps), key=RUNGS.index)
    return strictest, tuple(why for rung, why in caps if rung == strictest)


def _limits(rule: Rule, plan: Plan, facts: Facts, now: datetime) -> list[str]:
    recent = [at for at in facts.actions if now - at < timedelta(hours=1)]
    found = [f"freeze of rule {rule.name}: {window.why or 'no actions now'}" for window in rule.freeze if window.holds(now)]
    if len(recent) >= rule.max_per_hour:
        found.append(f"rule {rule.name} allows {rule.max_per_hour} actions per hour on a target, {len(recent)} were done")
    if len(plan.steps) > rule.max_steps:
        found.append(f"rule {rule.name} allows {rule.max_steps} steps in a plan, this one has {len(plan.steps)}")
    return found


def plan_faults(target: Target, plan: Plan) -> list[str]:
    """Why no policy could allow this plan on this target."""
    found = [f"the plan is for {plan.target}"] if plan.target != target.name else []
    edits = [(step.action.file, step.action.key) for step in plan.steps if isinstance(step.action, SetConfig)]
    found += ["a key is set twice"] if len(set(edits)) < len(edits) else []
    starts = [step for step in plan.steps if isinstance(step.action, Restart | RollbackRelease)]
    found += ["more than one restart or release change"] if len(starts) > 1 else []
    alone = len(plan.steps) == 1 or not any(isinstance(step.action, PatchCode) for step in plan.steps)
    found += [] if alone else ["code is patched by a plan of its own"]
    return found + [f"step {index + 1}: {why}" for index, step in enumerate(plan.steps) if (why := _step_fault(target, step))]


def _step_fault(target: Target, step: Step) -> str:
    action, known = step.action, step.precondition
    match action:
        case SetConfig():
            return _edit_fault(target, action) or ("" if known.config_digest else "has no digest of the file as precondition")
        case RollbackRelease() if action.release not in target.runtime.releases:
            return f"release {action.release} is not one of the target's: {', '.join(target.runtime.releases)}"
        case Reload() if not (target.runtime.reload_url or target.runtime.reload_signal):
            return "reload is not supported by this target's runtime"
        case PatchCode():
            return _patch_fault(target, action) or ("" if known.release and known.instance else "has not release and instance")
        case Restart() if not known.instance:
            return "has no instance as precondition"
        case Reload() | RollbackRelease() | Restart():
            return "" if known.release or known.instance else "has neither release nor instance as precondition"
        case _:
            return f"{action.kind} is not supported by this target's runtime"


def _patch_fault(target: Target, action: PatchCode) -> str:
    if "patch_code" not in target.autonomy.actions:
        return "code is patched only where the target's autonomy.actions names patch_code"
    if not isinstance(target.runtime, DockerRuntime) or not target.runtime.source:
        return "code is patched only in a container whose runtime.source is named"
    if not target.repository or not target.tests:
        return "code is patched only where the target names its repository and tests"
    return "" if action.job and action.files else "names neither the job that proves it nor what it changes"


def _edit_fault(target: Target, action: SetConfig) -> str:
    config = target.config(action.file)
    if config is None:
        return f"the target has no configuration file {action.file!r}"
    bounds = config.editable.get(action.key)
    if bounds is None:
        return f"{action.key!r} is not an editable key of {action.file}"
    if target.source_of_truth == "git":
        return "git owns the configuration: it is changed by a commit only"
    return _out_of_bounds(bounds, action.value, action.key)


def _out_of_bounds(bounds: Bounds, value: Scalar, key: str) -> str:
    kinds: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "bool": (bool,), "str": (str,)}
    if not isinstance(value, kinds[bounds.type]) or (isinstance(value, bool) and bounds.type != "bool"):
        return f"{key} must be of type {bounds.type}, is {value!r}"
    if bounds.choices and str(value) not in bounds.choices:
        return f"{key} must be one of {', '.join(bounds.choices)}, is {value!r}"
    low, high = bounds.min, bounds.max
    if isinstance(value, int | float) and ((low is not None and value < low) or (high is not None and value > high)):
        return f"{key} must be from {low} to {high}, is {value!r}"
    return ""
