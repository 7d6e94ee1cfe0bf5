"""Plans for defect jobs: one search is one attempt."""

from collections.abc import Sequence

from autopatch.chassis.chassis import Chassis
from autopatch.chassis.llm.ledger import Ledger
from autopatch.chassis.llm.port import Llm
from autopatch.chassis.room import Heard
from autopatch.chassis.telemetry import span
from autopatch.contract import events as ev
from autopatch.contract.evidence import ModelUse
from autopatch.contract.lifecycle import Incident
from services.planner import agent
from services.planner.adapters.gate.case import Case, load
from services.planner.adapters.gate.proposing import Outcome, told
from services.planner.adapters.gate.tally import lines
from services.planner.adapters.synthesis.prompting import Prompts
from services.planner.adapters.synthesis.search import Means, Search
from services.planner.settings import Settings

KEPT = 100  # incidents, the newest
ATTEMPTS = 3
"""Never more, whatever is set."""


class Defects:
    """What the planner does with incidents that are jobs."""

    def __init__(self, settings: Settings, chassis: Chassis) -> None:
        self._settings = settings
        self._chassis = chassis
        self._prompts = Prompts()
        self._spent: dict[str, tuple[int, tuple[ModelUse, ...]]] = {}

    async def plan(self, heard: Heard, llm: Llm | None) -> Sequence[ev.Event]:
        """Raises Unavailable, RetryLater when sandbox or model are away: nothing is decided, but what was spent stays spent."""
        incident, failed = heard.incident, agent.failures(heard.incident)
        if incident.attempts >= min(ATTEMPTS, self._settings.max_attempts):
            return (agent.gave_up(failed).model_copy(update={"kind": "no_fix_found"}),)
        case = await load(self._chassis, incident, failed)
        outcome, use = await self.search(case, llm)
        return (await told(self._chassis, case, outcome, use),)

    async def search(self, case: Case, llm: Llm | None) -> tuple[Outcome, ModelUse]:
        """The fix, if there is one, and what this search took and those that were broken off. Raises as `plan` does."""
        incident, settings = case.incident, self._settings
        earlier = self.untold(incident)
        budget = Ledger.of(incident, settings.llm.limits, earlier=earlier)
        try:
            with span("find a fix", failed_before=len(case.failures), tests_failing=len(case.baseline.failing)) as current:
                outcome = await Search(case, Means.of(settings, self._chassis, llm, budget, self._prompts)).run()
                current.set_attribute("alternatives.rejected", lines(outcome.tally.rejected))
        finally:
            if budget.entries:
                newest = dict([*self._spent.items()][-KEPT:])
                self._spent = {**newest, incident.id: (len(incident.model_uses), (*earlier, budget.use()))}
        use = ModelUse.summed(self.untold(incident))
        return outcome, use or ModelUse(mode=llm.mode if llm else "off", note="the model was not asked")

    def untold(self, incident: Incident) -> tuple[ModelUse, ...]:
        """What searches for it took that no event on its log tells of yet."""
        told_before, uses = self._spent.get(incident.id, (0, ()))
        if uses and told_before != len(incident.model_uses):
            del self._spent[incident.id]
            return ()
        return uses
