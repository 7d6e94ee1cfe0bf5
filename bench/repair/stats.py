"""Statistics of small samples. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Z95 = 1.959963984540054
"""Two-sided 95 % quantile of the normal distribution."""


@dataclass(frozen=True)
class Share:
    """`hits` of `total`, and the interval (0 to 1) that holds the true share in 95 of 100 samples."""

    hits: int
    total: int
    low: float
    high: float

    @property
    def value(self) -> float | None:
        """The share, None of nothing."""
        return self.hits / self.total if self.total else None


def wilson(hits: int, total: int, z: float = Z95) -> Share:
    """Score interval of a share (Wilson 1927). Of nothing it is 0 to 1. Raises ValueError for impossible counts."""
    if not 0 <= hits <= total:
        raise ValueError(f"{hits} of {total} is no share")
    if total == 0:
        return Share(0, 0, 0.0, 1.0)
    p, square = hits / total, z * z
    centre = (p + square / (2 * total)) / (1 + square / total)
    half = z * math.sqrt(p * (1 - p) / total + square / (4 * total * total)) / (1 + square / total)
    return Share(hits, total, 0.0 if hits == 0 else centre - half, 1.0 if hits == total else centre + half)


@dataclass(frozen=True)
class Paired:
    """Two tools on the same cases. `difference` is the first's share less the second's, of the cases that both had."""

    cases: int
    only_first: int
    only_second: int
    difference: float
    p: float


def mcnemar(first: Mapping[str, bool], second: Mapping[str, bool]) -> Paired:
    """Exact McNemar test, two-sided: under no difference, the cases that only one solved fall to either with chance 1/2.

    Only cases that both have are compared. p is 1 when they never differ.
    """
    both = first.keys() & second.keys()
    only_first = sum(first[case] and not second[case] for case in both)
    only_second = sum(second[case] and not first[case] for case in both)
    differing, fewer = only_first + only_second, min(only_first, only_second)
    tail = sum(math.comb(differing, k) for k in range(fewer + 1)) / 2**differing
    difference = (only_first - only_second) / len(both) if both else 0.0
    return Paired(len(both), only_first, only_second, difference, min(1.0, 2 * tail))


def quantile(values: Sequence[float], q: float) -> float | None:
    """Linear between the two nearest of the sorted values (Hyndman and Fan, type 7); None of nothing. `q` is 0 to 1."""
    if not 0 <= q <= 1:
        raise ValueError(f"{q} is no quantile")
    if not values:
        return None
    ranked = sorted(values)
    at = q * (len(ranked) - 1)
    low, high = math.floor(at), math.ceil(at)
    return ranked[low] + (ranked[high] - ranked[low]) * (at - low)
