"""What a room is made of: handlers of events and timers, answers to requests, background loops, HTTP routes."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter

from autopatch.contract.errors import AutoPatchError
from autopatch.contract.events import Event
from autopatch.contract.lifecycle import Incident, Stored
from autopatch.contract.model import Word


class RetryLater(AutoPatchError):
    """Nothing can be done yet: a `waiting` note says on what, and the handler is asked again after `after_s` seconds.

    After 30 minutes (a setting) of waiting for the same thing the incident is escalated.
    """

    def __init__(self, after_s: float, *, on: str, reason: str) -> None:
        super().__init__(reason)
        self.after_s = after_s
        self.on = on
        self.reason = reason


class Reject(AutoPatchError):
    """This message can never be handled: it becomes a dead letter and its incident is escalated."""


@dataclass(frozen=True)
class Heard:
    """What a handler gets: the incident as it is now, and the event that moved it there (also when a timer calls)."""

    incident: Incident
    stored: Stored

    @property
    def event(self) -> Event:
        """The body of the event."""
        return self.stored.envelope.data


Handler = Callable[[Heard], Awaitable[Sequence[Event]]]
"""Returns what was decided; the runner appends it and then acknowledges. It may be asked again for the same event at any time.

By what it raises a handler says what becomes of its message: RetryLater or Unavailable: wait and ask again; Reject: dead letter;
any other exception: asked again with backoff, then dead letter.
"""

Responder = Callable[[Any], Awaitable[Word]]
"""Answers one request; what it raises becomes a Fault."""


@dataclass
class Room:
    """A room ready to run. `timers` maps a timer's purpose to its handler.

    `shielded` names events whose handlers a cancellation does not interrupt (a step on a target ends first). `historian` rooms
    handle every event once, also when the incident has moved on, and escalate none that they wait for; all others skip what is no
    longer current.
    """

    name: str
    handlers: Mapping[type[Event], Handler] = field(default_factory=dict)
    timers: Mapping[str, Handler] = field(default_factory=dict)
    responders: Mapping[type[Any], Responder] = field(default_factory=dict)
    background: Sequence[Callable[[], Coroutine[Any, Any, None]]] = ()
    routers: Sequence[APIRouter] = ()
    on_start: Sequence[Callable[[], Awaitable[None]]] = ()
    shielded: frozenset[type[Event]] = frozenset()
    historian: bool = False
    on_stop: Sequence[Callable[[], Awaitable[None]]] = ()
