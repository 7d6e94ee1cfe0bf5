"""Intervals, paired differences and quantiles, against values that others computed and against definitions."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from bench.repair.stats import mcnemar, quantile, wilson


@pytest.mark.parametrize(("hits", "total", "low", "high"), [(5, 5, 0.566, 1.0), (0, 10, 0.0, 0.278), (79, 163, 0.409, 0.561)])
def test_a_share_has_the_interval_of_the_tables(hits: int, total: int, low: float, high: float) -> None:
    share = wilson(hits, total)
    assert abs(share.low - low) < 6e-4 and abs(share.high - high) < 6e-4


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_an_interval_is_as_another_implementation_has_it(counts: tuple[int, int]) -> None:
    hits, total = counts
    other = binomtest(hits, total).proportion_ci(0.95, method="wilson")
    share = wilson(hits, total)
    assert math.isclose(share.low, other.low, abs_tol=1e-9) and math.isclose(share.high, other.high, abs_tol=1e-9)


def test_nothing_says_nothing() -> None:
    assert (wilson(0, 0).value, wilson(0, 0).low, wilson(0, 0).high) == (None, 0.0, 1.0)


@pytest.mark.parametrize(("hits", "total"), [(-1, 3), (4, 3)])
def test_impossible_counts_are_refused(hits: int, total: int) -> None:
    with pytest.raises(ValueError):
        wilson(hits, total)


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 5))
def test_a_paired_difference_is_the_two_sided_binomial_test(first: int, second: int, both: int) -> None:
    one = {f"a{n}": True for n in range(first)} | {f"b{n}": False for n in range(second)} | {f"c{n}": True for n in range(both)}
    two = {f"a{n}": False for n in range(first)} | {f"b{n}": True for n in range(second)} | {f"c{n}": True for n in range(both)}
    found = mcnemar(one, two)
    p = binomtest(first, first + second, 0.5).pvalue if first + second else 1.0
    assert math.isclose(found.p, p, rel_tol=1e-9)
    assert (found.cases, found.only_first, found.only_second) == (first + second + both, first, second)


def test_only_what_both_were_given_is_compared() -> None:
    found = mcnemar({"a": True, "b": False, "x": True}, {"a": False, "b": False, "y": True})
    assert (found.cases, found.only_first, found.only_second, found.difference) == (2, 1, 0, 0.5)


def test_quantiles_lie_between_values() -> None:
    assert quantile([4, 1, 3, 2], 0.5) == 2.5
    assert quantile([7], 0.95) == 7
    assert quantile([], 0.5) is None
    with pytest.raises(ValueError):
        quantile([1], 1.5)
