"""Where plans come from: sources that are asked in order, each with the same question."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from autopatch.contract.actions import Action
from autopatch.contract.events import Diagnosed
from autopatch.contract.evidence import ModelUse, TargetState
from autopatch.contract.lifecycle import Incident
from autopatch.contract.plan import Alternative, Basis, Plan
from autopatch.contract.requests import Recalled
from autopatch.contract.target import Target


@dataclass(frozen=True)
class Failure:
    """An attempt of this incident that did not work, and what was seen."""

    plan: Plan
    why: str


@dataclass(frozen=True)
class Question:
    """Everything that a source may look at. `recalled` is by cause, likeliest first; `signal` is the check that is red."""

    incident: Incident
    target: Target
    state: TargetState
    diagnosed: Diagnosed
    signal: str
    recalled: Mapping[str, Recalled] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()


@dataclass(frozen=True)
class Candidate:
    """What a source would do. It becomes a plan only if the target's bounds, its state and earlier failures allow."""

    cause: str
    actions: tuple[Action, ...]
    basis: Basis


@dataclass(frozen=True)
class Offer:
    """Candidates, best first, and what a source itself turned down. `model` says what asking one took; None: none was asked."""

    candidates: tuple[Candidate, ...]
    model: ModelUse | None = None
    rejected: tuple[Alternative, ...] = ()


class PlanSource(Protocol):
    """One way to come to a plan."""

    async def offer(self, question: Question) -> Offer:
        """No candidates: the next source is asked. Raises Unavailable when it cannot be said."""
        ...
