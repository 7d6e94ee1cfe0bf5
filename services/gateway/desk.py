"""What people can do at the gateway: each method is one request of theirs, from reading the log to appending to it."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Literal

import structlog

from autopatch.chassis.chassis import TargetRecord
from autopatch.chassis.redaction import redact
from autopatch.chassis.telemetry import scope, span
from autopatch.contract import events as ev
from autopatch.contract.errors import Conflict, ContractError, OperatorError
from autopatch.contract.lifecycle import Incident, State, Stored
from autopatch.contract.model import Word
from autopatch.contract.requests import Found, Search
from autopatch.contract.target import Rung
from services.gateway import agent, views
from services.gateway.agent import Caller, NotFound
from services.gateway.ports import Document, GatewayChassis, Ingest, Ingested

log = structlog.get_logger("gateway")
TRIES, AT_ONCE = 8, 16
SCANNED = 2000
"""Incidents that one page looks at; what is older is on the next page."""

Kind = Literal["lesson", "incident", "runbook", "document", "code"]
Decide = Callable[[Incident, datetime], ev.Event | None]


class Outcome(Word):
    """What became of a person's word. `already`: it had been said before, nothing was added."""

    incident: str
    state: State
    already: bool
    headline: str


class PauseState(Word):
    """The kill switch."""

    paused: bool
    reason: str = ""


class TargetView(Word):
    """A target as people may see it: nothing of its commands, addresses or values."""

    name: str
    autonomy: Rung
    actions: dict[str, Rung]
    approvers: tuple[str, ...]
    signals: tuple[str, ...]
    held_by: str = ""
    hold_reason: str = ""
    holder: str = ""
    open_incident: str = ""


class Desk:
    """One per process."""

    def __init__(self, chassis: GatewayChassis, knowledge: Ingest) -> None:
        self._chassis = chassis
        self._knowledge = knowledge

    async def incident(self, incident_id: str) -> Incident:
        """Raises NotFound, Unavailable."""
        found = await self._chassis.log.load(incident_id) if _plain(incident_id) else Incident("")
        if not found.log:
            raise NotFound("there is no such incident", tip="`autopatch incidents list` shows those there are")
        return found

    async def view(self, incident_id: str) -> views.View:
        """Raises NotFound, Unavailable."""
        return views.view(await self.incident(incident_id), self._chassis.clock.now(), self._chassis.common.trace_url)

    async def page(self, states: frozenset[State], target: str, is_open: bool | None, limit: int, before: str) -> views.Page:
        """Newest first. Raises NotFound when `before` is none of ours, Unavailable."""
        ids, found = list(reversed(await self._chassis.log.ids())), list[views.Row]()
        if before:
            if before not in ids:
                raise NotFound("there is no such page", tip="begin again without `before`")
            ids = ids[ids.index(before) + 1 :]
        for start in range(0, min(len(ids), SCANNED), AT_ONCE):
            chunk = ids[start : start + AT_ONCE]
            for row in await asyncio.gather(*(self._row(i) for i in chunk)):
                if row is None or not _wanted(row, states, target, is_open):
                    continue
                found.append(row)
                if len(found) == limit:
                    return views.Page(items=tuple(found), next=row.id if row.id != ids[-1] else "")
        return views.Page(items=tuple(found), next=ids[SCANNED - 1] if len(ids) > SCANNED else "")

    async def approve(self, incident_id: str, caller: Caller, plan_hash: str, comment: str) -> Outcome:
        """Raises NotFound, Forbidden, ContractError, Conflict, Unavailable."""
        return await self._record(incident_id, caller, lambda i, now: agent.approve(
            i, self._chassis.targets.get(i.target), caller, plan_hash, _clean(comment), now
        ))

    async def reject(self, incident_id: str, caller: Caller, plan_hash: str, reason: str) -> Outcome:
        """Raises NotFound, Forbidden, OperatorError, ContractError, Conflict, Unavailable."""
        why = _clean(reason)
        if not why:
            raise OperatorError("the reason is empty", tip="say why, in words: the next plan is made with it")
        return await self._record(incident_id, caller, lambda i, _: agent.reject(i, caller, plan_hash, why))

    async def cancel(self, incident_id: str, caller: Caller, reason: str) -> Outcome:
        """Also told live, each time, so that saying it again helps when the first word was lost."""
        outcome = await self._record(incident_id, caller, lambda i, _: agent.cancel(i, caller, _clean(reason)))
        await self._chassis.live.cancelled(incident_id)
        return outcome

    async def reopen(self, incident_id: str, caller: Caller, reason: str) -> Outcome:
        """Raises NotFound, ContractError, Conflict, Unavailable."""
        return await self._record(incident_id, caller, lambda i, _: agent.reopen(i, caller, _clean(reason)))

    def target_names(self) -> Sequence[str]:
        """In order."""
        return [target.name for target in self._chassis.targets.all()]

    async def target(self, name: str) -> TargetView:
        """Raises NotFound, Unavailable."""
        described = self._chassis.targets.get(name)
        if described is None:
            raise NotFound("there is no such target", tip="`autopatch targets list` shows those there are")
        record, _ = await self._chassis.records.get(name)
        load = self._chassis.log.load  # the record names them until the next one comes
        holder, opened = [n if n and not (await load(n)).terminal else "" for n in (record.holder, record.open_incident)]
        return TargetView(
            name=name, autonomy=described.autonomy.default, actions={str(k): v for k, v in described.autonomy.actions.items()},
            approvers=described.approvers, signals=tuple(described.signals), held_by=record.held_by_operator,
            hold_reason=record.hold_reason, holder=holder, open_incident=opened,
        )

    async def hold(self, name: str, caller: Caller, reason: str) -> TargetView:
        """From now on nothing is applied there; the first holder stays. Raises NotFound, Conflict, Unavailable."""
        return await self._held(name, caller, lambda r: r if r.held_by_operator else r.model_copy(
            update={"held_by_operator": caller.name, "hold_reason": _clean(reason) or "no reason given"}
        ))

    async def release(self, name: str, caller: Caller) -> TargetView:
        """Anyone who may hold may release. Raises NotFound, Conflict, Unavailable."""
        return await self._held(name, caller, lambda r: r.model_copy(update={"held_by_operator": "", "hold_reason": ""}))

    async def paused(self) -> PauseState:
        """Raises Unavailable."""
        reason = await self._chassis.control.paused()
        return PauseState(paused=bool(reason), reason=reason)

    async def pause(self, caller: Caller, reason: str) -> PauseState:
        """Nothing is applied anywhere until resumed. Pausing again keeps the first reason. Raises Unavailable."""
        before = await self.paused()
        if before.paused:
            return before
        await self._chassis.control.pause(f"{caller.name}: {_clean(reason) or 'no reason given'}")
        log.warning("paused", by=caller.name)
        return await self.paused()

    async def resume(self, caller: Caller) -> PauseState:
        """Raises Unavailable."""
        await self._chassis.control.pause("")
        log.warning("resumed", by=caller.name)
        return await self.paused()

    async def unmatched(self, limit: int) -> list[dict[str, Any]]:
        """Newest first. Raises Unavailable."""
        return list(reversed(await self._chassis.unmatched.newest(limit)))

    async def search(self, text: str, target: str, kinds: tuple[Kind, ...], limit: int) -> Found:
        """Raises Unavailable."""
        return await self._chassis.asker.ask(Search(text=text, target=target, kinds=kinds, limit=limit), Found)

    async def ingest(self, caller: Caller, documents: Sequence[Document]) -> Ingested:
        """Raises Unavailable, OperatorError."""
        log.info("documents forwarded", by=caller.name, documents=len(documents))
        return await self._knowledge.ingest(documents)

    async def _row(self, incident_id: str) -> views.Row | None:
        try:
            incident = await self._chassis.log.load(incident_id)
            return views.row(incident, self._chassis.clock.now()) if incident.log else None
        except ContractError as error:
            log.error("incident cannot be read", incident=incident_id, reason=str(error))
            return None

    async def _record(self, incident_id: str, caller: Caller, decide: Decide) -> Outcome:
        for attempt in range(TRIES):
            incident = await self.incident(incident_id)
            event = decide(incident, self._chassis.clock.now())
            if event is None:
                return self._outcome(incident, already=True)
            try:
                return self._outcome(await self._append(incident, event, caller), already=False)
            except Conflict:
                await self._chassis.clock.sleep(0.02 * attempt)
        raise Conflict("the incident keeps moving", tip="try again")

    async def _append(self, incident: Incident, event: ev.Event, caller: Caller) -> Incident:
        basis, now = agent.asked_by(incident), self._chassis.clock.now()
        waited = _waited(incident, basis, event, now)
        with scope(self._chassis.tracer, incident.id, basis.headers), span(
            f"{_VERBS[type(event)]} by person", start=basis.envelope.at if waited is not None else now, end=now,
            decision=event.name, person=caller.name, role=caller.role, wait_seconds=waited,
            plan_hash=getattr(event, "plan_hash", None), target=incident.target,
        ):
            return await self._chassis.log.append(
                incident, [event], by=caller.signature, caused_by=basis.envelope.event_id, key=caller.name
            )

    def _outcome(self, incident: Incident, *, already: bool) -> Outcome:
        row = views.row(incident, self._chassis.clock.now())
        return Outcome(incident=incident.id, state=incident.state, already=already, headline=row.headline)

    async def _held(self, name: str, caller: Caller, change: Callable[[TargetRecord], TargetRecord]) -> TargetView:
        await self.target(name)
        for attempt in range(TRIES):
            record, revision = await self._chassis.records.get(name)
            if (wanted := change(record)) == record:
                return await self.target(name)
            try:
                await self._chassis.records.put(name, wanted, revision)
                log.warning("target held" if wanted.held_by_operator else "target released", target=name, by=caller.name)
            except Conflict:
                await self._chassis.clock.sleep(0.02 * attempt)
        raise Conflict("the target's record keeps changing", tip="try again")


_VERBS: dict[type[ev.Event], str] = {ev.Approved: "approve", ev.Rejected: "reject", ev.Cancelled: "cancel", ev.Reopened: "reopen"}


def _waited(incident: Incident, basis: Stored, event: ev.Event, now: datetime) -> float | None:
    asked = isinstance(basis.envelope.data, ev.ApprovalRequested) and incident.state is State.AWAITING
    return (now - basis.envelope.at).total_seconds() if asked and not isinstance(event, ev.Reopened) else None


def _plain(incident_id: str) -> bool:
    return 0 < len(incident_id) <= 128 and all(c.isascii() and (c.isalnum() or c in "-_") for c in incident_id)


def _wanted(row: views.Row, states: frozenset[State], target: str, is_open: bool | None) -> bool:
    return (not states or row.state in states) and (not target or row.target == target) and is_open in (None, row.open)


def _clean(text: str) -> str:
    """One redacted paragraph without control characters."""
    return redact(" ".join("".join(c if c.isprintable() else " " for c in text).split()))


