"""Refunds: how much of a payment's fee goes back with it, and how the sum is spread over the instalments that were paid."""

from collections.abc import Mapping
from typing import Any

STEPS = ((14, 100), (45, 50), (120, 25))
"""Until so many days after the payment, so many percent of its fee are given back; after the last step nothing is."""
MOST_INSTALMENTS = 36


def refund(amount_cents: int, fee_cents: int, order: Mapping[str, Any]) -> dict[str, Any]:
    """What the answer says about a refund. Raises ValueError for an order that is none."""
    days = _whole_number(order, "days", 0, 0, 36_500)
    instalments = _whole_number(order, "instalments", 1, 1, MOST_INSTALMENTS)
    back = fee_back(fee_cents, days)
    return {"fee_back_cents": back, "parts": spread(amount_cents + back, instalments)}


def fee_back(fee_cents: int, days: int) -> int:
    """Cents of the fee that are given back so many days after the payment, rounded down."""
    return fee_cents * percent_back(days) // 100


def percent_back(days: int) -> int:
    """By the first step that has not passed yet."""
    step = 0
    while step <= len(STEPS) and days > STEPS[step][0]:
        step += 1
    return STEPS[step][1] if step < len(STEPS) else 0


def spread(cents: int, instalments: int) -> list[int]:
    """As equal as whole cents allow; the first instalments get the odd ones."""
    each, odd = divmod(cents, instalments)
    return [each + 1 if number < odd else each for number in range(instalments)]


def _whole_number(order: Mapping[str, Any], name: str, default: int, low: int, high: int) -> int:
    value = order.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{name} must be a whole number from {low} to {high}")
    return value
