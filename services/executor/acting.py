"""From the claim to the effect, and back: every step is looked for before it is done, under a fence, and can be taken back."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from autopatch.chassis.chassis import Chassis
from autopatch.chassis.room import Heard
from autopatch.chassis.telemetry import annotate, span
from autopatch.contract import events as ev
from autopatch.contract.actions import describe
from autopatch.contract.errors import OperatorError, Refused, StaleTarget
from autopatch.contract.lifecycle import Incident, State
from autopatch.contract.plan import Plan, StepResult, UndoRecord
from autopatch.contract.target import Target
from services.executor import agent
from services.executor.adapters.code.offers import Offers
from services.executor.deciding import subject
from services.executor.ports import Failed, Hands

Events = Sequence[ev.Event]
T = TypeVar("T")
Work = Callable[[Incident, Hands, Plan, Sequence[UndoRecord]], Awaitable[ev.Event]]


class Acting:
    """Handlers of applying, of what makes a rollback due, of rolling_back, and of a cancellation of all that."""

    def __init__(self, chassis: Chassis, hands: Callable[[Target], Hands], offers: Offers, crash: Callable[[str], None]) -> None:
        self._chassis = chassis
        self._hands = hands
        self._offers = offers
        self._crash = crash
        self._inside: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def applying(self, heard: Heard) -> Events:
        """Act."""
        return await self._fenced(heard, State.APPLYING, self._apply)

    async def rolling_back(self, heard: Heard) -> Events:
        """Undo. Neither pause nor hold stop it, only the target's own precondition does."""
        return await self._fenced(heard, State.ROLLING_BACK, self._roll_back)

    async def undo_due(self, heard: Heard) -> Events:
        """Claim the rollback."""
        event = heard.event
        reason = event.reason if isinstance(event, ev.ApplyFailed | ev.NotRecovered) else agent.cancelled_by(heard.incident)
        return [ev.RollingBack(reason=reason)] if heard.incident.state is State.UNDO_DUE else []

    async def cancelled(self, heard: Heard) -> Events:
        """Whoever was at work when the cancellation came is no longer current: this handler ends what it began."""
        ends = {State.APPLYING: self.applying, State.UNDO_DUE: self.undo_due, State.ROLLING_BACK: self.rolling_back}
        end = ends.get(heard.incident.state)
        return await end(heard) if end else []

    async def _fenced(self, heard: Heard, state: State, work: Work) -> Events:
        """One at a time in this process and, by the fence, on this machine. Inside, the incident is read again."""
        self._crash("received")
        target, plan = subject(self._chassis, heard.incident)
        hands = self._hands(target)
        async with self._inside[target.name], hands.fence():
            incident = await self._chassis.log.load(heard.incident.id)
            claim = incident.last(ev.Applying)
            if incident.state is not state or claim is None:
                return []
            decided = await work(incident, hands, plan, claim.undo)
            self._crash("before_return")
            return [decided]

    async def _remember(self, incident: Incident) -> None:
        """On the target's record, for limits and cool-downs, once for each claim. Raises Conflict, Unavailable."""
        record, revision = await self._chassis.records.get(incident.target)
        claim = incident.last_stored(ev.Applying)
        if claim and claim.envelope.at not in record.actions:
            actions = agent.remembered(record.actions, claim.envelope.at)
            await self._chassis.records.put(incident.target, record.model_copy(update={"actions": actions}), revision)

    async def _apply(self, incident: Incident, hands: Hands, plan: Plan, undo: Sequence[UndoRecord]) -> ev.Event:
        await self._remember(incident)
        results: list[StepResult] = []
        for index, step in enumerate(plan.steps):
            with span("action", action=describe(step.action), step=index, plan_hash=plan.hash) as current:
                if await hands.has_effect(plan, undo, index):
                    results.append(StepResult(step=index, done=True, detail="was done already", already=True))
                    annotate(current, already=True)
                    continue
                incident = await self._chassis.log.load(incident.id)
                if incident.cancel_requested:
                    break
                try:
                    self._crash("before_effect")
                    detail = await to_its_end(hands.act(plan, undo, index))
                    self._crash("after_effect")
                except StaleTarget as error:
                    return agent.stopped(plan, results, f"step {index + 1}: {error}")
                except (Failed, Refused, OperatorError) as error:
                    return agent.failed(plan, results, index, str(error))
                annotate(current, detail=detail)
                results.append(StepResult(step=index, done=True, detail=detail))
        incident = await self._chassis.log.load(incident.id)
        if incident.cancel_requested:  # a step that is half done has no effect yet, and must be undone all the same
            untouched = [await hands.is_untouched(plan, undo, step) for step in range(len(plan.steps))]
            return agent.stopped(plan, results, agent.cancelled_by(incident), untouched=all(untouched))
        try:
            offered = await to_its_end(self._offers.made(incident, plan))
        except (Refused, OperatorError) as error:
            return agent.stopped(plan, results, f"the patch cannot be offered as a branch: {error}")
        if offered:
            self._crash("after_offer")
            results[-1] = results[-1].model_copy(update={"detail": f"{results[-1].detail}; {offered}"})
        rehearsed = incident.last(ev.Rehearsed)
        diff = rehearsed.rehearsal.diff if rehearsed else ""
        return ev.Applied(plan_hash=plan.hash, results=tuple(results), diff=diff, at=self._chassis.clock.now())

    async def _roll_back(self, incident: Incident, hands: Hands, plan: Plan, undo: Sequence[UndoRecord]) -> ev.Event:
        begun = incident.last_stored(ev.RollingBack)
        assert begun
        results: list[StepResult] = []
        for index in agent.undo_order(plan):
            record = undo[index]
            with span("rollback", action=describe(plan.steps[index].action), step=index, kind_of_undo=record.kind) as current:
                try:
                    if await hands.is_undone(plan, undo, index, begun.envelope.at):
                        results.append(StepResult(step=index, done=True, detail="as before", already=True))
                        continue
                    self._crash("before_effect")
                    detail = await to_its_end(hands.take_back(plan, undo, index))
                    self._crash("after_effect")
                except (StaleTarget, Failed, Refused, OperatorError) as error:
                    results.append(StepResult(step=index, done=False, detail=str(error)))
                    return ev.RollbackFailed(results=tuple(results), reason=agent.why_not_undone(index, record, str(error)))
                annotate(current, detail=detail)
                results.append(StepResult(step=index, done=True, detail=detail))
        nothing = all(record.kind == "none" for record in undo) and all(result.already for result in results)
        try:
            said = await to_its_end(self._offers.withdrawn(incident, plan))
        except (Refused, OperatorError) as error:
            said = str(error)
        return ev.RolledBack(results=tuple(results), detail="there was nothing to undo" if nothing else said)


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """A step on a target ends even when this task is cancelled; only then the cancellation goes on."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
