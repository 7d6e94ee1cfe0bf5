"""What carries an event: who, when, why, and the chain of hashes by which the log proves itself."""

import json
from typing import Any, ClassVar

from pydantic import Field, SerializeAsAny, ValidationError

from autopatch.contract.errors import ContractError
from autopatch.contract.events import EVENTS, Event
from autopatch.contract.model import Moment, Word, canonical, digest


class Unknown(Event):
    """An event of a newer contract: kept as it came, changes no state."""

    name: ClassVar[str] = "unknown"
    event: str
    data: dict[str, Any]


class Envelope(Word):
    """What is on the log. `hash` covers everything else in it, `previous_hash` chains it to the incident's last event."""

    event_id: str
    incident_id: str
    event: str
    version: int
    at: Moment
    by: str = Field(description="a room, or person:<name>")
    caused_by: str = Field(default="", description="event_id of what was heard")
    attempt: int = 0
    previous_hash: str = ""
    hash: str = ""
    data: SerializeAsAny[Event]

    @property
    def subject(self) -> str:
        """Where it is on the bus."""
        return subject_of(self.incident_id, self.event)

    def sealed(self) -> "Envelope":
        """The same with its hash."""
        return self.model_copy(update={"hash": self.computed_hash()})

    def computed_hash(self) -> str:
        """SHA-256 over the canonical JSON of all but `hash`."""
        return digest(canonical(self.model_dump(mode="json", exclude={"hash"})))

    def encode(self) -> bytes:
        """The bytes on the wire."""
        return self.model_dump_json().encode()


def subject_of(incident_id: str, event: str = "*") -> str:
    """The subject of one event of one incident, or of all of them."""
    return f"incidents.{incident_id}.{event}"


def decode(data: bytes) -> Envelope:
    """Raises ContractError when the bytes are not an envelope or its body is not the event that it says."""
    try:
        raw = _Raw.model_validate_json(data)
        cls = EVENTS.get(raw.event)
        known = cls is not None and raw.version <= cls.version
        body = cls.model_validate(raw.data) if cls and known else Unknown(event=raw.event, data=raw.data)
        return Envelope(**{**raw.__dict__, "data": body})
    except ValidationError as error:
        raise ContractError(f"not an event: {error.error_count()} faults, first: {_first(error)}") from error


def verify_hash(data: bytes) -> bool:
    """Does the stored hash match the stored bytes, unknown fields included?"""
    raw = _Raw.model_validate_json(data)
    parts = json.loads(data)
    parts.pop("hash", None)
    return digest(canonical(parts)) == raw.hash


class _Raw(Word):
    event_id: str
    incident_id: str
    event: str
    version: int
    at: Moment
    by: str
    caused_by: str = ""
    attempt: int = 0
    previous_hash: str = ""
    hash: str = ""
    data: dict[str, Any]


def _first(error: ValidationError) -> str:
    fault = error.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(str(p) for p in fault['loc'])}: {fault['msg']}"
