"""Release 2: a rate per currency. One currency that customers use was forgotten: this is the bad release of the demo."""

PER_MILLE = {"EUR": 12, "USD": 14, "GBP": 14, "JPY": 18}


def fee_cents(amount_cents: int, currency: str) -> int:
    """The currency's rate and 25 cents, rounded up."""
    return -(-amount_cents * PER_MILLE[currency] // 1000) + 25
