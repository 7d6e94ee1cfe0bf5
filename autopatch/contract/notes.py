"""Notes: events that are legal in every state and, but for a `cleared` before anything was applied, change none."""

from typing import ClassVar

from pydantic import Field

from autopatch.contract.evidence import Alert
from autopatch.contract.model import Moment, Word


class Event(Word):
    """The body of an event. Subclasses set `name`; `version` rises when a field changes its meaning."""
    name: ClassVar[str]
    version: ClassVar[int] = 1


class AlertUpdated(Event):
    """A later word about an alert of this incident, or another alert of its target."""

    name: ClassVar[str] = "alert_updated"
    alert: Alert
    why: str = ""


class Cleared(Event):
    """The alert is no longer firing, by its sender's word. Before anything was applied that closes the incident."""

    name: ClassVar[str] = "cleared"
    identity: str
    at: Moment


class LessonRecorded(Event):
    """What knowledge learnt from how this ended. `trust` counts validated outcomes only."""

    name: ClassVar[str] = "lesson_recorded"
    lesson_id: str
    signature: str
    outcome: str
    trust: float
    summary: str = ""


class Waiting(Event):
    """Something is missing; nothing is done until it is back."""

    name: ClassVar[str] = "waiting"
    on: str = Field(description="what is missing: nats, prometheus, docker, qdrant, model, policy, target")
    reason: str
    room: str
