"""Wires the diagnosis: facts, ranking, and a model's second opinion where there is one and it is needed."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from autopatch.chassis.chassis import Chassis
from autopatch.chassis.llm import cores
from autopatch.chassis.llm.errors import BudgetSpent, PromptTooLong, Unreadable
from autopatch.chassis.llm.factory import build as build_llm
from autopatch.chassis.llm.ledger import Ledger
from autopatch.chassis.llm.port import Llm
from autopatch.chassis.llm.prompt import PromptFile
from autopatch.chassis.llm.settings import Mode
from autopatch.chassis.probe import HttpHealth
from autopatch.chassis.room import Heard, Reject, Room
from autopatch.chassis.sources import PrometheusSources
from autopatch.chassis.telemetry import span
from autopatch.contract import events as ev
from autopatch.contract.errors import Unavailable
from autopatch.contract.target import Target
from services.diagnosis import agent, causes, wording
from services.diagnosis.adapters.defects.localise import Localiser
from services.diagnosis.adapters.sources.collect import Collector
from services.diagnosis.adapters.sources.git import GitHistory
from services.diagnosis.agent import Draft
from services.diagnosis.ports import Health, History, Sources
from services.diagnosis.settings import Settings

HERE = Path(__file__).parent
CAUSES = HERE / "causes"


def build(
    settings: Settings, chassis: Chassis, *, sources: Sources | None = None, history: History | None = None,
    health: Health | None = None, llm: Llm | None = None,
) -> Room:
    """The diagnosis on real parts, or on those that are given. Raises OperatorError when a cause or the prompt cannot be read."""
    room = Diagnosis(
        settings, chassis, sources or PrometheusSources(), history or GitHistory(settings.git_timeout_s),
        health or HttpHealth(settings.health_timeout_s), llm,
    )
    return Room(name="diagnosis", handlers={ev.Reproduced: room.diagnose}, on_start=(room.start,), on_stop=(room.stop,))


class Diagnosis:
    """The handler."""

    def __init__(
        self, settings: Settings, chassis: Chassis, sources: Sources, history: History, health: Health, llm: Llm | None
    ) -> None:
        self.settings = settings
        self.chassis = chassis
        self.sources = sources
        self.history = history
        self.health = health
        self.llm = llm
        self.localiser = Localiser(chassis, self._mode)
        self.rules = causes.load(CAUSES)
        self.prompt = PromptFile.read(HERE / "prompts" / "rank.md")

    async def start(self) -> None:
        """Makes the clients before the first alert, and the model when the settings name one."""
        for target in self.chassis.targets.all():
            with suppress(Unavailable):
                self.sources.of(target)
        if self.llm is None and self.settings.llm.mode != "off":
            bucket = await cast(Any, self.chassis).leases.kv()
            self.llm = build_llm(self.settings.llm, cores=cores.LeasedCores(cores.KvStore(bucket)))

    async def stop(self) -> None:
        """Closes what was opened."""
        await self.sources.aclose()
        await self.health.aclose()
        if self.llm:
            await self.llm.close()

    async def diagnose(self, heard: Heard) -> Sequence[ev.Event]:
        """Facts first, then the ranking, then, where something is open, the model."""
        incident, event = heard.incident, heard.event
        if incident.opened.job:
            return await self.localiser.diagnose(heard)
        target = self._target(incident.target)
        if not isinstance(event, ev.Reproduced) or event.signal not in target.signals:
            raise Reject(f"target {target.name} has no signal that was measured for incident {incident.id}")
        collector = Collector(
            self.settings, target, incident.opened, event.signal, self.sources.of(target), self.chassis.asker, self.history,
            self.health, self.chassis.clock.now(), rules=[rule.id for rule in self.rules],
        )
        facts = await collector.facts()
        with span("rank causes") as opened:
            ranked, own = causes.rank(facts, self.rules), self.settings
            found = agent.draft(facts, ranked, min_shown=own.min_shown, shown=own.shown, margin=own.margin)
            opened.set_attribute("causes", [f"{r.rule.id} {r.confidence:.2f} ({', '.join(r.signs)})" for r in ranked])
            opened.set_attribute("missing", list(found.missing))
        budget = Ledger.of(incident, self.settings.llm.limits)
        if not found.causes or found.causes[0].confidence < self.settings.min_confidence:
            if "lessons" in facts.failed:
                raise Unavailable("knowledge", f"nothing stands out without it: {facts.failed['lessons']}")
            use = budget.use(mode=self._mode(), note="nothing stands out, so there was nothing to ask a model")
            return (agent.abstained(found, self.settings.min_confidence, use),)
        return (await self._explained(found, budget),)

    async def _explained(self, found: Draft, budget: Ledger) -> ev.Diagnosed:
        if self.llm is None:
            return agent.concluded(found, agent.explained(found), budget.use(note="no model"))
        if known := agent.known(found):
            settled = agent.reordered(found, [known.cause])
            use = budget.use(mode=self._mode(), note=f"known fault: lesson {known.id}, the model was not asked")
            return agent.concluded(settled, agent.explained(settled), use)
        try:
            asked = wording.prompt(self.prompt, found, self.settings.prompt_tokens)
            decision = await self.llm.decide(asked, wording.answer_for(found), incident=budget.incident, budget=budget)
        except (Unavailable, Unreadable, BudgetSpent, PromptTooLong) as error:
            use = budget.use(mode=self._mode(), note=f"the ranking is the computed one: {error}"[:500])
            return agent.concluded(found, agent.explained(found), use)
        settled, explanation = wording.taken(found, decision.answer)
        return agent.concluded(settled, explanation, decision.use)

    def _mode(self) -> Mode:
        return self.llm.mode if self.llm else "off"

    def _target(self, name: str) -> Target:
        if found := self.chassis.targets.get(name):
            return found
        raise Unavailable("target", f"no target file is named {name!r}", tip="put it back into the folder")
