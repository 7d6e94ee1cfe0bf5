import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import REGISTRY, CollectorRegistry

from autopatch.chassis.llm.errors import BudgetSpent
from autopatch.chassis.llm.ledger import Ask, Entry, Ledger
from autopatch.chassis.llm.metrics import ModelMetrics
from autopatch.chassis.llm.settings import Limits, Prices
from autopatch.contract.errors import Refused
from autopatch.contract.evidence import ModelUse
from autopatch.contract.lifecycle import Incident


def ask(**changed: Any) -> Ask:
    given = {"mode": "local", "model": "m", "prompt": "p", "input_tokens": 100, "output_tokens": 50, "seconds": 10.0, **changed}
    return Ask(**given)


def ticking(step: float = 1.0) -> Callable[[], float]:
    now = [0.0]

    def clock() -> float:
        now[0] += step
        return now[0]

    return clock


def spend(ledger: Ledger, **changed: Any) -> None:
    with ledger.call(ask(**changed)) as call:
        call.settle("answered", call.ask.input_tokens, call.ask.output_tokens)


@pytest.mark.parametrize(
    ("limits", "limit"),
    [
        (Limits(calls=2), "calls"),
        (Limits(tokens=449), "tokens"),
        (Limits(seconds=2), "seconds"),
        (Limits(cost_usd=0.0008), "cost_usd"),
    ],
)
def test_the_call_that_would_pass_a_limit_is_not_made(limits: Limits, limit: str) -> None:
    ledger = Ledger("i1", limits, clock=ticking())
    prices = Prices(input=1, output=4)
    for _ in range(2):
        spend(ledger, prices=prices)
    with pytest.raises(BudgetSpent, match=r"AUTOPATCH_LLM_LIMITS__" + limit.upper()) as caught, ledger.call(ask(prices=prices)):
        pytest.fail("the call was made")
    assert caught.value.limit == limit and isinstance(caught.value, Refused)
    assert len(ledger.entries) == 2


def test_a_limit_may_be_used_up_to_the_last_token() -> None:
    ledger = Ledger("i1", Limits(tokens=450))
    for _ in range(3):
        spend(ledger)
    assert sum(e.input_tokens + e.output_tokens for e in ledger.entries) == 450


def test_what_other_rooms_spent_counts() -> None:
    ledger = Ledger("i1", Limits(calls=3), spent=[ModelUse(mode="local", calls=2)])
    spend(ledger)
    with pytest.raises(BudgetSpent), ledger.call(ask()):
        pass
    assert ledger.use().calls == 1


def test_a_call_may_only_last_as_long_as_the_budget_has_seconds() -> None:
    ledger = Ledger("i1", Limits(seconds=14), clock=ticking())
    with ledger.call(ask()) as first, ledger.call(ask()) as second:
        assert (first.seconds, second.seconds) == (10.0, 4.0)


def test_a_call_that_nobody_settled_costs_what_was_reserved() -> None:
    ledger = Ledger("i1", Limits())
    with pytest.raises(RuntimeError), ledger.call(ask()):
        raise RuntimeError
    assert ledger.entries[0].outcome == "cancelled"
    assert ledger.use().input_tokens + ledger.use().output_tokens == 150


def test_an_endpoint_without_usage_is_charged_the_estimate() -> None:
    ledger = Ledger("i1", Limits())
    with ledger.call(ask()) as call:
        call.settle("answered", 0, 0)
    assert (ledger.use().input_tokens, ledger.use().output_tokens) == (100, 50)


def test_a_request_that_reached_nobody_costs_a_call_and_no_tokens() -> None:
    ledger = Ledger("i1", Limits())
    with ledger.call(ask()) as call:
        call.unanswered()
    assert (ledger.use().calls, ledger.use().input_tokens, ledger.entries[0].outcome) == (1, 0, "unavailable")


def test_without_calls_the_use_says_why() -> None:
    use = Ledger("i1", Limits()).use(mode="local", note="budget spent")
    assert (use.mode, use.calls, use.note) == ("local", 0, "budget spent")


@given(st.lists(st.tuples(st.integers(1, 300), st.integers(1, 300), st.floats(0, 1)), max_size=40))
def test_no_sequence_of_honest_calls_passes_any_limit(calls: list[tuple[int, int, float]]) -> None:
    limits = Limits(calls=20, tokens=2_000, cost_usd=0.01)
    ledger = Ledger("i1", limits)
    for given_in, given_out, share in calls:
        try:
            with ledger.call(ask(input_tokens=given_in, output_tokens=given_out, prices=Prices(input=5, output=10))) as call:
                call.settle("answered", max(1, int(given_in * share)), int(given_out * share))
        except BudgetSpent:
            continue
    use = ledger.use()
    assert use.calls <= 20 and use.input_tokens + use.output_tokens <= 2_000 and use.cost_usd <= 0.01


def test_threads_together_cannot_pass_a_limit() -> None:
    ledger = Ledger("i1", Limits(calls=1_000, tokens=7 * 150))
    together = threading.Barrier(16)

    def work() -> None:
        together.wait()
        for _ in range(5):
            try:
                spend(ledger)
            except BudgetSpent:
                return

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ledger.entries) == 7


def test_metrics_count_what_the_ledger_counts() -> None:
    registry = CollectorRegistry()
    seen: list[Entry] = []
    ledger = Ledger("i1", Limits(), listen=[ModelMetrics(registry), seen.append])
    spend(ledger)
    spend(ledger)
    labels = {"mode": "local", "model": "m"}
    assert registry.get_sample_value("autopatch_model_calls_total", {**labels, "outcome": "answered"}) == 2
    assert (
        registry.get_sample_value("autopatch_model_tokens_total", {**labels, "direction": "input"})
        == ledger.use().input_tokens
        == 200
    )
    assert tuple(seen) == ledger.entries


def test_an_incidents_calls_are_counted_where_metrics_are_served() -> None:
    labels = {"mode": "local", "model": "m", "outcome": "answered"}
    before = REGISTRY.get_sample_value("autopatch_model_calls_total", labels) or 0
    spend(Ledger.of(Incident("i1"), Limits()))
    assert REGISTRY.get_sample_value("autopatch_model_calls_total", labels) == before + 1
