"""From a plan to the claim: rehearse, ask the policy, ask people, and pass the gate. Nothing here changes a target."""

from collections.abc import Callable, Sequence
from datetime import timedelta

from autopatch.chassis.chassis import Chassis, TargetRecord
from autopatch.chassis.room import Heard, Reject, RetryLater
from autopatch.chassis.telemetry import annotate, span
from autopatch.contract import events as ev
from autopatch.contract import requests as rq
from autopatch.contract.errors import OperatorError, Refused, StaleTarget, Unavailable
from autopatch.contract.evidence import Rehearsal
from autopatch.contract.lifecycle import Incident, State
from autopatch.contract.plan import Plan
from autopatch.contract.target import Target
from services.executor import agent
from services.executor.adapters.code.proof import Proof
from services.executor.policy import Facts, Policy, Verdict, decide, plan_faults
from services.executor.ports import Failed, Hands, Rehearse

Events = Sequence[ev.Event]
PATIENCE_S = 3
"""Seconds between two looks at something that a person or another incident must end."""


class Deciding:
    """Handlers of planned, rehearsed, approved and of the approval's expiry."""

    def __init__(
        self, chassis: Chassis, hands: Callable[[Target], Hands], rehearse: Rehearse, prove: Proof, policy: Callable[[], Policy],
        crash: Callable[[str], None],
    ) -> None:
        self._chassis = chassis
        self._hands = hands
        self._rehearse = rehearse
        self._prove = prove
        self._policy = policy
        self._crash = crash

    async def planned(self, heard: Heard) -> Events:
        """Rehearse what can be rehearsed. A plan that no policy could allow is not rehearsed: it will be refused."""
        self._crash("received")
        target, plan = subject(self._chassis, heard.incident)
        faults = plan_faults(target, plan)
        if faults:
            rehearsal = Rehearsal(passed=False, skipped=f"not rehearsed, because it cannot be allowed: {'; '.join(faults)}")
            return [ev.Rehearsed(plan_hash=plan.hash, rehearsal=rehearsal)]
        hands = self._hands(target)
        try:
            prepared = await hands.prepare(plan)
            skipped = agent.not_rehearsable(target, plan)
            if skipped:
                rehearsal = Rehearsal(passed=False, skipped=skipped, diff=prepared.diff)
                return [ev.Rehearsed(plan_hash=plan.hash, rehearsal=rehearsal)]
            if agent.patches(plan):
                rehearsal = await self._prove(heard.incident.id, target, plan)
            else:
                rehearsal = await self._rehearse(agent.under_load(target, heard.incident), plan, (await hands.state()).release)
        except (Refused, OperatorError, Failed) as error:
            rehearsal = Rehearsal(passed=False, reason=str(error))
        self._crash("before_return")
        said = ev.Rehearsed if rehearsal.passed else ev.RehearsalFailed
        return [said(plan_hash=plan.hash, rehearsal=rehearsal)]

    async def rehearsed(self, heard: Heard) -> Events:
        """The policy's verdict: propose, refuse, ask, or go on to the gate."""
        self._crash("received")
        incident = heard.incident
        target, plan = subject(self._chassis, incident)
        verdict = await self._verdict(heard, target, plan)
        self._crash("decided")
        now = self._chassis.clock.now()
        event = agent.after_rehearsal(verdict, plan, target, now)
        if event is None:
            return await self._gate(heard, target, plan, verdict, ())
        if isinstance(event, ev.ApprovalRequested):
            try:
                await self._hands(target).prepare(plan)
            except (Refused, OperatorError) as error:
                return [ev.Stale(reason=str(error))]
            await self._chassis.timers.set(incident.id, "expiry", event.expires_at + timedelta(seconds=1))
        self._crash("before_return")
        return [event]

    async def approved(self, heard: Heard) -> Events:
        """The gate again, now with a person's word. The first of two approvals only waits for the second."""
        self._crash("received")
        incident = heard.incident
        if incident.state is not State.APPROVED:
            return []
        target, plan = subject(self._chassis, incident)
        why_not = agent.not_approved(incident, plan)
        if why_not:
            return [ev.Refused(plan_hash=plan.hash, rule="approval", reason=why_not)]
        verdict = await self._verdict(heard, target, plan)
        self._crash("decided")
        people = agent.approvers(incident)
        forbidden = agent.forbidden(verdict, people)
        if forbidden:
            return [ev.Refused(plan_hash=plan.hash, rule=verdict.rule, reason=forbidden)]
        decided = await self._gate(heard, target, plan, verdict, people)
        asked = incident.last_stored(ev.ApprovalRequested)
        if asked and decided and isinstance(decided[0], ev.Applying):
            with span("human wait", start=asked.envelope.at, end=heard.stored.envelope.at, people=list(people)):
                pass
        return decided

    async def expiry(self, heard: Heard) -> Events:
        """Nobody decided in time."""
        incident = heard.incident
        asked = incident.last(ev.ApprovalRequested)
        if incident.state is not State.AWAITING or asked is None:
            return []
        if self._chassis.clock.now() < asked.expires_at:
            await self._chassis.timers.set(incident.id, "expiry", asked.expires_at + timedelta(seconds=1))
            return []
        return [ev.Expired(plan_hash=asked.plan_hash)]

    async def _verdict(self, heard: Heard, target: Target, plan: Plan) -> Verdict:
        record, _ = await self._chassis.records.get(target.name)
        rehearsed = heard.incident.last(ev.Rehearsed)
        facts = Facts(record.actions, bool(rehearsed and rehearsed.rehearsal.passed))
        with span("policy verdict", plan_hash=plan.hash, rehearsed=facts.rehearsed) as current:
            verdict = decide(self._policy(), target, plan, facts, self._chassis.clock.now())
            annotate(current, rung=verdict.rung, rule=verdict.rule, reasons=list(verdict.reasons), people=verdict.people)
        return verdict

    async def _gate(self, heard: Heard, target: Target, plan: Plan, verdict: Verdict, people: tuple[str, ...]) -> Events:
        """Everything that must hold at the last moment. The target is held first, so that nobody changes what is looked at then.

        A check that is green closes the incident; the validator, which measured it, says so itself.
        """
        incident = heard.incident
        await self._nothing_forbids(incident, target, verdict)
        await self._hold(incident, target)
        red = await self._chassis.asker.ask(rq.Recheck(incident_id=incident.id), rq.Rechecked)
        if red.status == "green":
            if (await self._chassis.log.load(incident.id)).moved_by == incident.moved_by:
                raise Unavailable("validator", "it measured green and did not close the incident")
            return []
        if red.status == "unknown":
            raise Unavailable("prometheus", red.reason or "the check cannot be measured")
        try:
            prepared = await self._hands(target).prepare(plan)
        except StaleTarget as error:
            return [ev.Stale(reason=str(error))]
        except (Refused, OperatorError) as error:
            return [ev.Refused(plan_hash=plan.hash, rule=verdict.rule, reason=str(error))]
        await self._hold(incident, target)
        self._crash("claimed")
        rehearsed = incident.last(ev.Rehearsed)
        self._crash("before_return")
        return [ev.Applying(
            plan_hash=plan.hash, undo=prepared.undo, rung="auto" if verdict.rung == "auto" else "approve", rule=verdict.rule,
            rehearsed=bool(rehearsed and rehearsed.rehearsal.passed), approved_by=people,
        )]

    async def _nothing_forbids(self, incident: Incident, target: Target, verdict: Verdict) -> None:
        """Raises RetryLater while somebody forbids it, and Unavailable when that cannot be known."""
        paused = await self._chassis.control.paused()
        if paused:
            raise RetryLater(PATIENCE_S, on="pause", reason=f"everything is paused: {paused}")
        record, _ = await self._chassis.records.get(target.name)
        await self._is_free(record, incident, target)
        now = self._chassis.clock.now()
        if verdict.not_before and verdict.not_before > now:
            left = (verdict.not_before - now).total_seconds()
            raise RetryLater(min(left, 30), on="policy", reason=f"cool-down until {verdict.not_before:%H:%M:%S}")
        silence = await self._chassis.asker.ask(rq.Silenced(incident_id=incident.id), rq.SilenceState)
        if silence.status != "active":
            raise RetryLater(PATIENCE_S, on="silence", reason=f"silence is {silence.status}: {silence.reason}")

    async def _hold(self, incident: Incident, target: Target) -> None:
        """By compare-and-set, also when the target is ours already: whoever displaces us meanwhile then fails, or we do.

        Raises RetryLater while another incident acts on the target, Conflict when somebody wrote at the same time.
        """
        record, revision = await self._chassis.records.get(target.name)
        await self._is_free(record, incident, target)
        await self._chassis.records.put(target.name, record.model_copy(update={"holder": incident.id}), revision)

    async def _is_free(self, record: TargetRecord, incident: Incident, target: Target) -> None:
        """Raises RetryLater while an operator or another incident has the target."""
        if record.held_by_operator:
            raise RetryLater(PATIENCE_S, on="hold", reason=f"{record.held_by_operator} holds {target.name}: {record.hold_reason}")
        if record.holder and record.holder != incident.id and agent.holds(await self._chassis.log.load(record.holder)):
            raise RetryLater(PATIENCE_S, on="target", reason=f"incident {record.holder} acts on {target.name}")


def subject(chassis: Chassis, incident: Incident) -> tuple[Target, Plan]:
    """The incident's target and newest plan. Raises Reject when there is no such target any more."""
    target, planned = chassis.targets.get(incident.target), incident.last(ev.Planned)
    if target is None or planned is None or planned.plan.hash != planned.plan_hash:
        raise Reject(f"there is no target file for {incident.target!r}, no plan, or not the plan that its hash names")
    return target, planned.plan
