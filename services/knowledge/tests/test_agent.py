"""What counts as an outcome, how far it is trusted, and the three gates."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopatch.contract import events as ev
from autopatch.contract.actions import Reload, RollbackRelease, SetConfig
from autopatch.contract.requests import Recall, RunbookPlan
from services.knowledge import agent
from services.knowledge.tests.fakes import SIGNATURE, START, diagnosed, heard, incident, opened, plan, rehearsal, until_applied

RECOVERED = ev.Recovered(comparisons=())
QUESTION = Recall(signature=SIGNATURE, target="payments", cause="pool_exhausted", alertname="PaymentLatencyHigh")


def _outcome(events: list[ev.Event], which: int = -1) -> agent.Outcome | None:
    made = heard(events, which=which)
    return agent.outcome_of(made.incident, made.stored)


def _made(result: str, age_days: float = 0, **changed: str) -> agent.Outcome:
    base = _outcome([*until_applied(), RECOVERED])
    assert base
    return base.model_copy(update={"result": result, "at": START - timedelta(days=age_days), **changed})


def test_a_recovery_proven_on_live_signals_counts_for_the_plan_that_was_applied() -> None:
    outcome = _outcome([*until_applied(), RECOVERED])
    assert outcome and (outcome.result, outcome.how, outcome.target) == ("recovered", "recovered", "payments")
    assert outcome.lesson == agent.lesson_id(SIGNATURE, plan())


def test_a_plan_that_did_not_recover_failed_once_though_two_events_tell_of_it() -> None:
    events = [*until_applied(), ev.NotRecovered(reason="worse"), ev.RollingBack(reason="r"), ev.RolledBack(results=())]
    assert (first := _outcome(events, -3)) and first.result == "failed"
    assert _outcome(events) is None


def test_a_plan_that_could_not_be_applied_failed_when_it_is_rolled_back() -> None:
    events = [
        *until_applied()[:-1],
        ev.ApplyFailed(plan_hash="h", results=(), reason="r"),
        ev.RollingBack(reason="r"),
        ev.RolledBack(results=()),
    ]
    assert (outcome := _outcome(events)) and outcome.how == "rolled_back"


def test_a_rollback_because_a_person_cancelled_says_nothing_about_the_fix() -> None:
    assert _outcome([*until_applied(), ev.Cancelled(person="ada"), ev.RollingBack(reason="r"), ev.RolledBack(results=())]) is None


@pytest.mark.parametrize(("changed", "counts"), [("red", True), ("error", True), (None, False)])
def test_a_failed_rehearsal_counts_only_if_the_fix_itself_was_run(changed: str | None, counts: bool) -> None:
    events = [*until_applied()[:4], ev.RehearsalFailed(plan_hash="h", rehearsal=rehearsal(changed))]
    assert (_outcome(events) is not None) is counts


def test_an_event_heard_late_is_judged_by_the_log_as_it_was_then() -> None:
    second = plan((SetConfig(file="main", key="database.pool_size", value=30), Reload()))
    events = [
        *until_applied()[:4],
        ev.RehearsalFailed(plan_hash="h", rehearsal=rehearsal("red")),
        ev.Planned(plan=second, plan_hash=second.hash, model=diagnosed().model),
    ]
    assert (outcome := _outcome(events, 4)) and outcome.plan == plan()


@pytest.mark.parametrize("event", [ev.Escalated(reason="r", room="planner"), ev.Cancelled(person="ada")])
def test_other_endings_prove_nothing(event: ev.Event) -> None:
    assert _outcome([*until_applied()[:5], event]) is None
    assert _outcome([opened(), event]) is None


def test_the_same_actions_with_other_preconditions_and_words_are_the_same_lesson() -> None:
    assert agent.lesson_id(SIGNATURE, plan()) == agent.lesson_id(
        SIGNATURE, plan(digest="other").model_copy(update={"summary": "x"})
    )
    assert agent.lesson_id(SIGNATURE, plan()) != agent.lesson_id(SIGNATURE, plan((RollbackRelease(release="1"),)))
    assert agent.lesson_id(SIGNATURE, plan()) != agent.lesson_id("other", plan())


def test_trust_has_the_values_that_its_formula_promises() -> None:
    def value(*outcomes: agent.Outcome) -> float:
        return round(agent.trust(outcomes, START, 90), 2)

    good, bad = _made("recovered"), _made("failed")
    assert (value(), value(good), value(good, good), value(good, bad), value(bad)) == (0, 0.5, 0.67, 0.33, 0)
    assert value(_made("recovered", 90)) == 0.33 and value(_made("recovered", 3650)) == 0


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 1000)), max_size=8), st.floats(0, 1000))
def test_trust_rises_with_recoveries_falls_with_failures_and_stays_between_0_and_1(
    past: list[tuple[bool, float]], age: float
) -> None:
    base = [_made("recovered" if good else "failed", days) for good, days in past]
    here = agent.trust(base, START, 90)
    assert (
        0
        <= agent.trust([*base, _made("failed", age)], START, 90)
        <= here
        <= agent.trust([*base, _made("recovered", age)], START, 90)
        < 1
    )


def _gates(*outcomes: agent.Outcome, bar: float = 0.4) -> tuple[int, str]:
    passed, withheld = agent.past_the_gates(agent.lessons(outcomes, START, 90), QUESTION, bar)
    return len(passed), "".join(withheld)


def test_one_validated_recovery_without_a_failure_passes() -> None:
    assert _gates(_made("recovered")) == (1, "")


@pytest.mark.parametrize(
    ("outcomes", "why"),
    [
        ((_made("recovered", target="orders", signature="orders/p95/pool_exhausted"),), "learnt on target orders"),
        ((_made("recovered", signature="payments/errors/pool_exhausted"),), "another signature"),
        ((_made("failed"),), "never recovered"),
        ((_made("recovered"), _made("failed")), "trust 0.33 is below 0.40; recovered 1, failed 1"),
        ((_made("recovered", 365),), "below 0.40"),
    ],
)
def test_each_gate_withholds_and_says_why(outcomes: tuple[agent.Outcome, ...], why: str) -> None:
    passed, withheld = _gates(*outcomes)
    assert passed == 0 and why in withheld


def test_the_most_trusted_lesson_comes_first_with_the_plan_of_its_newest_recovery() -> None:
    newer = _made("recovered").model_copy(update={"plan": plan(digest="newer")})
    other = _made("recovered", 80, lesson="lesson-other")
    [first, second] = agent.lessons([other, _made("recovered", 10), newer], START, 90)
    assert (first.recovered, first.plan.steps[0].precondition.config_digest, second.id) == (2, "newer", "lesson-other")


def _book(name: str, **fields: object) -> RunbookPlan:
    return RunbookPlan.model_validate(
        {"name": name, "title": name, "causes": ("pool_exhausted",), "actions": ({"kind": "reload"},), **fields}
    )


def test_the_most_specific_runbook_comes_first_and_those_for_others_are_left_out() -> None:
    books = [
        _book("general"),
        _book("by_alert", alerts=("PaymentLatencyHigh",)),
        _book("other_alert", alerts=("DiskFull",)),
        _book("by_service", service="payment_processor"),
        _book("other_service", service="orders"),
        _book("prose", actions=()),
        _book("other_cause", causes=("disk",)),
    ]
    fit = agent.fitting(books, QUESTION, {"payments", "payment_processor"})
    assert [book.name for book in fit] == ["by_alert", "by_service", "general", "prose"]


def test_a_summary_tells_the_whole_story_and_is_bounded() -> None:
    events = [*until_applied()[:5], ev.ApprovalRequested(plan_hash=plan().hash, why="w", expires_at=START)]
    rejected = ev.Rejected(plan_hash=plan().hash, person="ada", reason="not during the sale " * 200)
    title, text = agent.summary_of(incident([*events, rejected]))
    assert title == "PaymentLatencyHigh" and "no connection in the pool" in text and "Plan from runbook pool" in text
    assert "Rejected by ada: not during the sale" in text and len(text) == agent.SUMMARY_LENGTH
