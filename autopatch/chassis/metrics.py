"""Prometheus metrics that every room has. An incident's id is never a label."""

from prometheus_client import Counter, Gauge, Histogram

HANDLED = Counter("autopatch_messages", "Messages by what became of them", ["room", "outcome"])
SECONDS = Histogram(
    "autopatch_handler_seconds", "Seconds that a handler took", ["room", "event"],
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300),
)
DEAD = Counter("autopatch_dead_letters", "Messages that could not be handled", ["room"])
INCIDENTS = Counter("autopatch_incidents", "Incidents by how they ended", ["outcome"])
PENDING = Gauge("autopatch_consumer_pending", "Events that wait to be heard", ["room", "consumer"])
APPROVALS = Gauge("autopatch_approvals_waiting", "Incidents that wait for a person")
STAGE = Histogram(
    "autopatch_stage_seconds", "Seconds from the alert to a stage", ["stage"],
    buckets=(0.1, 0.5, 1, 5, 15, 30, 60, 120, 300, 900, 3600),
)
