"""A soak that was extended: one whole soak without red is needed, wherever in it that begins."""

import pytest

from autopatch.contract import events as ev
from services.validator.tests.given import P95, RULE, after, up_to_applied
from services.validator.tests.test_service import Case

EXTENDED = [*up_to_applied(), (172, ev.Inconclusive(reason="r"))]
"""Judged from 111 to 231, 60 s of which must be green."""


@pytest.mark.parametrize(("red_again", "begins"), [((111, 116), 116), ((130, 136), 136), ((300, 310), 111)])
async def test_what_settled_late_counts_from_when_it_has(red_again: tuple[float, float], begins: float) -> None:
    found = await _soaked(red_again)
    assert isinstance(found, ev.Recovered) and found.comparisons[0].after.start == after(begins)


async def test_what_was_red_later_than_that_is_not_proven() -> None:
    found = await _soaked((168, 176))
    assert isinstance(found, ev.Inconclusive) and "latency was red for" in found.reason


async def _soaked(red_again: tuple[float, float]) -> ev.Event:
    first, last = red_again
    curves = {P95: lambda t: 1.5 if t < 102 or first <= t < last else 0.08, RULE.query: lambda t: 1.0 if t < 105 else None}
    found: ev.Event = await Case(EXTENDED, curves, at=232).timer()
    return found
