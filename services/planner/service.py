"""Wires the planner: what happened, what knowledge recalls, what the target is now; then the first source whose plan fits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from autopatch.chassis.chassis import Chassis
from autopatch.chassis.llm import cores
from autopatch.chassis.llm.factory import build as build_llm
from autopatch.chassis.llm.port import Llm
from autopatch.chassis.llm.settings import Mode
from autopatch.chassis.room import Heard, Reject, Room
from autopatch.chassis.telemetry import span
from autopatch.contract import events as ev
from autopatch.contract.errors import Unavailable
from autopatch.contract.evidence import ModelUse, TargetState
from autopatch.contract.lifecycle import Incident, State
from autopatch.contract.plan import Alternative, Plan
from autopatch.contract.requests import Inspect, Recall, Recalled
from autopatch.contract.target import Target
from services.planner import agent
from services.planner.adapters.code.source import CodeSource
from services.planner.adapters.model import ModelSource
from services.planner.binding import bind
from services.planner.defects import Defects
from services.planner.ports import Offer, PlanSource, Question
from services.planner.settings import Settings
from services.planner.sources import LessonSource, RunbookSource


def build(settings: Settings, chassis: Chassis, *, source: PlanSource | None = None, llm: Llm | None = None) -> Room:
    """The room. Tests pass a `source` that takes the place of all others, or a model. Raises OperatorError."""
    planner = Planner(settings, chassis, source, llm)
    return Room(
        name="planner", handlers=dict.fromkeys((ev.Diagnosed, ev.RehearsalFailed, ev.RolledBack, ev.Stale), planner.plan),
        on_start=(planner.start,), on_stop=(planner.stop,),
    )


@dataclass
class Choice:
    """The plan that was taken, if any, what asking took, in vain too, and what was turned down."""

    plan: Plan | None = None
    spent: list[ModelUse] = field(default_factory=list)
    rejected: list[Alternative] = field(default_factory=list)


class Planner:
    """The handler."""

    def __init__(self, settings: Settings, chassis: Chassis, source: PlanSource | None, llm: Llm | None) -> None:
        self._settings, self._chassis, self._source, self._llm = settings, chassis, source, llm
        self._defects = Defects(settings, chassis)

    async def start(self) -> None:
        """Makes the model, when the settings name one."""
        if self._llm is None and self._settings.llm.mode != "off":
            bucket = await cast(Any, self._chassis).leases.kv()
            self._llm = build_llm(self._settings.llm, cores=cores.LeasedCores(cores.KvStore(bucket)))

    async def stop(self) -> None:
        """Closes what was opened."""
        if self._llm:
            await self._llm.close()

    async def plan(self, heard: Heard) -> Sequence[ev.Event]:
        """Raises Unavailable when knowledge, the executor or the model is missing: nothing is planned without having asked."""
        incident = heard.incident
        if incident.state is not State.DIAGNOSED:
            return ()
        failed, stale = agent.failures(incident), agent.stale_in_a_row(incident)
        if isinstance(heard.event, ev.Stale) and stale > self._settings.max_stale:
            return (agent.kept_changing(stale, heard.event.reason),)
        if incident.opened.job is not None:
            return await self._defects.plan(heard, self._llm)
        if incident.attempts >= self._settings.max_attempts:
            return (agent.gave_up(failed),)
        target, diagnosed, signal = self._facts(incident)
        if not agent.may_act(target.autonomy):
            return (agent.observed(diagnosed),)
        state = await self._chassis.asker.ask(Inspect(target=target.name), TargetState)
        recalled = await self._recall(incident, diagnosed)
        return (await self._decided(Question(incident, target, state, diagnosed, signal, recalled, failed)),)

    async def _decided(self, question: Question) -> ev.Event:
        with span("choose a plan", failed_before=len(question.failures)) as current:
            choice = await self._choose(question)
            current.set_attribute("alternatives.rejected", [f"{a.summary}: {a.why_not}" for a in choice.rejected])
            spent = ModelUse.summed([*self._defects.untold(question.incident), *choice.spent])
            if choice.plan is None:
                return agent.no_plan(question, choice.rejected, self._mode, spent)
            plan = agent.with_rejected(choice.plan, choice.rejected)
            current.set_attribute("plan.hash", plan.hash)
            current.set_attribute("plan.summary", plan.summary)
            current.set_attribute("plan.basis", f"{plan.basis.kind} {plan.basis.ref}")
            current.set_attribute("plan.risk", plan.risk)
        if agent.only_observes(plan, question.target.autonomy):
            return agent.observed(question.diagnosed, plan)
        note = f"{plan.basis.kind} {plan.basis.ref}: the model was not asked"
        return ev.Planned(plan=plan, plan_hash=plan.hash, model=spent or ModelUse(mode=self._mode, note=note))

    async def _choose(self, question: Question) -> Choice:
        choice = Choice()
        for source in self._sources():
            offer = await source.offer(question)
            choice.rejected += offer.rejected
            choice.spent += [offer.model] if offer.model else []
            self._take(question, offer, choice)
            if choice.plan is not None:
                break
        return choice

    def _take(self, question: Question, offer: Offer, choice: Choice) -> None:
        """The first candidate that binds; the others are told as what was not needed."""
        for candidate in offer.candidates:
            bound = bind(question, candidate)
            if isinstance(bound, Alternative):
                choice.rejected.append(bound)
            elif choice.plan is None:
                choice.plan = bound
            else:
                what = f"{bound.summary} ({bound.basis.kind} {bound.basis.ref})"
                why = f"{choice.plan.basis.kind} {choice.plan.basis.ref} came first"
                choice.rejected.append(Alternative(summary=what, why_not=why))

    def _sources(self) -> Sequence[PlanSource]:
        if self._source is not None:
            return (self._source,)
        code = CodeSource(self._chassis, lambda case: self._defects.search(case, self._llm))
        asked: list[PlanSource] = [LessonSource(), RunbookSource(), code]
        if self._llm is not None:
            asked.append(ModelSource(self._llm, self._settings.llm.limits, self._settings.prompt_tokens, self._defects.untold))
        return asked

    async def _recall(self, incident: Incident, diagnosed: ev.Diagnosed) -> Mapping[str, Recalled]:
        """What knowledge has for every cause, likeliest first."""
        alertname = incident.opened.alert.alertname if incident.opened.alert else ""
        found: dict[str, Recalled] = {}
        with span("retrieval lessons and runbooks") as current:
            for cause in diagnosed.causes:
                question = Recall(
                    signature=diagnosed.signature, target=incident.target, cause=cause.id, alertname=alertname
                )
                found[cause.id] = await self._chassis.asker.ask(question, Recalled)
            current.set_attribute("gen_ai.operation.name", "retrieval")
            current.set_attribute("retrieval.lessons", [lesson.id for r in found.values() for lesson in r.lessons])
            current.set_attribute("retrieval.runbooks", [book.name for r in found.values() for book in r.runbooks])
            current.set_attribute("retrieval.withheld", [why for r in found.values() for why in r.withheld])
        return found

    def _facts(self, incident: Incident) -> tuple[Target, ev.Diagnosed, str]:
        target = self._chassis.targets.get(incident.target)
        if target is None:
            raise Unavailable("target", f"no target file is named {incident.target!r}", tip="put it back into the folder")
        diagnosed, reproduced = incident.last(ev.Diagnosed), incident.last(ev.Reproduced)
        if diagnosed is None or reproduced is None:
            raise Reject(f"incident {incident.id} has no diagnosis of a measured check")
        if reproduced.signal not in target.signals:
            missing = f"{target.name} has no signal {reproduced.signal!r} any more"
            raise Unavailable("target", missing, tip="put it back into its file")
        return target, diagnosed, reproduced.signal

    @property
    def _mode(self) -> Mode:
        return self._llm.mode if self._llm else "off"
