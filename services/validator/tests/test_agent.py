"""The verdict over several signals, and how often noise alone would give one."""

import numpy as np
import pytest

from autopatch.contract import events as ev
from autopatch.contract.evidence import Comparison
from autopatch.contract.target import Signal
from services.validator.agent import Evidence, guard_alpha, judge, whole_second
from services.validator.ranks import Rule, compare, measured
from services.validator.tests.given import after
from services.validator.tests.test_ranks import RED, SOAK, ar1, result

RULE = Rule()
CHECK = Signal(query="p95", role="check", threshold=1.0)
GUARD = Signal(query="g", role="guard")
TRAFFIC = Signal(query="rate", role="traffic", bad="below")


def compared(name: str, signal: Signal, before: np.ndarray, later: np.ndarray, alpha: float | None = None) -> Comparison:
    return compare(
        name, signal, measured(name, signal, result(RED, list(before)), RED, 6),
        measured(name, signal, result(SOAK, list(later)), SOAK, 6), RULE, alpha=alpha,
    )


def verdict(rng: np.random.Generator, rho: float, level: float, guards: int) -> ev.Event:
    """The same process before and after, at `level` times the threshold, with so many guards that do not change either."""
    both, load = level * ar1(rng, rho, 120), ar1(rng, rho, 120)
    others = [compared("traffic", TRAFFIC, load[:60], load[60:])]
    for i in range(guards):
        noise = ar1(rng, rho, 120)
        others.append(compared(f"g{i}", GUARD, noise[:60], noise[60:], guard_alpha(RULE, guards)))
    return judge(Evidence(compared("check", CHECK, both[:60], both[60:]), CHECK, (), tuple(others), (None, None)))


@pytest.mark.parametrize("rho", [0.5, 0.9])
@pytest.mark.parametrize("level", [1.05, 1.5])
def test_red_that_stays_red_is_never_called_recovered(rho: float, level: float) -> None:
    rng = np.random.default_rng(3)
    assert not any(isinstance(verdict(rng, rho, level, 1), ev.Recovered) for _ in range(60))


@pytest.mark.parametrize("rho", [0.5, 0.9])
def test_ten_guards_together_hardly_ever_see_harm_in_noise(rho: float) -> None:
    rng = np.random.default_rng(4)
    found = [verdict(rng, rho, 0.5, 10) for _ in range(40)]
    assert sum(isinstance(v, ev.NotRecovered) for v in found) / len(found) <= 0.05


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_a_cure_is_seen_through_noise(rho: float) -> None:
    rng = np.random.default_rng(5)
    found = []
    for _ in range(40):
        load = ar1(rng, rho, 120)
        check = compared("check", CHECK, 2 * ar1(rng, rho), 0.5 * ar1(rng, rho))
        found.append(judge(Evidence(check, CHECK, (), (compared("traffic", TRAFFIC, load[:60], load[60:]),), (None, None))))
    assert sum(isinstance(v, ev.Recovered) for v in found) >= 38


def test_guards_share_the_error_rate_but_can_always_speak() -> None:
    assert guard_alpha(RULE, 1) == RULE.alpha
    assert guard_alpha(RULE, 3) == pytest.approx(RULE.alpha / 3)
    assert guard_alpha(RULE, 100) > 1 / 924
    harm = compared("g", GUARD, np.linspace(1, 1.1, 60), np.linspace(2, 2.1, 60), guard_alpha(RULE, 100))
    assert harm.verdict == "worse"


def test_timers_are_rounded_up_to_whole_seconds() -> None:
    assert whole_second(after(1.2)) == after(2)
    assert whole_second(after(2)) == after(2)
