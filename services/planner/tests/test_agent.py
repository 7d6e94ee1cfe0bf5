"""Failures of an incident, and what is said about them."""

import pytest

from autopatch.contract import events as ev
from autopatch.contract.evidence import Comparison, Measurement
from autopatch.contract.plan import Alternative
from autopatch.contract.requests import Recalled
from autopatch.contract.target import Autonomy
from services.planner import agent
from services.planner.tests.fakes import (
    START,
    diagnosed,
    failed_rehearsal,
    incident,
    plan,
    question,
    rolled_back_attempt,
    stale_attempt,
    until_diagnosed,
)


def _measured(mean: float) -> Measurement:
    return Measurement(signal="latency", query="q", start=START, end=START, status="value", mean=mean)


def test_a_failed_rehearsal_is_fed_back_with_its_figures() -> None:
    [failure] = agent.failures(incident([*until_diagnosed(), *failed_rehearsal()]))
    assert failure.plan == plan()
    assert failure.why == "rehearsal failed: still red with the change; unchanged red (p95_ms 910); changed red (p95_ms 870)"


def test_a_fix_that_did_not_recover_is_fed_back_with_its_comparisons() -> None:
    compared = Comparison(signal="latency", role="check", before=_measured(0.9), after=_measured(0.85), verdict="same")
    applied = ev.Applied(plan_hash="h", results=(), at=START)
    events = rolled_back_attempt(applied, ev.NotRecovered(reason="still firing", comparisons=(compared,)))
    [failure] = agent.failures(incident([*until_diagnosed(), *events]))
    assert failure.why == "applied, not recovered: still firing [latency 0.9 -> 0.85 (same)]"


def test_a_plan_that_could_not_be_applied_is_a_failure_and_a_stale_one_is_none() -> None:
    failed = rolled_back_attempt(ev.ApplyFailed(plan_hash="h", results=(), reason="no such container"))
    found = agent.failures(incident([*until_diagnosed(), *stale_attempt(), *failed]))
    assert [f.why for f in found] == ["it could not be applied: no such container"]


def test_a_person_who_reopens_gives_every_fix_another_chance() -> None:
    events = [*until_diagnosed(), *failed_rehearsal(), ev.Escalated(reason="r", room="planner"), ev.Reopened(person="ada")]
    assert agent.failures(incident(events)) == ()


def test_stale_plans_in_a_row_are_counted_since_anything_else_ended_one() -> None:
    events = [*until_diagnosed(), *stale_attempt(), *failed_rehearsal(), *stale_attempt(), *stale_attempt()]
    assert agent.stale_in_a_row(incident(events)) == 2


@pytest.mark.parametrize(
    ("autonomy", "acts", "observes"),
    [
        ({"default": "observe"}, False, True),
        ({"default": "observe", "actions": {"set_config": "auto"}}, True, False),
        ({"default": "observe", "actions": {"restart": "auto"}}, True, True),
        ({"default": "auto", "actions": {"set_config": "observe", "reload": "observe"}}, True, True),
        ({"default": "suggest"}, True, False),
    ],
)
def test_a_plan_is_only_observed_when_every_step_is(autonomy: dict[str, object], acts: bool, observes: bool) -> None:
    rules = Autonomy.model_validate(autonomy)
    assert (agent.may_act(rules), agent.only_observes(plan(), rules)) == (acts, observes)


def test_giving_up_tells_every_attempt_with_its_evidence() -> None:
    failed = agent.failures(incident([*until_diagnosed(), *failed_rehearsal(), *failed_rehearsal()]))
    said = agent.gave_up(failed)
    assert said.reason.startswith(
        "2 attempts failed: 1. set database.pool_size to 20; reload (from runbook pool): rehearsal failed"
    )
    assert "2. set" in said.reason and not said.critical


def test_without_a_plan_it_is_said_what_was_turned_down_withheld_and_would_help() -> None:
    asked = question(
        recalled={"pool_exhausted": Recalled(withheld=("lesson-7: trust 0.33",))}, diagnosed=diagnosed("pool_exhausted", "disk")
    )
    said = agent.no_plan(asked, [Alternative(summary="runbook pool", why_not="must be at most 50")], "off").reason
    for part in (
        "no plan for pool_exhausted, disk",
        "runbook pool: must be at most 50",
        "lesson-7: trust 0.33",
        "causes: [pool_exhausted]",
    ):
        assert part in said
    assert "AUTOPATCH_LLM_MODE" in said and "AUTOPATCH_LLM_MODE" not in agent.no_plan(asked, [], "local").reason


def test_rejected_alternatives_do_not_change_the_hash_and_are_bounded() -> None:
    many = [Alternative(summary="s" * 999, why_not="w" * 999)] * 40
    told = agent.with_rejected(plan(), many)
    assert told.hash == plan().hash and len(told.rejected) == agent.MOST_REJECTED and len(told.model_dump_json()) < 10_000
