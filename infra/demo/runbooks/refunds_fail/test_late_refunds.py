"""Attached to the runbook refunds_fail: what refunds long after the payment should do. Red while the fault is there."""

from payments.releases.r3 import refund
from payments.releases.r3.refunds import STEPS, percent_back


def test_a_refund_after_the_last_step_gives_nothing_of_the_fee_back() -> None:
    last, _ = STEPS[-1]
    assert [percent_back(days) for days in (last, last + 1, 365)] == [25, 0, 0]
    assert refund(1250, 43, {"days": last + 60, "instalments": 2}) == {"fee_back_cents": 0, "parts": [625, 625]}
