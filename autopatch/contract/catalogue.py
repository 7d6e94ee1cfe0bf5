"""Who says, hears and asks what. Consumers, permissions, docs/bus.md and the lifecycle diagram are generated from here."""

from collections.abc import Mapping

from autopatch.contract import events as ev
from autopatch.contract import requests as rq

ROOMS = ("monitor", "diagnosis", "planner", "executor", "validator", "knowledge", "gateway")

_EVERYONE: tuple[type[ev.Event], ...] = (ev.Waiting, ev.Escalated)

SAYS: Mapping[str, tuple[type[ev.Event], ...]] = {
    "monitor": (ev.Opened, ev.AlertUpdated, ev.Cleared, *_EVERYONE),
    "diagnosis": (ev.Diagnosed, ev.Undiagnosed, *_EVERYONE),
    "planner": (ev.Planned, ev.Observed, *_EVERYONE),
    "executor": (
        ev.Rehearsed, ev.RehearsalFailed, ev.ApprovalRequested, ev.Expired, ev.Refused, ev.Proposed, ev.Applying, ev.Applied,
        ev.ApplyFailed, ev.RollingBack, ev.RolledBack, ev.RollbackFailed, ev.Stale, *_EVERYONE,
    ),
    "validator": (ev.Reproduced, ev.NotReproduced, ev.Recovered, ev.NotRecovered, ev.Inconclusive, *_EVERYONE),
    "knowledge": (ev.LessonRecorded, *_EVERYONE),
    "gateway": (ev.Opened, ev.Approved, ev.Rejected, ev.Cancelled, ev.Reopened, *_EVERYONE),
}

ENDINGS: tuple[type[ev.Event], ...] = (
    ev.NotReproduced, ev.Observed, ev.Proposed, ev.Recovered, ev.Undiagnosed, ev.Rejected, ev.Expired, ev.Refused,
    ev.RolledBack, ev.RollbackFailed, ev.RehearsalFailed, ev.NotRecovered, ev.Escalated, ev.Cancelled,
)
"""What knowledge learns from: how incidents end, and how single attempts fail."""

HEARS: Mapping[str, tuple[type[ev.Event], ...]] = {
    "monitor": (),
    "diagnosis": (ev.Reproduced,),
    "planner": (ev.Diagnosed, ev.RehearsalFailed, ev.RolledBack, ev.Stale),
    "executor": (
        ev.Planned, ev.Rehearsed, ev.Approved, ev.Applying, ev.ApplyFailed, ev.NotRecovered, ev.RollingBack, ev.Cancelled,
    ),
    "validator": (ev.Opened, ev.Reopened, ev.Applied, ev.Inconclusive),
    "knowledge": ENDINGS,
    "gateway": (),
}

SERVES: Mapping[str, tuple[type[rq.Request], ...]] = {
    "knowledge": (rq.Search, rq.Recall, rq.IndexCode),
    "executor": (rq.Inspect, rq.Logs, rq.RunTests, rq.Snapshot),
    "validator": (rq.Recheck,),
    "monitor": (rq.Silenced,),
}

ASKS: Mapping[str, tuple[type[rq.Request], ...]] = {
    "monitor": (),
    "diagnosis": (rq.Search, rq.Recall, rq.Inspect, rq.Logs, rq.RunTests, rq.IndexCode),
    "planner": (rq.Search, rq.Recall, rq.Inspect, rq.RunTests, rq.Snapshot, rq.IndexCode),
    "executor": (rq.Recheck, rq.Silenced),
    "validator": (rq.RunTests,),
    "knowledge": (),
    "gateway": (rq.Search, rq.Recall, rq.Inspect),
}

TIMERS: tuple[str, ...] = ("executor", "validator")
"""Rooms that set timers; each hears timers.fired.<room>."""

INCIDENTS = "INCIDENTS"
DEAD_LETTERS = "DEAD_LETTERS"
ADVISORIES = "ADVISORIES"
TIMER_STREAM = "TIMERS"
UNMATCHED = "UNMATCHED"
TARGETS_BUCKET = "TARGETS"
LEASES_BUCKET = "LEASES"
CONTROL_BUCKET = "CONTROL"
BLOBS_BUCKET = "BLOBS"
KEEPS_BLOBS: tuple[str, ...] = ("diagnosis", "planner", "executor", "validator", "knowledge", "gateway")
"""Rooms that put into the object store and read from it."""


def durable(room: str, event: type[ev.Event]) -> str:
    """The name of the consumer by which a room hears an event."""
    return f"{room}_{event.name}"


def live_subject(incident_id: str) -> str:
    """Core NATS: cancellation of an incident, told at once to whoever works on it."""
    return f"live.cancelled.{incident_id}"


def dead_letter_subject(room: str) -> str:
    """Where a room puts what it cannot handle."""
    return f"dead_letters.{room}"


def timer_subjects(room: str, incident_id: str, purpose: str) -> tuple[str, str]:
    """The subject that holds a timer until it is due, and the one on which it fires."""
    return f"timers.set.{room}.{incident_id}.{purpose}", f"timers.fired.{room}"


UNMATCHED_SUBJECT = "unmatched.alerts"
