"""The room on a scripted Prometheus and a log in memory: every way that an incident can take through it."""

from datetime import timedelta
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from autopatch.chassis.prometheus import Failed
from autopatch.chassis.room import Reject, RetryLater, Room
from autopatch.chassis.telemetry import scope
from autopatch.contract import events as ev
from autopatch.contract.errors import Unavailable
from autopatch.contract.evidence import Measurement
from autopatch.contract.lifecycle import State
from autopatch.contract.requests import Recheck, Rechecked
from services.validator.service import SOAK, build
from services.validator.settings import Settings
from services.validator.tests.given import (
    ALERT,
    ERRORS,
    OPENED,
    P95,
    PLAN,
    RATE,
    RULE,
    SEEN,
    T0,
    Desk,
    Hands,
    MemoryLog,
    OneTarget,
    Probe,
    Quiet,
    Scripted,
    after,
    cured,
    heard,
    incident,
    steady,
    target,
    up_to_applied,
    up_to_rehearsed,
)


class Case:
    """One incident in one room."""

    def __init__(
        self, events: list[tuple[float, ev.Event]], curves: dict[str, Any] | None = None, *, at: float = 0, rules: bool = True,
        well: bool = True, quiet: Quiet | None = None, **changes: Any,
    ) -> None:
        self.prometheus = Scripted(
            {P95: cured(102), RULE.query: lambda t: 1.0 if t < 105 else None, ERRORS: steady(2), RATE: steady(100)}
            | (curves or {}),
            known=(RULE,) if rules else (),
        )
        self.desk = Desk(MemoryLog(incident(events)), OneTarget(target(**changes)), Hands(after(at)))
        self.probe = Probe(well)
        self.quiet = quiet or Quiet()
        self.room: Room = build(Settings(), self.desk, sources=self.prometheus, health=self.probe, cores=self.quiet)

    async def hear(self, kind: type[ev.Event]) -> ev.Event | None:
        found = await self.room.handlers[kind](heard(self.desk.memory.incident))
        return found[0] if found else None

    async def timer(self) -> Any:
        found = await self.room.timers[SOAK](heard(self.desk.memory.incident))
        return found[0] if found else None

    async def recheck(self) -> Rechecked:
        answer = await self.room.responders[Recheck](Recheck(incident_id="i1"))
        assert isinstance(answer, Rechecked)
        return answer


def opened(**given: Any) -> Case:
    return Case([(1, OPENED)], at=20, **given)


async def test_a_red_check_is_reproduced_with_its_measurements() -> None:
    found = await opened().hear(ev.Opened)
    assert isinstance(found, ev.Reproduced)
    assert (found.signal, [m.signal for m in found.checks]) == ("latency", ["latency", "alert:SlowAnswers", "requests"])
    assert found.checks[0].red_share == 1.0


async def test_a_green_check_whose_alert_is_silent_closes_the_incident() -> None:
    found = await opened(curves={P95: steady(0.1), RULE.query: lambda t: None}).hear(ev.Opened)
    assert isinstance(found, ev.NotReproduced)
    assert "latency is 0.1" in found.reason


async def test_the_alerts_own_expression_makes_it_red_although_the_threshold_is_not_passed() -> None:
    assert isinstance(await opened(curves={P95: steady(0.1)}).hear(ev.Opened), ev.Reproduced)


async def test_an_alert_whose_rule_is_not_in_prometheus_is_measured_by_the_threshold_alone() -> None:
    assert isinstance(await opened(rules=False, curves={P95: steady(0.1)}).hear(ev.Opened), ev.NotReproduced)


@pytest.mark.parametrize("answer", [lambda t: None, Failed(reason="parse error")])
async def test_a_check_without_data_is_waited_for_and_never_green(answer: Any) -> None:
    with pytest.raises(RetryLater) as caught:
        await opened(curves={P95: answer, RULE.query: lambda t: None}).hear(ev.Opened)
    assert caught.value.on == "prometheus"
    assert "latency cannot be judged" in caught.value.reason


async def test_an_expression_of_the_alert_that_cannot_be_evaluated_is_never_green() -> None:
    with pytest.raises(RetryLater):
        await opened(curves={P95: steady(0.1), RULE.query: Failed(reason="parse error")}).hear(ev.Opened)


async def test_a_missing_prometheus_is_waited_for() -> None:
    case = opened()
    case.prometheus.away = True
    with pytest.raises(Unavailable):
        await case.hear(ev.Opened)


async def test_an_alert_that_no_check_stands_for_is_escalated_with_the_field_to_add() -> None:
    alert = ALERT.model_copy(update={"alertname": "Unheard"})
    signals = target().signals | {"second": target().signals["latency"]}
    case = Case([(1, OPENED.model_copy(update={"alert": alert}))], signals=signals)
    found = await case.hear(ev.Opened)
    assert isinstance(found, ev.Escalated)
    assert "'Unheard'" in found.reason and "signals.<name>.alerts" in found.reason


async def test_an_incident_without_an_alert_is_escalated() -> None:
    found = await Case([(1, OPENED.model_copy(update={"alert": None}))]).hear(ev.Opened)
    assert isinstance(found, ev.Escalated)


async def test_a_target_file_that_is_gone_is_waited_for() -> None:
    case = opened()
    case.desk.folder.only = None
    with pytest.raises(Unavailable) as caught:
        await case.hear(ev.Opened)
    assert caught.value.service == "target"


async def test_a_reopened_incident_is_measured_again() -> None:
    case = Case([(1, OPENED), (2, ev.Escalated(reason="r", room="planner")), (3, ev.Reopened(person="ann"))], at=20)
    assert isinstance(await case.hear(ev.Reopened), ev.Reproduced)


async def test_applied_sets_the_timer_after_settling_and_soaking_with_the_cores_kept_quiet() -> None:
    case = Case(up_to_applied(), at=101)
    assert await case.hear(ev.Applied) is None
    assert case.desk.set_to.due[SOAK] == after(101 + 10 + 60)
    assert case.quiet.began == ["i1"]


async def test_a_cured_target_is_recovered_and_the_cores_are_given_back() -> None:
    case = Case(up_to_applied(), at=172)
    found = await case.timer()
    assert isinstance(found, ev.Recovered)
    assert {(c.signal, c.verdict) for c in found.comparisons} == {
        ("latency", "better"), ("alert:SlowAnswers", "better"), ("errors", "same"), ("requests", "same"),
    }
    assert case.quiet.ended == ["i1"]


async def test_a_late_timer_judges_the_window_that_was_due_not_what_is_now() -> None:
    relapse = {P95: lambda t: 0.08 if 102 <= t < 200 else 1.5}
    assert isinstance(await Case(up_to_applied(), relapse, at=5000).timer(), ev.Recovered)


async def test_a_timer_that_fires_early_is_set_again() -> None:
    case = Case(up_to_applied(), at=150)
    assert await case.timer() is None
    assert case.desk.set_to.due[SOAK] == after(171)
    assert case.quiet.ended == []


async def test_a_timer_for_an_incident_that_went_on_changes_nothing() -> None:
    case = Case([*up_to_applied(), (120, ev.Cancelled(person="ann"))], at=172)
    assert await case.timer() is None
    assert case.quiet.ended == ["i1"]


async def test_a_check_that_stays_red_is_not_recovered() -> None:
    found = await Case(up_to_applied(), {P95: steady(1.4)}, at=172).timer()
    assert isinstance(found, ev.NotRecovered)
    assert "latency is still red" in found.reason


async def test_an_alert_that_keeps_firing_is_not_recovered_although_the_threshold_is_met() -> None:
    found = await Case(up_to_applied(), {RULE.query: steady(1)}, at=172).timer()
    assert isinstance(found, ev.NotRecovered)
    assert "still firing" in found.reason


async def test_a_cure_that_makes_a_guard_worse_is_not_recovered() -> None:
    found = await Case(up_to_applied(), {ERRORS: cured(102, red=2, green=9)}, at=172).timer()
    assert isinstance(found, ev.NotRecovered)
    assert "errors got worse" in found.reason


async def test_a_short_relapse_is_inconclusive_and_extends_the_soak() -> None:
    case = Case(up_to_applied(), {P95: lambda t: 1.5 if t < 102 or 130 <= t < 136 else 0.08}, at=172)
    found = await case.timer()
    assert isinstance(found, ev.Inconclusive)
    assert "latency was red for" in found.reason
    again = Case([*up_to_applied(), (172, found)], at=172)
    assert await again.hear(ev.Inconclusive) is None
    assert again.desk.set_to.due[SOAK] == after(101 + 10 + 120)


async def test_without_traffic_nothing_is_proven() -> None:
    found = await Case(up_to_applied(), {RATE: cured(102, red=100, green=10)}, at=172).timer()
    assert isinstance(found, ev.Inconclusive)
    assert "too little traffic" in found.reason


async def test_a_target_that_names_no_traffic_is_told_what_is_missing() -> None:
    signals = {k: v for k, v in target().signals.items() if k != "requests"}
    found = await Case(up_to_applied(), at=172, signals=signals).timer()
    assert isinstance(found, ev.Inconclusive)
    assert "role: traffic" in found.reason


async def test_a_guard_without_data_keeps_it_unproven() -> None:
    found = await Case(up_to_applied(), {ERRORS: lambda t: None}, at=172).timer()
    assert isinstance(found, ev.Inconclusive)
    assert "errors cannot be judged" in found.reason


async def test_a_signal_that_fell_silent_after_the_change_is_inconclusive() -> None:
    found = await Case(up_to_applied(), {P95: lambda t: 1.5 if t < 102 else None}, at=172).timer()
    assert isinstance(found, ev.Inconclusive)


def thrice(keep: str = "keep") -> Case:
    doubt = ev.Inconclusive(reason="r")
    return Case(
        [*up_to_applied(), (172, doubt), (232, doubt)], {RATE: cured(102, red=100, green=10)}, at=292, on_inconclusive=keep
    )


async def test_after_two_extensions_it_is_escalated_as_applied_but_unproven() -> None:
    case = thrice()
    found = await case.timer()
    assert isinstance(found, ev.Escalated)
    assert found.reason.startswith("applied, unproven")
    assert case.quiet.ended == ["i1"]


async def test_after_two_extensions_a_target_may_want_it_rolled_back() -> None:
    assert isinstance(await thrice("rollback").timer(), ev.NotRecovered)


async def test_an_attempt_counts_its_own_extensions_only() -> None:
    first = [
        *up_to_applied(), (172, ev.Inconclusive(reason="r")), (173, ev.NotRecovered(reason="r")),
        (174, ev.RollingBack(reason="r")), (175, ev.RolledBack(results=())),
    ]
    second = [(t + 200, e) for t, e in up_to_applied()[3:]]
    second[-1] = (301, ev.Applied(plan_hash=PLAN.hash, results=(), at=after(301)))
    case = Case([*first, *second], at=301)
    await case.hear(ev.Applied)
    assert case.desk.set_to.due[SOAK] == after(301 + 70)


async def test_a_young_alert_is_judged_from_the_pending_time_of_its_rule_on() -> None:
    """10 s between alert and change hold 3 samples; with the 15 s that the alert was pending there are 6."""
    case = Case(_young(), {P95: cured(11), RULE.query: lambda t: 1.0 if t < 12 else None}, at=82)
    found = await case.timer()
    assert isinstance(found, ev.Recovered)
    assert found.comparisons[0].before.start == T0 - timedelta(seconds=15)


async def test_an_alert_without_a_rule_is_judged_from_the_unbroken_run_of_red_on() -> None:
    case = Case(_young(), {P95: lambda t: 0.05 if t < -30 or t >= 11 else 1.5}, at=82, rules=False)
    found = await case.timer()
    assert isinstance(found, ev.Recovered)
    assert found.comparisons[0].before.start == T0 - timedelta(seconds=30)


async def test_an_alert_that_claims_to_start_in_the_future_is_judged_all_the_same() -> None:
    events = _young()
    late = ALERT.model_copy(update={"starts_at": after(40)})
    events[0] = (1, OPENED.model_copy(update={"alert": late}))
    found = await Case(events, {P95: cured(11)}, at=82, rules=False).timer()
    assert isinstance(found, ev.Recovered)


def _young() -> list[tuple[float, ev.Event]]:
    events = [(min(t, 9), e) for t, e in up_to_applied()]
    events[-2] = (10, events[-2][1])
    events[-1] = (11, ev.Applied(plan_hash=PLAN.hash, results=(), at=after(11)))
    return events


async def test_cores_that_were_busy_shift_the_soak_so_that_all_of_it_is_quiet() -> None:
    case = Case(up_to_applied(), at=101, quiet=Quiet(since=after(131)))
    await case.hear(ev.Applied)
    assert case.desk.set_to.due[SOAK] == after(131 + 70)


async def test_a_plan_cannot_shorten_the_soak_of_its_target() -> None:
    case = Case(up_to_applied(), at=101, soak={"settle_s": 20, "soak_s": 300, "step_s": 5})
    await case.hear(ev.Applied)
    assert case.desk.set_to.due[SOAK] == after(101 + 320)


async def test_an_endpoint_that_was_well_and_is_not_any_more_refutes_the_cure() -> None:
    well = Measurement(signal="health", query="u", start=T0, end=T0, status="value", last=1.0)
    case = Case(up_to_applied(checks=(*SEEN, well)), at=172, well=False, health="http://127.0.0.1:9/healthz")
    found = await case.timer()
    assert isinstance(found, ev.NotRecovered)
    assert "health" in found.reason


async def test_an_endpoint_that_was_never_well_leaves_it_unproven() -> None:
    ill = Measurement(signal="health", query="u", start=T0, end=T0, status="value", last=0.0)
    case = Case(up_to_applied(checks=(*SEEN, ill)), at=172, well=False, health="http://127.0.0.1:9/healthz")
    assert isinstance(await case.timer(), ev.Inconclusive)


async def test_the_health_endpoint_is_measured_when_the_incident_is_reproduced() -> None:
    found = await opened(health="http://127.0.0.1:9/healthz").hear(ev.Opened)
    assert isinstance(found, ev.Reproduced)
    assert (found.checks[-1].signal, found.checks[-1].last) == ("health", 1.0)


async def test_a_target_that_lost_its_check_is_a_dead_letter() -> None:
    signals = {k: v for k, v in target().signals.items() if k != "latency"}
    with pytest.raises(Reject):
        await Case(up_to_applied(), at=172, signals=signals).timer()


async def test_a_recheck_that_is_still_red_closes_nothing() -> None:
    case = Case(up_to_rehearsed(), at=90)
    assert (await case.recheck()).status == "red"
    assert case.desk.memory.incident.state is State.REHEARSED


async def test_a_green_recheck_closes_a_rehearsed_incident() -> None:
    case = Case(up_to_rehearsed(), at=200)
    assert (await case.recheck()).status == "green"
    assert case.desk.memory.incident.state is State.CLOSED
    assert case.desk.memory.incident.log[-1].envelope.by == "validator"


async def test_a_green_recheck_leaves_other_states_alone() -> None:
    case = Case(up_to_applied(), at=200)
    assert (await case.recheck()).status == "green"
    assert case.desk.memory.incident.state is State.APPLIED


async def test_a_recheck_that_was_overtaken_looks_again() -> None:
    case = Case(up_to_rehearsed(), at=200)
    case.desk.memory.meanwhile = [ev.Cancelled(person="ann")]
    assert (await case.recheck()).status == "green"
    assert case.desk.memory.incident.state is State.CANCELLED


async def test_a_recheck_without_prometheus_is_unknown() -> None:
    case = Case(up_to_rehearsed(), at=200)
    case.prometheus.away = True
    answer = await case.recheck()
    assert (answer.status, "away" in answer.reason) == ("unknown", True)
    assert case.desk.memory.incident.state is State.REHEARSED


async def test_a_recheck_of_an_incident_that_is_not_there_is_unknown() -> None:
    case = Case(up_to_rehearsed())
    assert (await case.room.responders[Recheck](Recheck(incident_id="other"))).status == "unknown"  # type: ignore[attr-defined]


async def test_every_measurement_and_the_verdict_are_spans() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with scope(provider.get_tracer("test"), "i1"):
        await Case(up_to_applied(), at=172).timer()
    spans = {s.name: dict(s.attributes or {}) for s in exporter.get_finished_spans()}
    assert {"measure latency", "measure errors", "measure requests", "measure alert SlowAnswers"} <= spans.keys()
    assert spans["measure latency"]["measurement.query"] == P95
    assert len(spans["measure latency"]["measurement.blocks"]) == 6  # type: ignore[arg-type]
    assert spans["judge recovery"]["verdict"] == "recovered"
    assert all(s["incident.id"] == "i1" for s in spans.values())


async def test_every_verdict_fits_an_event() -> None:
    found = await Case(up_to_applied(), at=172).timer()
    assert len(found.model_dump_json()) < 16_000
