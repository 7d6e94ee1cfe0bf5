"""What a payment costs."""

import pytest

from payments.releases.r3 import fee_cents


@pytest.mark.parametrize(("amount", "fee"), [(1, 26), (1000, 39), (1250, 43), (50_000, 725)])
def test_the_fee_is_a_share_and_a_fixed_part_rounded_up(amount: int, fee: int) -> None:
    assert fee_cents(amount, "EUR") == fee


def test_every_currency_has_the_same_rate() -> None:
    assert len({fee_cents(9999, currency) for currency in ("EUR", "USD", "GBP", "JPY", "CHF")}) == 1
