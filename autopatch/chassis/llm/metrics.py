"""Counters over ledger entries, served at /metrics. No incident ids: those are for traces."""

from functools import cache
from typing import TYPE_CHECKING

from prometheus_client import REGISTRY, CollectorRegistry, Counter

if TYPE_CHECKING:
    from autopatch.chassis.llm.ledger import Entry


class ModelMetrics:
    """What model calls took, by mode and model."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ("mode", "model")
        self._calls = Counter("autopatch_model_calls", "calls that were made", (*labels, "outcome"), registry=registry)
        self._tokens = Counter(
            "autopatch_model_tokens",
            "tokens, as the endpoint or else our estimate counts them",
            (*labels, "direction"),
            registry=registry,
        )
        self._seconds = Counter("autopatch_model_seconds", "seconds spent waiting for answers", labels, registry=registry)
        self._cost = Counter("autopatch_model_cost_usd", "by the prices in the settings", labels, registry=registry)

    def __call__(self, entry: "Entry") -> None:
        """Count one."""
        self._calls.labels(entry.mode, entry.model, entry.outcome).inc()
        self._tokens.labels(entry.mode, entry.model, "input").inc(entry.input_tokens)
        self._tokens.labels(entry.mode, entry.model, "output").inc(entry.output_tokens)
        self._seconds.labels(entry.mode, entry.model).inc(entry.seconds)
        self._cost.labels(entry.mode, entry.model).inc(entry.cost_usd)


@cache
def served() -> ModelMetrics:
    """Those of this process."""
    return ModelMetrics(REGISTRY)
