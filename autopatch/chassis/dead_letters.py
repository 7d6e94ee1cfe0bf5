"""What could not be handled: kept with its reason, and said on its incident."""

import json
import traceback

import structlog
from nats.js.errors import NotFoundError

from autopatch.chassis.bus import Bus
from autopatch.chassis.log import EventLog
from autopatch.chassis.metrics import DEAD
from autopatch.contract import catalogue as cat
from autopatch.contract import events as ev
from autopatch.contract.errors import Conflict, ContractError

log = structlog.get_logger("dead_letters")


class DeadLetters:
    """Of one room."""

    def __init__(self, bus: Bus, incidents: EventLog, room: str) -> None:
        self._bus = bus
        self._incidents = incidents
        self._room = room

    async def bury(self, data: bytes, subject: str, sequence: int, error: Exception) -> None:
        """Store it and escalate its incident. Raises Unavailable; doing it again changes nothing."""
        trace = "".join(traceback.format_exception(error))[-4000:]
        body = json.dumps({
            "subject": subject, "sequence": sequence, "error": f"{type(error).__name__}: {error}"[:500], "traceback": trace,
            "data": data[:32768].decode("utf-8", "replace"),
        }).encode()
        headers = {"Nats-Msg-Id": f"{self._room}/{subject}/{sequence}"}
        await self._bus.patiently(lambda: self._bus.publish(cat.dead_letter_subject(self._room), body, headers))
        DEAD.labels(self._room).inc()
        log.error("dead letter", room=self._room, subject=subject, sequence=sequence, error=str(error), traceback=trace)
        incident_id, what = _about(subject, data)
        if incident_id:
            await self._escalate(incident_id, f"{what} could not be handled: {type(error).__name__}: {error}"[:500])

    async def from_advisory(self, data: bytes) -> None:
        """The server gave up on a message: no code of ours lived long enough to say so."""
        advisory = json.loads(data)
        stream = advisory.get("stream")
        if stream not in (cat.INCIDENTS, cat.TIMER_STREAM):
            return
        sequence = int(advisory["stream_seq"])
        try:
            raw = await self._bus.patiently(lambda: self._bus.js.get_msg(stream, seq=sequence, direct=True))
        except NotFoundError:
            return
        lost = RuntimeError(f"{advisory.get('consumer')} did not survive {advisory.get('deliveries')} deliveries")
        await self.bury(raw.data or b"", raw.subject or "", sequence, lost)

    async def _escalate(self, incident_id: str, reason: str) -> None:
        while True:
            try:
                incident = await self._incidents.load(incident_id)
                if incident.terminal or not incident.log:
                    return
                await self._incidents.append(incident, [ev.Escalated(reason=reason, room=self._room)], by=self._room)
                return
            except Conflict:
                continue
            except ContractError as error:
                log.error("incident cannot be escalated", incident=incident_id, error=str(error))
                return


def _about(subject: str, data: bytes) -> tuple[str, str]:
    """The incident that a message is about, and what it says of it; empty when nobody can tell."""
    match subject.split("."):
        case ["incidents", incident_id, event]:
            return incident_id, event
        case ["timers", "fired", _]:
            try:
                body = json.loads(data)
                return str(body["incident_id"]), f"timer {body['purpose']}"
            except (ValueError, KeyError, TypeError):
                return "", ""
        case _:
            return "", ""
