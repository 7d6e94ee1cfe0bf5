"""The words: golden samples, tolerant reading, exact writing, the lifecycle table, the hash chain, the generated page."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopatch.contract import catalogue as cat
from autopatch.contract import events as ev
from autopatch.contract.actions import Reload, SetConfig
from autopatch.contract.document import bus_markdown
from autopatch.contract.envelope import Envelope, Unknown, decode, verify_hash
from autopatch.contract.errors import ContractError
from autopatch.contract.lifecycle import (
    OPEN_STATES,
    TERMINAL,
    UNTOUCHED,
    Incident,
    State,
    Stored,
    apply,
    chain_faults,
    fold,
    is_current,
    next_state,
    waiting_since,
)
from autopatch.contract.plan import Basis, Plan, Precondition, Step, SuccessCheck
from autopatch.contract.tests.make_samples import example

SAMPLES = Path(__file__).parent / "samples"
NOW = datetime(2026, 1, 2, tzinfo=UTC)


def play(*events: ev.Event, incident: Incident | None = None) -> Incident:
    """Append events to an incident without a server."""
    incident = incident or Incident("a-1")
    for event in events:
        number = incident.last_sequence + 1
        envelope = Envelope(
            event_id=str(number), incident_id=incident.id, event=event.name, version=1, at=NOW, by="test",
            previous_hash=incident.last_hash, data=event,
        ).sealed()
        incident = apply(incident, Stored(number, envelope))
    return incident


OPENED = ev.Opened(target="payments", title="slow")
PLAN = Plan(
    target="payments", summary="s", cause="c", success=SuccessCheck(signal="p95", settle_s=1, soak_s=1),
    steps=(Step(action=SetConfig(file="config", key="a.b", value=1), precondition=Precondition(config_digest="d")),),
    basis=Basis(kind="runbook", ref="r", why="w"),
)


def a(kind: type[ev.Event], **update: object) -> ev.Event:
    """An event of a kind with example fields."""
    made: ev.Event = example(kind).model_copy(update=update)
    return made


def applying() -> Incident:
    return play(OPENED, a(ev.Reproduced), a(ev.Diagnosed), a(ev.Planned), a(ev.Rehearsed), a(ev.Applying))


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.json")), ids=lambda p: p.stem)
def test_every_golden_sample_is_still_read_and_written_as_it_was(path: Path) -> None:
    envelope = decode(path.read_bytes())
    assert not isinstance(envelope.data, Unknown)
    assert json.loads(envelope.encode()) == json.loads(path.read_text())
    assert verify_hash(path.read_bytes())


def test_every_event_has_a_golden_sample() -> None:
    assert {f"{name}-v{event.version}" for name, event in ev.EVENTS.items()} <= {p.stem for p in SAMPLES.glob("*.json")}


def test_fields_of_a_newer_writer_are_ignored_and_its_events_are_kept() -> None:
    raw = json.loads((SAMPLES / "opened-v1.json").read_text())
    raw["data"]["colour"] = "red"
    assert isinstance(decode(json.dumps(raw).encode()).data, ev.Opened)
    raw["event"] = "sung"
    assert isinstance(decode(json.dumps(raw).encode()).data, Unknown)


@given(st.binary(max_size=200))
def test_bytes_that_are_no_event_are_refused_by_name(data: bytes) -> None:
    with pytest.raises(ContractError):
        decode(data)


def test_the_page_about_the_bus_is_up_to_date() -> None:
    assert (Path(__file__).parents[3] / "docs" / "bus.md").read_text() == bus_markdown()


def test_every_event_is_said_by_somebody_and_every_heard_one_exists() -> None:
    said = {event for events in cat.SAYS.values() for event in events}
    assert said == set(ev.EVENTS.values())
    assert {event for events in cat.HEARS.values() for event in events} <= said


def test_whatever_the_table_does_not_hold_is_refused() -> None:
    with pytest.raises(ContractError, match="applied is not legal while incident a-1 is open"):
        next_state(play(OPENED), a(ev.Applied))
    with pytest.raises(ContractError):
        next_state(Incident("a-1"), a(ev.Waiting))


def test_the_way_from_alert_to_recovery() -> None:
    incident = play(a(ev.Applied), a(ev.Inconclusive), a(ev.Recovered), incident=applying())
    assert incident.state is State.RESOLVED and incident.attempts == 1 and chain_faults(incident) == []


def test_a_failed_fix_is_undone_and_planned_again_and_counts_as_an_attempt() -> None:
    incident = play(a(ev.Applied), a(ev.NotRecovered), a(ev.RollingBack), a(ev.RolledBack), incident=applying())
    assert incident.state is State.DIAGNOSED and incident.attempts == 1
    assert play(a(ev.Planned), incident=incident).attempts == 2


def test_a_stale_plan_does_not_count_as_an_attempt() -> None:
    incident = play(a(ev.Stale), incident=applying())
    assert incident.state is State.DIAGNOSED and incident.attempts == 0


@pytest.mark.parametrize("state", sorted(UNTOUCHED))
def test_cancelling_before_anything_is_applied_ends_at_once(state: State) -> None:
    assert next_state(Incident("a-1", state=state), a(ev.Cancelled)) is State.CANCELLED


def test_cancelling_while_applying_lets_the_step_end_and_undoes_it() -> None:
    incident = play(a(ev.Cancelled), incident=applying())
    assert incident.state is State.APPLYING
    incident = play(a(ev.Applied), incident=incident)
    assert incident.state is State.UNDO_DUE
    cancelled = incident.last_stored(ev.Cancelled)
    assert cancelled and is_current(incident, cancelled.envelope.event_id)
    assert play(a(ev.RollingBack), a(ev.RolledBack), incident=incident).state is State.CANCELLED


def test_cancelling_while_applying_ends_at_once_when_the_target_refused() -> None:
    assert play(a(ev.Cancelled), a(ev.Stale), incident=applying()).state is State.CANCELLED


@pytest.mark.parametrize("state", sorted(OPEN_STATES))
def test_escalation_is_legal_from_every_open_state(state: State) -> None:
    assert next_state(Incident("a-1", state=state), a(ev.Escalated)) is State.ESCALATED


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_notes_are_legal_after_the_end_and_change_nothing(state: State) -> None:
    for note in (a(ev.Waiting), a(ev.AlertUpdated), a(ev.LessonRecorded), a(ev.Cleared)):
        assert next_state(Incident("a-1", state=state), note) is state


def test_a_wait_is_over_when_something_else_is_missing_or_the_incident_moved_on() -> None:
    target, pause = (ev.Waiting(on=on, reason="r", room="executor") for on in ("target", "pause"))
    incident = play(OPENED, target, a(ev.AlertUpdated), ev.Waiting(on="model", reason="r", room="planner"))
    assert waiting_since(incident, "executor", "target") == NOW
    assert waiting_since(incident, "executor", "pause") is None
    for over in (pause, a(ev.Reproduced)):
        assert waiting_since(play(over, incident=incident), "executor", "target") is None


def asked(needed: int = 1) -> Incident:
    request = ev.ApprovalRequested(plan_hash="h", why="w", needed=needed, expires_at=NOW)
    return play(OPENED, a(ev.Reproduced), a(ev.Diagnosed), a(ev.Planned), a(ev.Rehearsed), request)


def test_an_approval_binds_to_the_hash_that_was_asked_about() -> None:
    with pytest.raises(ContractError, match="asked was about"):
        next_state(asked(), ev.Approved(plan_hash="other", person="ada"))
    assert next_state(asked(), ev.Approved(plan_hash="h", person="ada")) is State.APPROVED


def test_two_persons_are_two_persons() -> None:
    once = play(ev.Approved(plan_hash="h", person="ada"), incident=asked(2))
    assert once.state is State.AWAITING
    with pytest.raises(ContractError, match="ada has approved"):
        next_state(once, ev.Approved(plan_hash="h", person="ada"))
    assert play(ev.Approved(plan_hash="h", person="bob"), incident=once).state is State.APPROVED


def test_a_rejection_after_the_approval_is_refused() -> None:
    approved = play(ev.Approved(plan_hash="h", person="ada"), incident=asked())
    with pytest.raises(ContractError, match="rejected is not legal"):
        next_state(approved, ev.Rejected(plan_hash="h", person="bob", reason="no"))


def test_the_plans_hash_covers_what_is_done_and_not_how_it_is_worded() -> None:
    assert PLAN.hash == PLAN.model_copy(update={"summary": "other words"}).hash
    step = PLAN.steps[0].model_copy(update={"action": SetConfig(file="config", key="a.b", value=2)})
    assert PLAN.hash != PLAN.model_copy(update={"steps": (step,)}).hash
    reload = Step(action=Reload(), precondition=Precondition())
    assert PLAN.hash != PLAN.model_copy(update={"steps": (*PLAN.steps, reload)}).hash


@given(st.data())
def test_an_edited_removed_or_reordered_event_breaks_the_chain(data: st.DataObject) -> None:
    incident = play(a(ev.Applied), a(ev.Recovered), incident=applying())
    log = list(incident.log)
    index = data.draw(st.integers(0, len(log) - 2))
    match data.draw(st.sampled_from(["edit", "remove", "swap"])):
        case "edit":
            envelope = log[index].envelope.model_copy(update={"by": "mallory"})
            log[index] = Stored(log[index].sequence, envelope)
        case "remove":
            del log[index]
        case _:
            log[index], log[index + 1] = log[index + 1], log[index]
    assert chain_faults(Incident("a-1", log=tuple(log)))


def test_folding_twice_gives_the_same() -> None:
    incident = applying()
    assert fold("a-1", incident.log) == incident
