"""A job's verdict is read from its log alone."""

from datetime import UTC, datetime, timedelta
from typing import Literal

import pytest

from autopatch.contract import code
from autopatch.contract import events as ev
from autopatch.contract.code import CodeJob
from autopatch.contract.envelope import Envelope
from autopatch.contract.errors import ContractError
from autopatch.contract.evidence import BlobRef, ModelUse
from autopatch.contract.lifecycle import Incident, State, Stored
from autopatch.repair.verdict import verdict_of

JOB = CodeJob(repository="shop", snapshot=BlobRef(name="a", size=1, digest="a"), tree="t", command=("pytest", "-q"))
OPENED = ev.Opened(target="shop", title="red", job=JOB)
RED = ev.Reproduced(signal="tests", checks=(), tests=code.TestTable(passed=1, failed=1))
GREEN = ev.Recovered(tests=code.TestTable(passed=2))
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def incident(state: State, *events: ev.Event) -> Incident:
    log = tuple(
        Stored(n, Envelope.model_construct(
            event=event.name, event_id=f"e{n}", incident_id="i1", at=BEGAN + timedelta(seconds=n), data=event,
        )) for n, event in enumerate((OPENED, *events))
    )
    return Incident("i1", state, log, moved_by=f"e{len(log) - 1}", attempts=2)


@pytest.mark.parametrize(("state", "events", "verdict"), [
    (State.RESOLVED, (RED, GREEN), "fixed"),
    (State.CLOSED, (ev.NotReproduced(reason="all pass", kind="green"),), "not_reproduced"),
    (State.CLOSED, (ev.NotReproduced(reason="now and then", kind="flaky"),), "flaky"),
    (State.CLOSED, (ev.NotReproduced(reason="no pytest", kind="environment_error"),), "environment_error"),
    (State.ESCALATED, (RED, ev.Escalated(reason="nothing passed", room="planner", kind="no_fix_found")), "no_fix_found"),
    (State.ESCALATED, (RED, ev.Escalated(reason="unreadable", room="planner", kind="format_error")), "format_error"),
    (State.ESCALATED, (RED, ev.Undiagnosed(reason="no place", model=ModelUse(mode="off"))), "no_fix_found"),
    (State.ESCALATED, (ev.Waiting(on="docker", reason="gone", room="executor"), ev.Escalated(reason="late", room="validator")),
     "sandbox_unavailable"),
    (State.ESCALATED, (ev.Waiting(on="docker", reason="gone", room="executor"), RED, ev.Escalated(reason="late", room="planner")),
     "no_fix_found"),
    (State.ESCALATED, (ev.Waiting(on="model", reason="gone", room="planner"), ev.Escalated(reason="late", room="planner")),
     "no_fix_found"),
    (State.CANCELLED, (RED, ev.Cancelled(person="ann", reason="enough")), "cancelled"),
])
def test_each_way_to_end_has_its_verdict_and_its_reason(state: State, events: tuple[ev.Event, ...], verdict: str) -> None:
    found = verdict_of(incident(state, *events), "abc")
    assert found is not None
    assert (found.verdict, found.repository, found.incident, found.trace) == (verdict, "shop", "i1", "abc")
    last = events[-1]
    searched = verdict != "no_fix_found" or isinstance(last, ev.Undiagnosed) or getattr(last, "kind", "") != ""
    assert found.reason and bool(found.tip) == (verdict not in ("fixed", "cancelled") and searched)


def test_what_a_missing_image_needs_is_the_remedy() -> None:
    waiting = ev.Waiting(on="docker", reason="image x:1 is not on the engine (build x)", room="executor")
    found = verdict_of(incident(State.ESCALATED, waiting, ev.Escalated(reason="late", room="validator")))
    assert found is not None and found.verdict == "sandbox_unavailable" and "(build x)" in found.reason and found.tip


@pytest.mark.parametrize(("mode", "tip"), [("off", "--model local"), ("local", "a larger model")])
def test_where_no_model_was_asked_that_is_the_remedy(mode: Literal["off", "local"], tip: str) -> None:
    nothing = ev.Escalated(reason="nothing passed", room="planner", kind="no_fix_found", model=ModelUse(mode=mode, calls=1))
    found = verdict_of(incident(State.ESCALATED, RED, nothing))
    assert found is not None and tip in found.tip


@pytest.mark.parametrize("state", [s for s in State if s not in (
    State.RESOLVED, State.CLOSED, State.ESCALATED, State.CANCELLED, State.OBSERVED, State.PROPOSED,
)])
def test_an_open_incident_has_no_verdict_yet(state: State) -> None:
    assert verdict_of(incident(state, RED)) is None


def test_a_fix_shows_the_tables_before_and_after_and_how_long_it_took() -> None:
    found = verdict_of(incident(State.RESOLVED, RED, GREEN))
    assert found is not None and found.before and found.after
    assert (found.before.failed, found.after.passed, found.seconds, found.attempts) == (1, 2, 2.0, 2)


def test_every_event_that_tells_of_a_model_counts_also_one_that_ends_without_a_fix() -> None:
    uses = [ModelUse(mode="local", model="m", calls=n, output_tokens=10 * n, seconds=0.5, prompt="p") for n in (1, 2)]
    said = (ev.Escalated(reason="in vain", room="planner", model=use) for use in (*uses, ModelUse(mode="local")))
    found = verdict_of(incident(State.ESCALATED, RED, *said))
    assert found is not None and found.model == ModelUse(
        mode="local", model="m", calls=3, output_tokens=30, seconds=1.0, prompt="p"
    )
    without = verdict_of(incident(State.ESCALATED, RED, ev.Escalated(reason="nothing", room="planner")))
    assert without is not None and without.model is None


def test_an_alert_has_no_verdict_on_code() -> None:
    alert = Incident("i1", State.RESOLVED, (Stored(0, Envelope.model_construct(data=ev.Opened(target="shop", title="slow"))),))
    with pytest.raises(ContractError):
        verdict_of(alert)
