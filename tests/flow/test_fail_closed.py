"""Whatever is missing, whenever: nothing is done, the reason is on the log, and it goes on alone when it is back."""

import asyncio
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Request

from autopatch.chassis.http import HttpServer
from autopatch.chassis.tests.nats_server import free_port
from autopatch.contract import events as ev
from autopatch.contract.lifecycle import OPEN_STATES, State
from services.knowledge.adapters.stores.edge import EdgeStore
from tests.flow.harness import POLICY as POLICY_TEXT
from tests.flow.harness import Flow, flow, names, notes
from tests.flow.props import ScriptedRehearsal, Switched, sized
from tests.flow.stages import IN_HANDS, Stage

Switch = Callable[[bool], object]


def policy(it: Flow, folder: Path) -> Switch:
    """The policy file is removed, and put back."""
    path = folder / "policy.yaml"
    return lambda there: path.write_text(POLICY_TEXT) if there else path.unlink()


def broken_policy(it: Flow, folder: Path) -> Switch:
    """Somebody makes a mistake in the policy file, and repairs it."""
    path = folder / "policy.yaml"
    return lambda there: path.write_text(POLICY_TEXT if there else POLICY_TEXT.replace("actions:", "acts:"))


def prometheus(it: Flow, folder: Path) -> Switch:
    """Answers 503."""
    return lambda there: setattr(it.world, "up", there)


def alertmanager(it: Flow, folder: Path) -> Switch:
    """Answers 503."""
    return lambda there: setattr(it.world, "alertmanager_up", there)


def docker(it: Flow, folder: Path) -> Switch:
    """Whatever is asked of the engine, it does not answer."""
    everything = {"state", "prepare", "has_effect", "act", "take_back", "is_undone", "is_untouched", "logs"}

    def switch(there: bool) -> None:
        it.hands.away = set() if there else set(everything)

    return switch


Missing = tuple[Callable[[Flow, Path], Switch], str, str]
PROMETHEUS: Missing = (prometheus, "prometheus", "prometheus")
ALERTMANAGER: Missing = (alertmanager, "silence", "alertmanager")
POLICY: Missing = (policy, "policy", "policy.yaml cannot be read")
BROKEN_POLICY: Missing = (broken_policy, "policy", "acts")
DOCKER: Missing = (docker, "docker", "engine")
GATE = (POLICY, PROMETHEUS, BROKEN_POLICY, ALERTMANAGER, DOCKER)
MATTERS: tuple[tuple[State, tuple[Missing, ...]], ...] = (
    (State.OPEN, (PROMETHEUS,)), (State.REPRODUCED, (PROMETHEUS, DOCKER)), (State.DIAGNOSED, (DOCKER, PROMETHEUS)),
    (State.PLANNED, GATE), (State.REHEARSED, GATE), (State.APPROVED, GATE), (State.APPLYING, (DOCKER,)),
)


@pytest.mark.parametrize("state, missing", [pytest.param(state, missing, id=str(state)) for state, missing in MATTERS])
async def test_while_something_is_missing_nothing_is_applied_and_then_it_goes_on_alone(
    tmp_path: Path, state: State, missing: tuple[Missing, ...]
) -> None:
    """One thing after the other is taken away; the next one before the last is back, so that the incident gets no further."""
    stage = Stage(state)
    async with flow(tmp_path, **stage.given) as it:
        give_back: Callable[[], object] = int
        await stage.reach(it)
        for take, on, word in missing:
            switch = take(it, tmp_path)
            switch(False)
            give_back()
            give_back = functools.partial(switch, True)
            if state is not State.OPEN:
                await stage.leave(it)
            incident = await it.until(lambda i, on=on: on in [n.on for n in notes(i)[-1:]], f"waiting on {on}")  # type: ignore[misc]
            assert word in f"{on} {notes(incident)[-1].reason}".lower()
            await it.untouched()
            assert (await it.only()).state is incident.state
        give_back()
        await it.wait(State.RESOLVED)
        assert len(it.hands.lines()) == 1


async def test_a_room_that_is_away_is_waited_for_by_those_who_ask_it(tmp_path: Path) -> None:
    """One after the other, the next one before the last is back."""
    stage = Stage(State.OPEN)
    async with flow(tmp_path, **stage.given) as it:
        await stage.reach(it)
        before = ""
        for room, by in (("executor", "diagnosis"), ("knowledge", "planner"), ("monitor", "executor"), ("validator", "executor")):
            await it.stop(room)
            await it.start(before) if before else await stage.leave(it)
            incident = await it.until(lambda i, r=room: r in [n.on for n in notes(i)[-1:]], f"waiting on {room}")  # type: ignore[misc]
            assert notes(incident)[-1].room == by
            await it.untouched()
            before = room
        await it.start(before)
        await it.wait(State.RESOLVED)


async def test_without_a_sandbox_nothing_is_rehearsed_and_nothing_applied(tmp_path: Path) -> None:
    rehearsal = ScriptedRehearsal(away=True)
    async with flow(tmp_path, adapters={"executor": {"rehearse": rehearsal}}) as it:
        await it.alert("payments")
        await it.waits_on("docker", State.PLANNED)
        await it.untouched()
        rehearsal.away = False
        await it.wait(State.RESOLVED)


async def test_a_fix_is_not_judged_while_prometheus_is_away(tmp_path: Path) -> None:
    stage = Stage(State.APPLIED)
    async with flow(tmp_path, **stage.given) as it:
        await stage.reach(it)
        it.world.up = False
        await it.waits_on("prometheus", State.APPLIED)
        assert len(it.hands.lines()) == 1
        it.world.up = True
        incident = await it.wait(State.RESOLVED)
        assert "not_recovered" not in names(incident) and "inconclusive" not in names(incident)


async def test_a_rollback_waits_for_the_engine_and_is_done_once(tmp_path: Path) -> None:
    async with flow(tmp_path, given={"planner": {"max_attempts": 1}}) as it:
        it.world.services["payments"].forced = 2.0
        await it.alert("payments")
        await it.wait(State.APPLIED)
        it.hands.away = {"take_back"}
        await it.waits_on("docker", State.ROLLING_BACK)
        assert len(it.hands.lines()) == 1
        it.hands.away = set()
        await it.wait(State.ESCALATED)
        assert [line.split()[0] for line in it.hands.lines()] == ["apply", "undo"]


async def test_without_knowledge_nothing_is_planned(tmp_path: Path) -> None:
    stage, store = Stage(State.REPRODUCED), Switched(EdgeStore(tmp_path / "qdrant"))
    given = stage.given
    given["adapters"]["knowledge"] = {"store": store}
    async with flow(tmp_path, **given) as it:
        await stage.reach(it)
        store.up = False
        await stage.leave(it)
        await it.waits_on("qdrant", State.DIAGNOSED)
        await it.untouched()
        store.up = True
        await it.wait(State.RESOLVED)


async def test_a_lesson_is_learnt_later_when_the_store_is_away_at_the_end(tmp_path: Path) -> None:
    store = Switched(EdgeStore(tmp_path / "qdrant"))
    async with flow(tmp_path, adapters={"knowledge": {"store": store}}) as it:
        await it.alert("payments")
        await it.wait(State.APPLIED)
        store.up = False
        await it.wait(State.RESOLVED)
        await asyncio.sleep(0.5)
        assert (await it.only()).last(ev.LessonRecorded) is None
        store.up = True
        incident = await it.until(lambda i: i.last(ev.LessonRecorded), "learnt from")
        lesson = incident.last(ev.LessonRecorded)
        assert lesson and lesson.outcome == "recovered"


def endpoint(port: int) -> HttpServer:
    """A model that knows what would help."""
    app = FastAPI()

    @app.post("/v1/chat/completions")
    async def complete(request: Request) -> dict[str, Any]:
        await request.body()
        answer = '{"action": "set_config", "setting": "config:database.pool_size", "value": "20", "cause": "pool_exhausted"}'
        message = {"role": "assistant", "content": answer}
        return {
            "id": "1", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20},
        }

    return HttpServer(app, "127.0.0.1", port)


async def test_a_model_that_cannot_be_reached_is_waited_for_and_nothing_is_guessed(tmp_path: Path) -> None:
    port = free_port()
    llm = {"mode": "remote", "base_url": f"http://127.0.0.1:{port}/v1", "model": "m"}
    async with flow(tmp_path, given={"planner": {"llm": llm}}, world={"runbook": "# Nothing of use\n"}) as it:
        await it.alert("payments")
        incident = await it.waits_on("model endpoint", State.DIAGNOSED)
        assert notes(incident)[-1].room == "planner"
        await it.untouched()
        serving = asyncio.create_task(endpoint(port).serve())
        incident = await it.wait(State.RESOLVED)
        planned = incident.last(ev.Planned)
        assert planned and planned.plan.basis.kind == "model" and planned.model.calls == 1
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def test_a_model_that_cannot_be_reached_is_not_missed_where_a_runbook_answers(tmp_path: Path) -> None:
    llm = {"mode": "remote", "base_url": f"http://127.0.0.1:{free_port()}/v1", "model": "m"}
    async with flow(tmp_path, given={"planner": {"llm": llm}, "diagnosis": {"llm": llm}}) as it:
        await it.alert("payments")
        planned = (await it.wait(State.RESOLVED)).last(ev.Planned)
        assert planned and planned.plan.basis.kind == "runbook" and planned.model.calls == 0


NATS_LONG = frozenset(OPEN_STATES) - {State.PLANNED, State.APPLYING, State.ROLLING_BACK}
"""Much like their neighbours; a server's death takes six seconds each."""


@pytest.mark.parametrize("state", [
    pytest.param(s, id=s.value, marks=[pytest.mark.long] if s in NATS_LONG else []) for s in State if s in OPEN_STATES
])
async def test_nats_dies_in_any_state_and_nothing_is_lost_or_done_twice(tmp_path: Path, state: State) -> None:
    stage = Stage(state)
    given = {**stage.given, "given": {"planner": {"max_attempts": 1}}}
    async with flow(tmp_path, **given, given_all={"ack_wait_s": 1}) as it:
        await stage.reach(it)
        did = it.hands.lines()
        it.nats.kill()
        stage.gate.open()
        await asyncio.sleep(0.5)
        assert len(it.hands.lines()) <= len(did) + (state in (State.APPLYING, State.ROLLING_BACK))
        it.nats.start()
        await stage.leave(it)
        undone = state in (State.UNDO_DUE, State.ROLLING_BACK)
        await it.wait(State.ESCALATED if undone else State.RESOLVED)
        assert [line.split()[0] for line in it.hands.lines()] == (["apply", "undo"] if undone else ["apply"])
        service = it.world.services["payments"]
        assert service.config.read_bytes() == (service.original if undone else sized(service.original, 20))


@pytest.mark.long
@pytest.mark.parametrize(
    "missing", [policy, broken_policy, prometheus, alertmanager, docker, None], ids=lambda m: m.__name__ if m else "qdrant"
)
@pytest.mark.parametrize("state", [s for s in State if s in OPEN_STATES], ids=str)
async def test_long_whatever_is_away_for_a_while_in_any_state_it_ends_well_and_nothing_is_done_twice(
    tmp_path: Path, state: State, missing: Callable[[Flow, Path], Switch] | None
) -> None:
    if missing is broken_policy and state is State.UNDO_DUE:
        pytest.skip("the executor is started in this state, and does not start on a broken policy")
    stage, store = Stage(state), Switched(EdgeStore(tmp_path / "qdrant"))
    given = {**stage.given, "given": {"planner": {"max_attempts": 1}}}
    given["adapters"] = {**given["adapters"], "knowledge": {**given["adapters"].get("knowledge", {}), "store": store}}
    async with flow(tmp_path, **given) as it:
        await stage.reach(it)
        did = it.hands.lines()
        switch = missing(it, tmp_path) if missing else lambda there: setattr(store, "up", there)
        switch(False)
        await stage.leave(it)
        await asyncio.sleep(1)
        if missing is docker:
            assert it.hands.lines() == did
        elif missing in (policy, broken_policy, prometheus) and state not in (*IN_HANDS, State.UNDO_DUE, State.OPEN):
            assert len(it.hands.lines()) == len(did), "applied without what says whether it may"
        switch(True)
        undone = state in (State.UNDO_DUE, State.ROLLING_BACK)
        await it.wait(State.ESCALATED if undone else State.RESOLVED)
        assert [line.split()[0] for line in it.hands.lines()] == (["apply", "undo"] if undone else ["apply"])


async def test_nats_is_away_for_longer_than_anybody_waits_for_it(tmp_path: Path) -> None:
    stage = Stage(State.PLANNED)
    async with flow(tmp_path, **stage.given, given_all={"publish_budget_s": 0.5, "ack_wait_s": 1}) as it:
        incident = await stage.reach(it)
        it.nats.kill()
        await stage.leave(it)
        answer = await it.say(incident, "cancel")
        assert answer.status_code == 503 and "nats" in answer.json()["error"].lower()
        await asyncio.sleep(2)
        await it.untouched()
        it.nats.start()
        await it.wait(State.RESOLVED)


async def test_what_is_missing_for_too_long_is_told_to_a_person_and_not_done_afterwards(tmp_path: Path) -> None:
    stage = Stage(State.PLANNED)
    async with flow(tmp_path, **stage.given, given_all={"waiting_limit_s": 0.5}) as it:
        await stage.reach(it)
        it.world.up = False
        await stage.leave(it)
        escalated = (await it.wait(State.ESCALATED)).last(ev.Escalated)
        assert escalated and "for prometheus" in escalated.reason
        it.world.up = True
        await it.untouched(1)
