"""Jobs on the log: opened once however often they are asked for, watched, and told as a verdict."""

import asyncio
import uuid
from collections.abc import AsyncIterator

import structlog

from autopatch.chassis.redaction import redact
from autopatch.chassis.telemetry import scope, span, trace_id
from autopatch.contract import events as ev
from autopatch.contract.actions import PatchCode
from autopatch.contract.code import CodeJob, RepairVerdict
from autopatch.contract.errors import AutoPatchError, Conflict, ContractError, OperatorError, Unavailable
from autopatch.contract.evidence import BlobRef
from autopatch.contract.lifecycle import Incident, Stored
from autopatch.repair.tree import read_archive, tree_digest
from autopatch.repair.verdict import verdict_of
from services.gateway.adapters.repairs.words import Ask, Begun
from services.gateway.agent import Caller, NotFound
from services.gateway.desk import Desk
from services.gateway.ports import GatewayChassis

log = structlog.get_logger("repairs")
PAUSES_S = (0.1, 0.3, 1, 2, 5, 10, 20)
"""Between tries to cancel while the log is away."""


class Jobs:
    """One per process."""

    def __init__(self, chassis: GatewayChassis, desk: Desk) -> None:
        self._chassis = chassis
        self._desk = desk
        self._leaving: set[asyncio.Task[None]] = set()

    async def open(self, ask: Ask, caller: Caller) -> Begun:
        """Raises OperatorError for a bad archive, ContractError when the request id is another job's, Unavailable."""
        tree = await asyncio.to_thread(_tree, ask.archive)
        incident = await self._chassis.log.load(ask.incident(tree))
        if not incident.log and not await self._chassis.log.room_left():
            raise Unavailable("nats", "the incidents' log is 80 % full: nothing new opens", tip="raise AUTOPATCH_STREAM_BYTES")
        job = ask.job(await self._chassis.blobs.put(ask.archive), tree, _harmless(ask.issue))
        if incident.log:
            return self._known(incident, job)
        event = ev.Opened(target=job.repository, title=_title(job), job=job)
        try:
            with scope(self._chassis.tracer, incident.id, {}), span("gateway opened", target=job.repository, person=caller.name):
                await self._chassis.log.append(incident, [event], by=caller.signature, key=uuid.uuid4().hex)
        except Conflict:
            return self._known(await self._desk.incident(incident.id), job)
        log.info("repair asked for", incident=incident.id, by=caller.name, bytes=len(ask.archive))
        return Begun(incident=incident.id, tree=tree, created=True)

    async def job(self, incident_id: str) -> Incident:
        """Raises NotFound also for an incident that is no job, Unavailable."""
        incident = await self._desk.incident(incident_id)
        if incident.opened.job is None:
            raise NotFound("there is no such repair", tip="`autopatch incidents list` shows what there is")
        return incident

    async def verdict(self, incident_id: str) -> RepairVerdict | None:
        """None while it is under way. Raises NotFound, Unavailable."""
        incident = await self.job(incident_id)
        found = verdict_of(incident, trace_id(incident.log[0].headers))
        if found is None:
            return None
        told: dict[str, object] = {"runtime": _runtime(incident)}
        if found.verdict == "fixed" and (ref := _diff(incident)):
            data = await self._chassis.blobs.get(ref)
            told |= {"diff": data.decode(errors="backslashreplace"), "diff_blob": ref.model_copy(update={"size": len(data)})}
        return found.model_copy(update=told)

    async def verdict_after(self, stored: Stored) -> RepairVerdict | None:
        """The verdict when this event, or one before it, ended the job: whoever watches is to see all events first."""
        incident = await self.job(stored.envelope.incident_id)
        end = next((s for s in incident.log if s.envelope.event_id == incident.moved_by), None)
        ended = incident.terminal and end is not None and end.sequence <= stored.sequence
        return await self.verdict(incident.id) if ended else None

    async def diff(self, incident_id: str) -> bytes:
        """Byte by byte. Raises NotFound when there is none, or none yet, Unavailable."""
        incident = await self.job(incident_id)
        found, ref = verdict_of(incident), _diff(incident)
        if found is None or found.verdict != "fixed" or ref is None:
            raise NotFound("there is no diff", tip=f"the repair ended as {found.verdict}" if found else "it is under way")
        return await self._chassis.blobs.get(ref)

    def follow(self, incident_id: str) -> AsyncIterator[Stored]:
        """Its events as they come, without end. Raises Unavailable."""
        return self._chassis.log.follow(0, incident_id)

    async def cancel(self, incident_id: str, caller: Caller, reason: str) -> None:
        """Raises NotFound, ContractError when it has ended otherwise, Conflict, Unavailable."""
        await self._desk.cancel(incident_id, caller, reason)

    def abandon(self, incident_id: str, caller: Caller) -> None:
        """Cancel it, at once where the log answers; soon after where it does not."""
        task = asyncio.create_task(self._cancel(incident_id, caller))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def close(self) -> None:
        """Waits for cancellations that have begun, three seconds at most."""
        if self._leaving:
            await asyncio.wait(self._leaving, timeout=3)

    async def _cancel(self, incident_id: str, caller: Caller) -> None:
        for pause in PAUSES_S:
            try:
                await self._desk.cancel(incident_id, caller, "whoever asked for it went away")
                return
            except ContractError:
                return  # it has ended
            except AutoPatchError as error:
                log.warning("not cancelled yet", incident=incident_id, error=str(error))
                await asyncio.sleep(pause)

    def _known(self, incident: Incident, job: CodeJob) -> Begun:
        """The packing may differ where the files do not."""
        first = incident.opened.job
        if first is None or first.model_copy(update={"snapshot": job.snapshot}) != job:
            raise ContractError("another job of this repository has this request_id", tip="send another request_id")
        return Begun(incident=incident.id, tree=job.tree, created=False)


def _tree(archive: bytes) -> str:
    try:
        files = read_archive(archive)
    except ContractError as error:
        raise OperatorError(f"body.archive: {error}", tip="a gzipped tar of regular files") from None
    if not files:
        raise OperatorError("body.archive: holds no file", tip="a gzipped tar of regular files")
    return tree_digest(files)


def _diff(incident: Incident) -> BlobRef | None:
    """The store's name of an object is its digest, which is all that the plan holds."""
    planned = incident.last(ev.Planned)
    digests = [step.action.diff for step in planned.plan.steps if isinstance(step.action, PatchCode)] if planned else []
    return BlobRef(name=digests[0], size=0, digest=digests[0]) if digests else None


def _runtime(incident: Incident) -> str:
    rehearsed = incident.last(ev.Rehearsed) or incident.last(ev.RehearsalFailed)
    return next((run.runtime for run in reversed(rehearsed.rehearsal.runs) if run.runtime), "") if rehearsed else ""


def _title(job: CodeJob) -> str:
    first = next((line.strip() for line in job.issue.splitlines() if line.strip()), "")
    return first[:120] or f"repair what fails in: {' '.join(job.command)}"[:120]


def _harmless(text: str) -> str:
    """Redacted, without control characters but for the ends of lines."""
    return redact("".join(c if c.isprintable() or c in "\n\t" else " " for c in text))[:8000]
