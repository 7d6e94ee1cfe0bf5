"""Release 3: release 1's rate for every currency, and refunds that give part of the fee back and are spread over instalments."""

from payments.releases.r3.refunds import refund

__all__ = ["fee_cents", "refund"]


def fee_cents(amount_cents: int, currency: str) -> int:
    """1.4 % and 25 cents, rounded up."""
    return -(-amount_cents * 14 // 1000) + 25
