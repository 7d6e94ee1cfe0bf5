"""Causes as data: what each looks like in the facts, and how much each sign weighs. Confidence is computed here and nowhere else.

Confidence is a noisy-or: with signs of weight w (0 to 1) seen with strength s (0 to 1) it is 1 - product(1 - w*s), each sign
against it multiplies by (1 - w*s), and nothing is ever surer than CAP. A weight is the share of incidents with that sign, alone,
in which the cause was right; two independent signs of one half thus give three quarters.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from autopatch.chassis.yaml_text import parsed
from autopatch.contract.errors import OperatorError
from services.diagnosis.facts import ChangeKind, Facts, Novelty, Raised, Shift

CAP = 0.95
MEMORY_WEIGHT = 0.15
"""A similar incident of the past had this cause."""
LESSON_WEIGHT = 0.4
"""This target's same check recovered before, on live signals, by a fix for this cause."""
RUNBOOK_WEIGHT = 0.5
"""A person wrote down that this alert has this cause; shared among all causes that runbooks give for the alert."""


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _compiled(patterns: tuple[str, ...]) -> tuple[str, ...]:
    for pattern in patterns:
        re.compile(pattern)
    return patterns


Patterns = Annotated[tuple[str, ...], AfterValidator(_compiled)]


class MetricSign(_Strict):
    """A number whose name and query match one of `any` and that moved. `role` narrows it to one role of the target's signals."""

    any: Patterns = (".",)
    moved: Literal["up", "down", "either"] = "up"
    role: Literal["", "check", "guard", "traffic"] = ""
    unless: Patterns = ()

class LogSign(_Strict):
    """A kind of line that matches one of `any` and is new or more frequent since the onset."""

    any: Patterns
    novelty: tuple[Novelty, ...] = ("new", "grown")
    severe: bool | None = None

class RaisedSign(_Strict):
    """An exception whose traceback leads into the target's own source, unless it matches one of `unless`."""

    unless: Patterns = ()

class Sign(_Strict):
    """One thing to look for; exactly one of the kinds is given."""

    weight: float = Field(gt=0, le=1)
    metric: MetricSign | None = None
    log: LogSign | None = None
    change: tuple[ChangeKind, ...] = ()
    saturated: Patterns = Field(default=(), description="patterns over the names of a used-up resource")
    raised: RaisedSign | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> "Sign":
        kinds = [bool(k) for k in (self.metric, self.log, self.change, self.saturated, self.raised)]
        if sum(kinds) != 1:
            raise ValueError("exactly one of metric, log, change, saturated, raised")
        return self


class CauseRule(_Strict):
    """One file of `causes/`. It is considered when of every group in `needs` a sign is seen, or a person or lesson names it."""

    id: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    summary: str
    signs: dict[str, Sign] = Field(min_length=1)
    against: dict[str, Sign] = Field(default_factory=dict)
    needs: tuple[tuple[str, ...], ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _needs_are_signs(self) -> "CauseRule":
        for name in (n for group in self.needs for n in group):
            if name not in self.signs:
                raise ValueError(f"needs names {name!r}, which is not one of signs")
        return self


@dataclass(frozen=True)
class Match:
    """A sign that was seen: how strongly, and the facts that show it (keys of `agent.evidence_of`)."""

    strength: float
    facts: tuple[str, ...]


@dataclass(frozen=True)
class Ranked:
    """A cause with its computed confidence and the keys of the facts that speak for it, the strongest first."""

    rule: CauseRule
    confidence: float
    facts: tuple[str, ...]
    signs: tuple[str, ...]


def load(folder: Path) -> tuple[CauseRule, ...]:
    """All rules of a folder. Raises OperatorError naming file and field."""
    rules = [_read(path) for path in sorted(folder.glob("*.yaml"))]
    if len({rule.id for rule in rules}) < len(rules):
        raise OperatorError(f"{folder}: two causes have the same id", tip="rename one")
    return tuple(rules)


def _read(path: Path) -> CauseRule:
    try:
        return CauseRule.model_validate(parsed(path.read_text("utf-8"), f"cause {path}"))
    except (OSError, UnicodeDecodeError) as error:
        raise OperatorError(f"cause {path}: {error}") from error
    except (ValidationError, re.error) as error:
        raise OperatorError(f"cause {path}: {_first(error)}") from error


def _first(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    fault = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(str(p) for p in fault['loc'])}: {fault['msg']}"


def rank(facts: Facts, rules: Sequence[CauseRule]) -> tuple[Ranked, ...]:
    """Every cause that is considered, the likeliest first."""
    found = [ranked for rule in rules if (ranked := _weigh(facts, rule))]
    return tuple(sorted(found, key=lambda r: (-r.confidence, r.rule.id)))


def _weigh(facts: Facts, rule: CauseRule) -> Ranked | None:
    signs = {name: match for name, sign in rule.signs.items() if (match := look(facts, sign)).strength > 0}
    told = _told(facts, rule.id)
    if not told.keys() & {"runbook", "lesson"} and not all(any(name in signs for name in group) for group in rule.needs):
        return None
    weights = {name: rule.signs[name].weight * match.strength for name, match in signs.items()}
    weights |= {name: match.strength for name, match in told.items()}
    confidence = 1 - math.prod(1 - w for w in weights.values())
    confidence *= math.prod(1 - sign.weight * look(facts, sign).strength for sign in rule.against.values())
    seen, order = {**signs, **told}, sorted(weights, key=lambda name: -weights[name])
    cited = dict.fromkeys(fact for name in order for fact in seen[name].facts)
    return Ranked(rule, round(min(CAP, confidence), 3), tuple(cited), tuple(order))


def _told(facts: Facts, cause: str) -> dict[str, Match]:
    """What people and the past say for a cause."""
    told = {}
    if cause in facts.runbooks:
        told["runbook"] = Match(RUNBOOK_WEIGHT / len(facts.runbooks), (f"runbook:{facts.runbooks[cause].name}",))
    if cause in facts.lessons:
        told["lesson"] = Match(LESSON_WEIGHT, (f"lesson:{facts.lessons[cause].id}",))
    alike = tuple(f"similar:{s.id}" for s in facts.similar if s.kind == "incident" and re.search(rf"\b{cause}\b", s.text))
    if alike and "lesson" not in told:
        told["similar"] = Match(MEMORY_WEIGHT, alike)
    return told


def look(facts: Facts, sign: Sign) -> Match:
    """Is the sign there, and how strongly?"""
    if sign.metric:
        return _best({f"metric:{s.name}": _moved(s, sign.metric) for s in facts.shifts})
    if sign.log:
        return _best({f"log:{p.template}": _said(facts, sign.log, i) for i, p in enumerate(facts.patterns)})
    if sign.change:
        return _best({f"change:{c.kind}:{c.what}": c.strength if c.kind in sign.change else 0.0 for c in facts.changes})
    if sign.raised:
        return _best({r.key: _raised(r, sign.raised) for r in facts.raised})
    return _best({f"saturation:{s.name}": float(_any(sign.saturated, s.name)) for s in facts.saturations})


def _best(strengths: Mapping[str, float]) -> Match:
    order = sorted((k for k in strengths if strengths[k] > 0), key=lambda k: -strengths[k])
    return Match(strengths[order[0]], tuple(order[:3])) if order else Match(0.0, ())


def _moved(shift: Shift, sign: MetricSign) -> float:
    if shift.direction == "flat" or (sign.moved != "either" and shift.direction != sign.moved):
        return 0.0
    if sign.role and shift.role != sign.role:
        return 0.0
    text = f"{shift.name} {shift.query}"
    if not _any(sign.any, text) or _any(sign.unless, text):
        return 0.0
    return shift.strength * (0.7 + 0.3 * shift.tie)


def _said(facts: Facts, sign: LogSign, index: int) -> float:
    pattern = facts.patterns[index]
    if pattern.novelty not in sign.novelty or not _any(sign.any, pattern.template):
        return 0.0
    if sign.severe is not None and pattern.severe != sign.severe:
        return 0.0
    comparable = 0.6 if "logs before" in facts.failed else 1.0
    often = 1.0 if pattern.count >= 3 or pattern.novelty == "vanished" else 0.7
    return comparable * often * (1.0 if pattern.novelty == "new" else 0.9)


def _raised(one: Raised, sign: RaisedSign) -> float:
    if _any(sign.unless, one.error):
        return 0.0
    known = 1.0 if one.before == 0 else 0.9 if one.before else 0.8
    return known * (1.0 if one.count >= 3 else 0.7) * (0.6 if one.foreign else 1.0)


def _any(patterns: Sequence[str], text: str) -> bool:
    return any(re.search(pattern, text, re.IGNORECASE) for pattern in patterns)


