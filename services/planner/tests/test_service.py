"""The handler: which source is taken, what is fed back, when a person is asked, and what happens while something is missing."""

from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from autopatch.chassis.llm.port import Llm
from autopatch.chassis.llm.scripted import ScriptedLlm
from autopatch.contract import events as ev
from autopatch.contract.actions import Reload, RollbackRelease, SetConfig
from autopatch.contract.catalogue import HEARS
from autopatch.contract.errors import Unavailable
from autopatch.contract.plan import Basis
from autopatch.contract.requests import Recall, Recalled
from services.planner.ports import Candidate, Offer, PlanSource, Question
from services.planner.service import build
from services.planner.settings import Settings
from services.planner.tests.fakes import (
    POOL,
    Rooms,
    chassis,
    failed_rehearsal,
    heard,
    incident,
    lesson,
    plan,
    rolled_back_attempt,
    runbook,
    stale_attempt,
    state,
    target,
    until_diagnosed,
)

SET = {"kind": "set_config", "file": "main", "key": "database.pool_size", "value": 20}
BOOKS = {"pool_exhausted": Recalled(runbooks=(runbook(SET),))}


async def _say(
    rooms: Rooms,
    events: list[ev.Event] | None = None,
    *,
    source: PlanSource | None = None,
    llm: Llm | None = None,
    **changed: Any,
) -> ev.Event:
    room = build(Settings(), chassis(rooms, target(**changed)), source=source, llm=llm)
    said = heard(events or until_diagnosed())
    [event] = await room.handlers[type(said.event)](said)
    return event


async def _plan(*args: Any, **kwargs: Any) -> ev.Planned:
    event = await _say(*args, **kwargs)
    assert isinstance(event, ev.Planned), event
    return event


async def _reason(*args: Any, **kwargs: Any) -> str:
    event = await _say(*args, **kwargs)
    assert isinstance(event, ev.Escalated), event
    return event.reason


def test_it_hears_what_the_contract_says() -> None:
    assert set(build(Settings(), chassis(Rooms())).handlers) == set(HEARS["planner"])


async def test_a_proven_lesson_comes_before_a_runbook_and_costs_no_model_call() -> None:
    llm = ScriptedLlm()
    rooms = Rooms({"pool_exhausted": Recalled(lessons=(lesson(),), runbooks=(runbook(SET, name="other"),))})
    planned = await _plan(rooms, llm=llm)
    assert planned.plan.basis.kind == "lesson" and planned.plan_hash == planned.plan.hash
    assert (llm.calls, planned.model.calls, planned.model.note) == (0, 0, "lesson lesson-1: the model was not asked")
    assert planned.plan.steps[0].precondition.config_digest == "d-main" and planned.plan.steps[0].precondition.instance == "c1"


async def test_a_lesson_whose_value_holds_already_gives_way_to_the_runbook_and_is_told() -> None:
    now = state().configs[0].model_copy(update={"values": {"database.pool_size": 20}})
    book = runbook({**SET, "value": 40})
    rooms = Rooms({"pool_exhausted": Recalled(lessons=(lesson(),), runbooks=(book,))}, state(configs=(now,)))
    planned = await _plan(rooms)
    assert planned.plan.basis.kind == "runbook"
    assert [a.why_not for a in planned.plan.rejected] == ["database.pool_size is 20 already"]


async def test_the_most_trusted_lesson_is_taken_and_the_others_are_told() -> None:
    less = lesson(plan((SetConfig(file="main", key="database.pool_size", value=30),)), id="lesson-2", trust=0.45)
    planned = await _plan(Rooms({"pool_exhausted": Recalled(lessons=(less, lesson(trust=0.6)))}))
    assert planned.plan.basis.ref == "lesson-1" and "lesson-1 came first" in planned.plan.rejected[0].why_not


async def test_runbooks_are_tried_by_the_rank_of_their_cause() -> None:
    books = {
        "bad_release": Recalled(
            runbooks=(runbook({"kind": "rollback_release", "release": "previous"}, name="release", cause="bad_release"),)
        ),
        **BOOKS,
    }
    rooms = Rooms(books)
    planned = await _plan(rooms, until_diagnosed("bad_release", "pool_exhausted"))
    assert planned.plan.steps[0].action == RollbackRelease(release="1") and planned.plan.cause == "bad_release"
    asked = [r for r in rooms.asked if isinstance(r, Recall)]
    assert [(r.cause, r.alertname, r.target) for r in asked] == [
        (c, "PaymentsSlow", "payments") for c in ("bad_release", "pool_exhausted")
    ]


async def test_a_runbook_for_people_or_with_an_unknown_action_is_passed_over_and_told() -> None:
    books = (runbook(name="prose"), runbook({"kind": "format_disk"}, name="odd"), runbook(SET))
    planned = await _plan(Rooms({"pool_exhausted": Recalled(runbooks=books)}))
    assert [a.summary for a in planned.plan.rejected] == ["runbook prose", "runbook odd"]


async def test_after_a_failed_rehearsal_the_same_fix_is_not_proposed_again() -> None:
    books = {"pool_exhausted": Recalled(runbooks=(runbook(SET, {"kind": "reload"}), runbook({**SET, "value": 30}, name="more")))}
    planned = await _plan(Rooms(books), [*until_diagnosed(), *failed_rehearsal()])
    assert planned.plan.basis.ref == "more" and "p95_ms 870" in planned.plan.rejected[0].why_not


async def test_with_nothing_but_the_failed_fix_left_a_person_is_asked() -> None:
    reason = await _reason(Rooms(BOOKS), [*until_diagnosed(), *failed_rehearsal()])
    assert (
        "no plan for pool_exhausted" in reason
        and "it was tried in this incident and failed" in reason
        and "AUTOPATCH_LLM_MODE" in reason
    )


async def test_after_three_failed_attempts_every_one_is_told() -> None:
    values = (20, 30, 40)
    attempts = [e for v in values for e in failed_rehearsal(plan((POOL.model_copy(update={"value": v}), Reload())))]
    reason = await _reason(Rooms(BOOKS), [*until_diagnosed(), *attempts])
    assert reason.startswith("3 attempts failed: 1. ") and "3. " in reason


async def test_a_rollback_is_replanned_and_counts_as_an_attempt() -> None:
    failed = rolled_back_attempt(ev.ApplyFailed(plan_hash="h", results=(), reason="r"))
    books = {"pool_exhausted": Recalled(runbooks=(runbook({**SET, "value": 30}),))}
    assert (await _plan(Rooms(books), [*until_diagnosed(), *failed])).plan.steps[0].action == POOL.model_copy(
        update={"value": 30}
    )
    assert (await _reason(Rooms(books), [*until_diagnosed(), *failed, *failed, *failed])).startswith("3 attempts failed")


async def test_a_stale_plan_is_made_anew_from_what_the_target_is_now() -> None:
    moved = state().configs[0].model_copy(update={"digest": "d-new"})
    planned = await _plan(Rooms(BOOKS, state(configs=(moved,))), [*until_diagnosed(), *stale_attempt()])
    assert planned.plan.steps[0].precondition.config_digest == "d-new"


async def test_a_target_that_keeps_changing_ends_with_a_person() -> None:
    events = [*until_diagnosed(), *(e for _ in range(6) for e in stale_attempt())]
    assert "changed under 6 plans in a row, last: digest changed" in await _reason(Rooms(BOOKS), events)


async def test_a_rollback_that_ends_a_cancelled_incident_is_not_planned_for() -> None:
    events = [
        *until_diagnosed(),
        *rolled_back_attempt(ev.Cancelled(person="ada"), ev.Applied(plan_hash="h", results=(), at=state().at)),
    ]
    room = build(Settings(), chassis(Rooms()))
    said = heard(events)
    assert said.incident.terminal and not await room.handlers[ev.RolledBack](said)


async def test_a_target_that_is_only_observed_asks_nobody() -> None:
    rooms = Rooms(BOOKS)
    event = await _say(rooms, autonomy={"default": "observe"})
    assert event == ev.Observed(summary="The pool is exhausted.") and rooms.asked == []


async def test_a_plan_whose_steps_are_all_observed_is_told_and_not_made() -> None:
    event = await _say(Rooms(BOOKS), autonomy={"default": "auto", "actions": {"set_config": "observe", "reload": "observe"}})
    assert isinstance(event, ev.Observed) and "set database.pool_size to 20" in event.summary


@pytest.mark.parametrize("rooms", [Rooms(Unavailable("qdrant", "away")), Rooms(BOOKS, Unavailable("executor", "away"))])
async def test_nothing_is_planned_without_having_asked_knowledge_and_the_executor(rooms: Rooms) -> None:
    llm = ScriptedLlm()
    with pytest.raises(Unavailable):
        await _say(rooms, llm=llm)
    assert llm.calls == 0


async def test_a_target_file_that_went_missing_is_waited_for() -> None:
    room = build(Settings(), chassis(Rooms(), target(name="other")))
    with pytest.raises(Unavailable, match="no target file is named 'payments'"):
        await room.handlers[ev.Diagnosed](heard(until_diagnosed()))


class Scripted:
    """A source of a test's own."""

    async def offer(self, question: Question) -> Offer:
        wrong = POOL.model_copy(update={"value": 9})
        return Offer((Candidate("pool_exhausted", (wrong,), Basis(kind="person", ref="test", why="a wrong fix")),))


async def test_a_scripted_source_takes_the_place_of_all_others_and_is_held_to_the_same_bounds() -> None:
    planned = await _plan(Rooms(BOOKS), source=Scripted())
    assert [s.action.kind for s in planned.plan.steps] == ["set_config", "reload"] and planned.plan.basis.kind == "person"
    configs = [{"name": "main", "path": "m", "format": "json", "editable": {"database.pool_size": {"type": "int", "min": 10}}}]
    assert "must be at least 10" in await _reason(Rooms(BOOKS), source=Scripted(), configs=configs)


async def test_the_same_event_twice_gives_the_same_plan() -> None:
    assert await _plan(Rooms(BOOKS)) == await _plan(Rooms(BOOKS))
    assert incident(until_diagnosed()).attempts == 0


async def test_the_trace_shows_what_was_recalled_turned_down_and_taken(spans: InMemorySpanExporter) -> None:
    books = (runbook({**SET, "value": 99}, name="too_much"), runbook(SET))
    await _plan(Rooms({"pool_exhausted": Recalled(runbooks=books, withheld=("lesson-9: no",))}))
    found: dict[str, ReadableSpan] = {s.name: s for s in spans.get_finished_spans()}
    recalled, chosen = found["retrieval lessons and runbooks"].attributes or {}, found["choose a plan"].attributes or {}
    assert recalled["retrieval.withheld"] == ("lesson-9: no",) and recalled["gen_ai.operation.name"] == "retrieval"
    assert "at most 50" in str(chosen["alternatives.rejected"]) and chosen["plan.basis"] == "runbook pool"
    assert chosen["incident.id"] == "i1"
