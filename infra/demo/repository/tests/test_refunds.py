"""How much goes back, and in which parts."""

import pytest

from payments.releases.r3 import refund
from payments.releases.r3.refunds import fee_back, percent_back, spread


@pytest.mark.parametrize(("days", "percent"), [(0, 100), (14, 100), (15, 50), (45, 50), (46, 25), (120, 25)])
def test_the_share_of_the_fee_that_is_given_back_falls_step_by_step(days: int, percent: int) -> None:
    assert percent_back(days) == percent


def test_the_fee_that_is_given_back_is_rounded_down() -> None:
    assert [fee_back(43, days) for days in (1, 30, 90)] == [43, 21, 10]


def test_parts_are_as_equal_as_whole_cents_allow_and_lose_none() -> None:
    assert spread(100, 3) == [34, 33, 33]
    for cents in range(1, 40):
        for instalments in range(1, 7):
            parts = spread(cents, instalments)
            assert sum(parts) == cents and max(parts) - min(parts) <= 1 and len(parts) == instalments


def test_a_refund_gives_back_the_amount_and_its_share_of_the_fee() -> None:
    assert refund(1250, 43, {"days": 20, "instalments": 2}) == {"fee_back_cents": 21, "parts": [636, 635]}
    assert refund(1250, 43, {}) == {"fee_back_cents": 43, "parts": [1293]}


@pytest.mark.parametrize("order", [{"days": -1}, {"days": "3"}, {"days": True}, {"instalments": 0}, {"instalments": 1.5}])
def test_an_order_that_is_none_is_refused(order: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="must be a whole number"):
        refund(1250, 43, order)
