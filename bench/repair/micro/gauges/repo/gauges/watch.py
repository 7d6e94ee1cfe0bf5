"""Ranges, gauges and the watch over them."""

from collections.abc import Iterable
from dataclasses import dataclass

from boilerhouse_fieldbus import Register


@dataclass(frozen=True)
class Range:
    """Both ends belong to it."""

    low: float
    high: float

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True)
class Gauge:
    """A register of the field bus, and what is good there."""

    name: str
    register: Register
    good: Range

    def read(self) -> float:
        return self.register.value() * self.register.scale


def watch(gauges: Iterable[Gauge]) -> list[str]:
    """Names of gauges outside of their range."""
    return [gauge.name for gauge in gauges if not gauge.good.holds(gauge.read())]
