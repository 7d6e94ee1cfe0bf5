"""Release 1: one rate for every currency."""


def fee_cents(amount_cents: int, currency: str) -> int:
    """1.4 % and 25 cents, rounded up."""
    return -(-amount_cents * 14 // 1000) + 25
