"""Approve, reject, cancel, reopen."""

import asyncio

import pytest

from autopatch.contract import events as ev
from autopatch.contract.lifecycle import Incident, State
from autopatch.contract.plan import Basis
from services.gateway.tests import story
from services.gateway.tests.conftest import As
from services.gateway.tests.fakes import FakeChassis
from services.gateway.tests.story import ID


async def state(chassis: FakeChassis) -> State:
    incident: Incident = await chassis.log.load(ID)
    return incident.state


async def test_an_approval_moves_the_incident_and_names_the_person(chassis: FakeChassis, person: As) -> None:
    made = story.awaiting(chassis)
    answer = await person("ann").post(f"/v1/incidents/{ID}/approve", json={"plan_hash": made.hash, "comment": "go\x07 on"})
    assert answer.status_code == 200 and answer.json()["state"] == "approved" and not answer.json()["already"]
    last = chassis.log.stored[-1].envelope
    assert (last.event, last.by, last.caused_by) == ("approved", "person:ann", chassis.log.stored[-2].envelope.event_id)
    assert isinstance(last.data, ev.Approved) and last.data.comment == "go on"


async def test_the_second_click_of_the_same_person_changes_nothing(chassis: FakeChassis, person: As) -> None:
    made = story.awaiting(chassis)
    for already in (False, True):
        answer = await person("ann").post(f"/v1/incidents/{ID}/approve", json={"plan_hash": made.hash})
        assert (answer.status_code, answer.json()["already"]) == (200, already)
    story.resolve(chassis, made)
    late = await person("ann").post(f"/v1/incidents/{ID}/approve", json={"plan_hash": made.hash})
    assert (late.status_code, late.json()["already"], late.json()["state"]) == (200, True, "resolved")
    assert [s.envelope.event for s in chassis.log.stored].count("approved") == 1


async def test_two_clicks_at_once_store_one_decision(chassis: FakeChassis, person: As) -> None:
    made = story.awaiting(chassis)
    answers = await asyncio.gather(
        person("ann").post(f"/v1/incidents/{ID}/approve", json={"plan_hash": made.hash}),
        person("bob").post(f"/v1/incidents/{ID}/reject", json={"plan_hash": made.hash, "reason": "not now"}),
    )
    assert sorted(a.status_code for a in answers) == [200, 409]
    events = [s.envelope.event for s in chassis.log.stored]
    assert events.count("approved") + events.count("rejected") == 1


async def test_a_rival_that_was_faster_is_seen_before_deciding_again(chassis: FakeChassis, person: As) -> None:
    made = story.awaiting(chassis)
    chassis.log.rivals.append(("executor", ev.Stale(reason="drifted")))
    answer = await person("ann").post(f"/v1/incidents/{ID}/approve", json={"plan_hash": made.hash})
    assert answer.status_code == 409 and await state(chassis) is State.DIAGNOSED


async def test_reject_after_approve_is_refused(chassis: FakeChassis, person: As) -> None:
    made = story.awaiting(chassis)
    await person("ann").post(f"/v1/incidents/{ID}/approve", json={"plan_hash": made.hash})
    answer = await person("ann").post(f"/v1/incidents/{ID}/reject", json={"plan_hash": made.hash, "reason": "oh"})
    assert answer.status_code == 409
    assert answer.json() == {"error": "ann has approved it already", "tip": "to stop it, cancel the incident"}


async def test_a_rejection_escalates_with_its_reason(chassis: FakeChassis, person: As) -> None:
    made = story.awaiting(chassis)
    answer = await person("ann").post(f"/v1/incidents/{ID}/reject", json={"plan_hash": made.hash, "reason": "wrong service"})
    assert answer.json()["state"] == "escalated" and "wrong service" in answer.json()["headline"]
    empty = await person("ann").post(f"/v1/incidents/{ID}/reject", json={"plan_hash": made.hash, "reason": ""})
    assert empty.status_code == 400 and empty.json()["error"] == "body.reason: is too short"


@pytest.mark.parametrize("name", ["vic", "olga", "robot"])
async def test_only_an_approver_with_a_personal_token_decides(chassis: FakeChassis, person: As, name: str) -> None:
    made = story.awaiting(chassis)
    answer = await person(name).post(f"/v1/incidents/{ID}/approve", json={"plan_hash": made.hash})
    assert answer.status_code == 403 and answer.json()["tip"] and await state(chassis) is State.AWAITING


async def test_another_plan_than_the_one_that_is_asked_about_is_refused(chassis: FakeChassis, person: As) -> None:
    story.awaiting(chassis)
    other = story.plan(30).hash
    answer = await person("ann").post(f"/v1/incidents/{ID}/approve", json={"plan_hash": other})
    assert answer.status_code == 409 and other[:12] not in answer.text and await state(chassis) is State.AWAITING


async def test_a_changed_plan_needs_a_new_approval(chassis: FakeChassis, person: As) -> None:
    made = story.awaiting(chassis)
    await person("ann").post(f"/v1/incidents/{ID}/approve", json={"plan_hash": made.hash})
    second = story.plan(25)
    for room, event in (
        ("executor", ev.Stale(reason="drifted")), ("planner", ev.Planned(plan=second, plan_hash=second.hash, model=story.OFF)),
        ("executor", story.rehearsed(second)), ("executor", story.requested(second)),
    ):
        chassis.log.say(ID, event, by=room)
    old = await person("ann").post(f"/v1/incidents/{ID}/approve", json={"plan_hash": made.hash})
    assert old.status_code == 409 and await state(chassis) is State.AWAITING
    new = await person("ann").post(f"/v1/incidents/{ID}/approve", json={"plan_hash": second.hash})
    assert new.json()["state"] == "approved"


async def test_nothing_is_approved_after_it_expired_even_before_the_timer_fires(chassis: FakeChassis, person: As) -> None:
    made = story.awaiting(chassis)
    chassis.clock.pass_s(900)
    answer = await person("ann").post(f"/v1/incidents/{ID}/approve", json={"plan_hash": made.hash})
    assert answer.status_code == 409 and "expired" in answer.json()["error"] and await state(chassis) is State.AWAITING


async def test_two_people_are_needed_when_the_request_says_so(chassis: FakeChassis, person: As) -> None:
    made = story.awaiting(chassis, needed=2)
    for name, expected in (("ann", "awaiting"), ("ann", "awaiting"), ("bob", "approved")):
        answer = await person(name).post(f"/v1/incidents/{ID}/approve", json={"plan_hash": made.hash})
        assert answer.json()["state"] == expected
    assert [s.envelope.by for s in chassis.log.stored if s.envelope.event == "approved"] == ["person:ann", "person:bob"]


async def test_whoever_proposed_the_plan_does_not_approve_it(chassis: FakeChassis, person: As) -> None:
    made = story.awaiting(chassis, made=story.plan(basis=Basis(kind="person", ref="ann", why="asked for")))
    assert (await person("ann").post(f"/v1/incidents/{ID}/approve", json={"plan_hash": made.hash})).status_code == 403
    assert (await person("bob").post(f"/v1/incidents/{ID}/approve", json={"plan_hash": made.hash})).status_code == 200


@pytest.mark.parametrize(
    ("approvers", "allowed"), [(("bob",), {"bob"}), (("admin",), {"root"}), (("approver",), {"ann", "bob", "root"})]
)
async def test_the_targets_approvers_are_names_or_roles(
    chassis: FakeChassis, person: As, approvers: tuple[str, ...], allowed: set[str]
) -> None:
    made = story.awaiting(chassis, approvers=approvers)
    for name in ("ann", "bob", "root"):
        if name not in allowed:
            answer = await person(name).post(f"/v1/incidents/{ID}/approve", json={"plan_hash": made.hash})
            assert answer.status_code == 403
    answer = await person(min(allowed)).post(f"/v1/incidents/{ID}/approve", json={"plan_hash": made.hash})
    assert answer.status_code == 200


async def test_a_target_that_is_gone_cannot_be_approved_but_rejected(chassis: FakeChassis, person: As) -> None:
    made = story.awaiting(chassis)
    chassis.targets._targets.clear()
    assert (await person("ann").post(f"/v1/incidents/{ID}/approve", json={"plan_hash": made.hash})).status_code == 403
    answer = await person("ann").post(f"/v1/incidents/{ID}/reject", json={"plan_hash": made.hash, "reason": "x"})
    assert answer.status_code == 200


async def test_cancel_is_told_live_each_time_and_written_once(chassis: FakeChassis, person: As) -> None:
    story.awaiting(chassis)
    for already in (False, True):
        answer = await person("olga").post(f"/v1/incidents/{ID}/cancel", json={"reason": "wrong host"})
        assert (answer.json()["state"], answer.json()["already"]) == ("cancelled", already)
    assert chassis.live.told == [ID, ID]
    assert [s.envelope.event for s in chassis.log.stored].count("cancelled") == 1


async def test_cancel_while_applying_waits_for_the_step(chassis: FakeChassis, person: As) -> None:
    made = story.awaiting(chassis)
    await person("ann").post(f"/v1/incidents/{ID}/approve", json={"plan_hash": made.hash})
    chassis.log.say(ID, ev.Applying(plan_hash=made.hash, undo=(), rung="approve", rule="r", rehearsed=True), by="executor")
    answer = await person("olga").post(f"/v1/incidents/{ID}/cancel")
    assert (answer.status_code, answer.json()["state"]) == (200, "applying")


async def test_what_has_ended_is_not_cancelled(chassis: FakeChassis, person: As) -> None:
    made = story.awaiting(chassis)
    await person("ann").post(f"/v1/incidents/{ID}/approve", json={"plan_hash": made.hash})
    story.resolve(chassis, made)
    assert (await person("olga").post(f"/v1/incidents/{ID}/cancel")).status_code == 409
    assert (await person("olga").post(f"/v1/incidents/{ID}/reopen")).status_code == 409
    assert chassis.live.told == []


async def test_a_person_reopens_what_was_cancelled_once(chassis: FakeChassis, person: As) -> None:
    story.awaiting(chassis)
    assert (await person("olga").post(f"/v1/incidents/{ID}/reopen")).status_code == 409
    await person("olga").post(f"/v1/incidents/{ID}/cancel")
    for already in (False, True):
        answer = await person("olga").post(f"/v1/incidents/{ID}/reopen", json={"reason": "again"})
        assert (answer.json()["state"], answer.json()["already"]) == ("open", already)


async def test_a_decision_continues_the_incidents_trace_and_spans_the_wait(chassis: FakeChassis, person: As) -> None:
    made = story.awaiting(chassis)
    chassis.clock.pass_s(41)
    await person("ann").post(f"/v1/incidents/{ID}/approve", json={"plan_hash": made.hash})
    first, decision = chassis.spans.get_finished_spans()
    assert decision.name == "approve by person" and decision.context.trace_id == first.context.trace_id
    assert decision.parent and decision.parent.span_id == first.context.span_id
    assert decision.start_time and decision.end_time and (decision.end_time - decision.start_time) / 1e9 == 42
    attributes = dict(decision.attributes or {})
    assert attributes["incident.id"] == ID and attributes["wait.seconds"] == 42 and attributes["person"] == "ann"
    assert attributes["plan.hash"] == made.hash and attributes["decision"] == "approved"
    assert format(decision.context.span_id, "016x") in chassis.log.stored[-1].headers["traceparent"]
