"""The funnel: a lesson, single edits, the model; and from the best that healed a part of the tests once more."""

from dataclasses import dataclass

from autopatch.chassis.chassis import Chassis
from autopatch.chassis.llm.ledger import Ledger
from autopatch.chassis.llm.port import Llm
from autopatch.chassis.room import RetryLater
from autopatch.contract.errors import Unavailable
from services.planner.adapters.sources.lessons import recalled
from services.planner.adapters.sources.similar import similar
from services.planner.adapters.synthesis import templates
from services.planner.adapters.gate.candidate import Tried, key_of
from services.planner.adapters.gate.case import Case, Ground
from services.planner.adapters.gate.choosing import Ranked, left_to_a_person, ranked
from services.planner.adapters.gate.proposing import Outcome
from services.planner.adapters.gate.trials import Gate
from services.planner.adapters.synthesis.prompting import Prompts, Size
from services.planner.adapters.gate.tally import Tally
from services.planner.adapters.synthesis.writer import Writer
from services.planner.settings import Settings

ROUNDS = 3
MODEL_AWAY_S = 30.0
"""Every try begins with the lessons and edits that healed nothing before."""
OWN_TIMES = 20
"""The time budget of single edits grows with the failing tests' own time, so many times."""


@dataclass(frozen=True)
class Means:
    """What a search may use. `templates_s`: seconds for single edits beside the tests' own, `later_s`: for more of them after a
    model that healed nothing; `llm` is None in mode off."""

    chassis: Chassis
    llm: Llm | None
    budget: Ledger
    prompts: Prompts
    size: Size
    templates_s: float
    later_s: float

    @classmethod
    def of(cls, settings: Settings, chassis: Chassis, llm: Llm | None, budget: Ledger, prompts: Prompts) -> "Means":
        """As set."""
        alone = settings.templates_alone_s
        first = alone if llm is None else min(settings.templates_s, alone)
        return cls(chassis, llm, budget, prompts, Size.of(settings), first, alone - first)


class Search:
    """One attempt at one case."""

    def __init__(self, case: Case, means: Means) -> None:
        self._case = case
        self._means = means
        self._gate = Gate(means.chassis, case)
        self._tally = Tally(len(case.baseline.failing))
        self._reached: set[str] = set()
        self._writer = None if means.llm is None else Writer(
            means.llm, case, self._gate, self._tally, means.budget, means.prompts, means.size
        )

    async def run(self) -> Outcome:
        """Raises Unavailable, or once the model was asked RetryLater, when sandbox or model are away and nothing was found."""
        found = await self._of_lessons()
        found = found if found.order else await self._edited()
        if self._writer is not None and (found.weak or not found.order):
            found = await self._written(self._writer, found)
            found = found if found.order else await self._edited_later()
        if found.doubtful:
            found = left_to_a_person(found, self._tally)
        return Outcome(found, self._tally, self._writer is not None and self._writer.speechless)

    async def _of_lessons(self) -> Ranked:
        allowed = []
        for candidate in await recalled(self._means.chassis, self._case, self._tally):
            again = key_of(candidate.changes) in self._case.failed
            refused = "it was tried in this incident and failed" if again else self._gate.refused(candidate)
            if refused:
                self._tally.reject(candidate, refused)
            else:
                allowed.append(candidate)
        tried = await self._gate.screen(allowed) if allowed else []
        return Ranked(tuple(self._tally.sift(await self._gate.confirm(self._tally.sift(tried)))))

    async def _edited(self) -> Ranked:
        """Single edits; then upon the one that came nearest, as long as that helps."""
        budget_s = self._means.templates_s + OWN_TIMES * self._gate.own_s
        ground: Ground | None = Ground.of(self._case)
        for reached in (self._reached, *(set[str]() for _ in range(1, ROUNDS))):
            if ground is None:
                break
            edits = await self._edits(ground, budget_s, reached)
            budget_s = max(budget_s, (self._means.templates_s + self._means.later_s) / 2)  # what healed a part is worth more time
            if edits:
                return await ranked(self._case, self._gate, edits)
            ground = await self._nearer(ground)
        return Ranked()

    async def _edited_later(self) -> Ranked:
        """Those that the time before the model did not reach: with a model no fewer are tried than without."""
        edits = await self._edits(Ground.of(self._case), self._means.later_s, self._reached)
        return await ranked(self._case, self._gate, edits)

    async def _edits(self, ground: Ground, budget_s: float, reached: set[str]) -> list[Tried]:
        clock = self._means.chassis.clock
        return await templates.search(self._case, ground, self._gate, self._tally, clock, budget_s, reached)

    async def _written(self, writer: Writer, found: Ranked) -> Ranked:
        """Asked when edits heal nothing, or when what they heal may well fit the visible tests only."""
        ground: Ground | None = Ground.of(self._case)
        alike = await similar(self._means.chassis, self._case)
        for _ in range(ROUNDS):
            if ground is None:
                break
            try:
                written = await writer.offer(ground, alike)
            except Unavailable as error:
                if not found.order:
                    raise RetryLater(MODEL_AWAY_S, on=error.service, reason=error.reason) from error
                self._tally.notes.append(f"the model was not asked: {error}")
                return found
            if written or found.order:
                return await ranked(self._case, self._gate, [*found.order, *written]) if written else found
            ground = await self._nearer(ground)
        return found

    async def _nearer(self, ground: Ground) -> Ground | None:
        """The best that left fewer tests failing than this ground has, if it broke none; None: another round would not help."""
        best = self._tally.best
        if best is None or not best.failing < ground.failing:
            return None
        [checked] = await self._gate.confirm([best]) or [best]
        if not checked.whole or not checked.failing < ground.failing:
            return None
        candidate = checked.candidate
        return ground.with_change(self._case, candidate.changes, checked.failing, checked.report, candidate.description)
