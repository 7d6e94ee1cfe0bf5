"""The rank test on block means: what it finds, and how rarely it finds what is not there."""

from datetime import timedelta
from statistics import median

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autopatch.chassis.prometheus import Failed, Nothing, Result, Series, Value
from autopatch.contract.evidence import Comparison
from autopatch.contract.target import Signal
from services.validator.ranks import Rule, Window, compare, effect, measured, p_lower
from services.validator.tests.given import T0, after

CHECK = Signal(query="p95", role="check", threshold=0.2, unit="s")
RED = Window(T0, after(295), 5)
SOAK = Window(after(400), after(695), 5)


def result(window: Window, values: list[float]) -> Result:
    start = window.start.timestamp()
    times = tuple(start + i * window.step_s for i in range(len(values)))
    return Value(series=(Series(labels={}, times=times, values=tuple(values)),))


def compared(signal: Signal, before: list[float], later: list[float]) -> Comparison:
    return compare(
        "x", signal, measured("x", signal, result(RED, before), RED, 6), measured("x", signal, result(SOAK, later), SOAK, 6),
        Rule(),
    )


def ar1(rng: np.random.Generator, rho: float, count: int = 60, noise: float = 0.1) -> np.ndarray:
    """Autocorrelated noise around 1 with standard deviation `noise`."""
    steps = rng.normal(0, noise * np.sqrt(1 - rho**2), count)
    steps[0] = rng.normal(0, noise)
    for i in range(1, count):
        steps[i] += rho * steps[i - 1]
    return 1 + steps


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_noise_alone_is_hardly_ever_a_difference(rho: float) -> None:
    rng = np.random.default_rng(11)
    found = []
    for _ in range(150):
        both = ar1(rng, rho, 120)
        found.append(compared(CHECK, list(both[:60]), list(both[60:])).verdict)
    assert sum(v != "same" for v in found) / len(found) <= 0.02


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_half_of_a_signal_is_found_through_noise(rho: float) -> None:
    rng = np.random.default_rng(12)
    found = [compared(CHECK, list(ar1(rng, rho)), list(0.5 * ar1(rng, rho))).verdict for _ in range(60)]
    assert sum(v == "better" for v in found) >= 57


@given(st.lists(st.floats(0.01, 100), min_size=60, max_size=60))
@settings(max_examples=20, deadline=None)
def test_the_same_samples_twice_are_the_same(values: list[float]) -> None:
    assert compared(CHECK, values, values).verdict == "same"


@given(st.lists(st.floats(0.3, 3), min_size=60, max_size=60), st.lists(st.floats(0.3, 3), min_size=60, max_size=60))
@settings(max_examples=20, deadline=None)
def test_turning_a_signal_around_turns_the_verdict_around(before: list[float], later: list[float]) -> None:
    below = Signal(query="q", role="guard", bad="below")
    above = Signal(query="q", role="guard", bad="above")
    turned = {"better": "worse", "worse": "better", "same": "same"}
    assert compared(below, before, later).verdict == turned[compared(above, before, later).verdict]


def test_the_smallest_p_value_of_six_against_six_is_one_of_924_also_with_ties() -> None:
    assert p_lower([5] * 6, [1, 2, 3, 4, 4.5, 4.9]) == pytest.approx(1 / 924)
    assert p_lower([5] * 6, [1] * 6) == pytest.approx(1 / 924)
    assert p_lower([5] * 6, [5] * 6) == 1.0


def test_a_constant_red_signal_that_falls_is_better() -> None:
    found = compared(CHECK, [10.0] * 60, [0.1] * 60)
    assert found.verdict == "better"
    assert found.p_value == pytest.approx(1 / 924)


def test_a_significant_but_small_change_is_the_same() -> None:
    assert compared(CHECK, [1.0] * 60, [0.9] * 60).verdict == "same"


def test_a_guard_that_was_zero_and_is_not_any_more_is_worse() -> None:
    guard = Signal(query="errors", role="guard")
    found = compared(guard, [0.0] * 60, [0.3] * 60)
    assert (found.verdict, found.effect) == ("worse", 1.0)
    assert effect(0, 0, None) == 0


def test_a_guard_that_crosses_its_threshold_is_worse_even_by_little() -> None:
    guard = Signal(query="errors", role="guard", threshold=0.05)
    assert compared(guard, [0.048] * 60, [0.052] * 60).verdict == "worse"


def test_a_guard_on_the_good_side_of_its_threshold_is_not_worse_however_it_moved() -> None:
    guard = Signal(query="latency", role="guard", threshold=0.2)
    assert compared(guard, [0.03] * 60, [0.11] * 60).verdict == "same"
    assert compared(guard.model_copy(update={"threshold": None}), [0.03] * 60, [0.11] * 60).verdict == "worse"


def test_a_gap_in_a_window_makes_the_verdict_unknown() -> None:
    found = compared(CHECK, [1.0] * 60, [0.1] * 45)
    assert found.verdict == "unknown"
    assert "after: 45 samples do not cover all 6 parts" in found.why


def test_six_samples_are_enough_and_five_are_not() -> None:
    six, five = Window(T0, after(25), 5), Window(T0, after(20), 5)
    assert len(measured("x", CHECK, result(six, [1.0] * 6), six, 6).blocks) == 6
    assert measured("x", CHECK, result(five, [1.0] * 5), five, 6).blocks == ()


def test_no_series_a_refused_query_and_too_many_series_are_told_apart() -> None:
    series = Series(labels={"a": "1"}, times=(1.0,), values=(1.0,))
    many = measured("x", CHECK, Value(series=(series, series)), RED, 6)
    assert (many.status, "2 series" in many.reason) == ("failed", True)
    assert measured("x", CHECK, Nothing(), RED, 6).status == "nothing"
    assert measured("x", CHECK, Failed(reason="parse error"), RED, 6).reason == "parse error"


def test_the_share_of_red_samples_counts_the_bad_side_only() -> None:
    below = Signal(query="up", role="check", bad="below", threshold=1)
    seen = measured("x", below, result(RED, [1.0] * 30 + [0.5] * 30), RED, 6)
    assert (seen.red_share, seen.last) == (0.5, 0.5)


def test_traffic_needs_seventy_percent_of_what_it_was() -> None:
    traffic = Signal(query="rate", role="traffic", bad="below")
    assert compared(traffic, [100.0] * 60, [71.0] * 60).verdict == "same"
    assert compared(traffic, [100.0] * 60, [69.0] * 60).verdict == "worse"
    assert compared(traffic, [0.0] * 60, [0.0] * 60).verdict == "worse"
    assert compared(traffic, [0.0] * 60, [5.0] * 60).verdict == "same"


def test_blocks_are_means_of_equal_parts() -> None:
    seen = measured("x", CHECK, result(RED, [float(i // 10) for i in range(60)]), RED, 6)
    assert seen.blocks == (0, 1, 2, 3, 4, 5)
    assert median(seen.blocks) == 2.5
    assert RED.times == 60
    assert RED.length_s == timedelta(seconds=295).total_seconds()
