"""Reads gauges of a boiler and says when one leaves its range."""

from gauges.watch import Gauge, Range, watch

__all__ = ["Gauge", "Range", "watch"]
