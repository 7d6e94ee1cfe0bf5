"""Parts that tests put in the place of a room's own: sources of plans, rehearsals, a store that can be away."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from autopatch.chassis.prometheus import Prometheus, Result
from autopatch.chassis.sources import PrometheusSources
from autopatch.contract.actions import Action, Reload, Restart, SetConfig
from autopatch.contract.errors import Unavailable
from autopatch.contract.evidence import Rehearsal, RehearsalRun
from autopatch.contract.plan import Basis, Plan
from autopatch.contract.target import Target
from services.knowledge.ports import Store
from services.planner.ports import Candidate, Offer, Question
from tests.flow.hands import Gate
from tests.flow.world import ENOUGH


def sized(config: bytes, size: int) -> bytes:
    """The same file with another pool size, and nothing else changed."""
    return re.sub(rb'("pool_size": )\d+', lambda m: m.group(1) + str(size).encode(), config)


def resize(size: int) -> tuple[Action, ...]:
    """What a plan does to the pool."""
    return (SetConfig(file="config", key="database.pool_size", value=size), Reload())


@dataclass
class ScriptedPlans:
    """Offers pool sizes one after the other, as a person might who is told what went wrong before; 0: a restart."""

    sizes: Sequence[int]
    gate: Gate | None = None
    heard: list[Question] = field(default_factory=list)

    async def offer(self, question: Question) -> Offer:
        """One candidate."""
        if self.gate:
            await self.gate.enter()
        self.heard.append(question)
        size = self.sizes[min(len(question.failures), len(self.sizes) - 1)]
        basis = Basis(kind="person", ref="the test", why="scripted")
        actions = resize(size) if size else (Restart(),)
        return Offer((Candidate(question.diagnosed.causes[0].id, actions, basis),))


@dataclass
class ScriptedRehearsal:
    """Green when the planned pool is large enough. `always`: whatever is planned."""

    always: bool = False
    away: bool = False
    gate: Gate | None = None

    async def __call__(self, target: Target, plan: Plan, release: str) -> Rehearsal:
        """Raises Unavailable while the engine is away."""
        if self.away:
            raise Unavailable("docker", "the engine does not answer")
        if self.gate:
            await self.gate.enter()
        sizes = [s.action.value for s in plan.steps if isinstance(s.action, SetConfig)]
        good = self.always or all(isinstance(size, int) and size >= ENOUGH for size in sizes)
        runs = (_run("unchanged", False), _run("changed", good))
        reason = "" if good else "the plan does not help in the rehearsal: the changed copy is still red"
        return Rehearsal(runs=runs, passed=good, reason=reason, diff=f"-10 +{sizes[0] if sizes else ''}")


def _run(label: Any, good: bool) -> RehearsalRun:
    return RehearsalRun(
        label=label, outcome="green" if good else "red", exit_code=0 if good else 1, seconds=0.1,
        figures={"p95_s": 0.1 if good else 2.0}, runtime="scripted",
    )


class Switched:
    """A store that is away while `up` is false."""

    def __init__(self, store: Store) -> None:
        self.up = True
        self._store = store

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def call(*given: Any, **named: Any) -> Any:
            if not self.up and name != "close":
                raise Unavailable("qdrant", "it does not answer")
            return await getattr(self._store, name)(*given, **named)

        return call


@dataclass
class GatedSources:
    """The Prometheus of each target, behind a gate."""

    gate: Gate
    behind: PrometheusSources = field(default_factory=PrometheusSources)

    def of(self, target: Target) -> "GatedMetrics":
        """As PrometheusSources."""
        return GatedMetrics(self.gate, self.behind.of(target))

    async def aclose(self) -> None:
        """As PrometheusSources."""
        await self.behind.aclose()


@dataclass
class GatedMetrics:
    """One of them."""

    gate: Gate
    behind: Prometheus

    async def query(self, *given: Any, **named: Any) -> Result:
        """As Prometheus."""
        await self.gate.enter()
        return await self.behind.query(*given, **named)

    async def query_range(self, *given: Any, **named: Any) -> Result:
        """As Prometheus."""
        await self.gate.enter()
        return await self.behind.query_range(*given, **named)
