"""A job through all seven rooms: from a red test to a verified diff, or to the right verdict and nothing changed."""

import asyncio
import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from autopatch.contract import events as ev
from autopatch.contract.actions import PatchCode
from autopatch.contract.code import Kind, Places, RepairVerdict
from autopatch.contract.lifecycle import TERMINAL, Incident, State, chain_faults
from autopatch.contract.model import digest
from autopatch.repair.diffs import apply_diff
from autopatch.repair.tree import write_archive
from tests.flow.hands import Gate
from tests.flow.harness import Flow, flow, names, told
from tests.flow.sandbox import FIXED, SUITE, Scripted, ScriptedSandbox, repository
from tests.flow.test_kills import Victim, hunted

HAPPY = ["opened", "reproduced", "diagnosed", "planned", "rehearsed", "applying", "applied", "recovered"]
MANY_FIXES = (Scripted("test_till.py::test_total", lambda names: names["total"](1, 1), 1, 5), *SUITE[1:])
"""1 * 1, 1 // 1 and either 1 alone all pass: there is a next attempt."""


async def opened(it: Flow, files: Mapping[str, bytes] | None = None, **given: Any) -> str:
    """A job, as a person begins one."""
    archive = base64.b64encode(write_archive(files or repository())).decode()
    job = {"repository": "till", "archive": archive, "command": ["pytest", "-q"], **given}
    answer = await it.person("POST", "/v1/repairs", job)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["incident"])


async def ended(it: Flow, incident_id: str, state: State) -> tuple[Incident, RepairVerdict]:
    """The incident, which must end so, and its verdict."""
    incident = await it.wait(*TERMINAL, incident_id=incident_id, timeout_s=60)
    assert incident.state is state, told(incident)
    answer = await it.person("GET", f"/v1/repairs/{incident_id}")
    assert answer.status_code == 200, answer.text
    return incident, RepairVerdict.model_validate_json(answer.text)


async def patched(it: Flow, incident: Incident, files: Mapping[str, bytes]) -> dict[str, Any]:
    """The names of the module when the diff that a person gets is applied to what was handed in."""
    diff = (await it.person("GET", f"/v1/repairs/{incident.id}/diff")).content
    made = {**files, **apply_diff(diff, files)}
    assert made["test_till.py"] == files["test_till.py"] and made.keys() == files.keys()
    planned, job = incident.last(ev.Planned), incident.opened.job
    assert planned and job and [step.action for step in planned.plan.steps] == [
        PatchCode(diff=digest(diff), base=job.tree, files=("till.py",))
    ]
    module: dict[str, Any] = {}
    exec(made["till.py"] or b"", module)  # noqa: S102
    return module


async def test_a_red_test_is_repaired_without_a_model_and_a_lesson_is_kept(tmp_path: Path) -> None:
    async with flow(tmp_path, sandbox=ScriptedSandbox()) as it:
        incident, verdict = await ended(it, await opened(it), State.RESOLVED)
        assert names(incident) == HAPPY
        assert (verdict.verdict, verdict.attempts, verdict.repository) == ("fixed", 1, "till")
        assert verdict.before and verdict.after
        assert (verdict.before.failed, verdict.after.failed, verdict.after.passed) == (1, 0, 3)
        assert (await patched(it, incident, repository()))["total"](20, 30) == 50
        diagnosed, planned = incident.last(ev.Diagnosed), incident.last(ev.Planned)
        assert diagnosed and diagnosed.places and planned and planned.model.calls == 0
        places = Places.model_validate_json(await it.rooms["gateway"].desk.blobs.get(diagnosed.places)).places
        assert (places[0].path, places[0].name) == ("till.py", "total")
        learnt = (await it.until(lambda i: i.last(ev.LessonRecorded), "learnt from")).last(ev.LessonRecorded)
        assert learnt and (learnt.outcome, learnt.signature) == ("recovered", diagnosed.signature)
        await it.untouched()


@pytest.mark.parametrize("source, suite, problem, kind", [
    (FIXED, SUITE, "", "not_reproduced"),
    (FIXED, (Scripted(SUITE[0].id, SUITE[0].call, 5, 5, mood=(True, False, False)), *SUITE[1:]), "", "flaky"),
    (FIXED, SUITE, "ModuleNotFoundError: No module named 'numpy'", "environment_error"),
], ids=["green", "flaky", "environment"])
async def test_what_is_not_always_red_gets_its_verdict_and_nothing_is_tried(
    tmp_path: Path, source: bytes, suite: tuple[Scripted, ...], problem: str, kind: Kind
) -> None:
    async with flow(tmp_path, sandbox=ScriptedSandbox(suite, problem)) as it:
        incident, verdict = await ended(it, await opened(it, repository(source)), State.CLOSED)
        assert names(incident) == ["opened", "not_reproduced"] and verdict.verdict == kind
        assert not verdict.diff and it.sandbox.states() == [State.OPEN]


async def test_a_red_test_beside_a_flaky_one_is_repaired(tmp_path: Path) -> None:
    moody = Scripted(SUITE[1].id, SUITE[1].call, 2, 9, mood=(False, True, False))
    async with flow(tmp_path, sandbox=ScriptedSandbox((SUITE[0], moody, SUITE[2]))) as it:
        _, verdict = await ended(it, await opened(it), State.RESOLVED)
        assert verdict.verdict == "fixed"


@pytest.mark.parametrize("state", [State.OPEN, State.REPRODUCED, State.DIAGNOSED, State.PLANNED, State.APPLIED], ids=str)
async def test_an_engine_that_is_away_is_waited_for_and_the_job_goes_on_by_itself(tmp_path: Path, state: State) -> None:
    async with flow(tmp_path, sandbox=ScriptedSandbox()) as it:
        gate = it.sandbox.gates[state] = Gate()
        incident_id = await opened(it)
        await asyncio.wait_for(gate.reached.wait(), 60)
        it.sandbox.away = True
        gate.open()
        await it.waits_on("docker", state, incident_id=incident_id)
        it.sandbox.away = False
        incident, verdict = await ended(it, incident_id, State.RESOLVED)
        assert names(incident) == HAPPY and verdict.verdict == "fixed"


async def test_an_engine_that_stays_away_ends_as_sandbox_unavailable(tmp_path: Path) -> None:
    async with flow(tmp_path, sandbox=ScriptedSandbox(away=True), given_all={"waiting_limit_s": 1}) as it:
        incident, verdict = await ended(it, await opened(it), State.ESCALATED)
        assert names(incident) == ["opened", "escalated"] and verdict.verdict == "sandbox_unavailable"


async def test_a_change_that_does_not_hold_is_followed_by_others_and_after_the_third_by_a_person(tmp_path: Path) -> None:
    async with flow(tmp_path, sandbox=ScriptedSandbox(MANY_FIXES, spoilt={State.APPLIED})) as it:
        incident, verdict = await ended(it, await opened(it), State.ESCALATED)
        said = names(incident)
        assert said.count("planned") == said.count("not_recovered") == said.count("rolled_back") == 3, told(incident)
        hashes = {s.envelope.data.plan_hash for s in incident.log if isinstance(s.envelope.data, ev.Planned)}
        assert len(hashes) == 3 and verdict.verdict == "no_fix_found" and verdict.attempts == 3


async def test_a_change_that_holds_only_at_the_second_attempt_is_found(tmp_path: Path) -> None:
    async with flow(tmp_path, sandbox=ScriptedSandbox(MANY_FIXES, spoilt={State.APPLIED})) as it:
        incident_id = await opened(it)
        await it.until(lambda i: i.last(ev.NotRecovered), "not recovered", incident_id=incident_id, timeout_s=60)
        it.sandbox.spoilt.clear()
        incident, verdict = await ended(it, incident_id, State.RESOLVED)
        assert (verdict.verdict, verdict.attempts) == ("fixed", names(incident).count("planned"))


async def test_a_reopened_job_is_reproduced_again_and_repaired(tmp_path: Path) -> None:
    async with flow(tmp_path, sandbox=ScriptedSandbox(away=True), given_all={"waiting_limit_s": 1}) as it:
        incident, _ = await ended(it, await opened(it), State.ESCALATED)
        it.sandbox.away = False
        assert (await it.say(incident, "reopen", reason="the engine is back")).status_code == 200
        _, verdict = await ended(it, incident.id, State.RESOLVED)
        assert verdict.verdict == "fixed"


@pytest.mark.parametrize("state", [State.OPEN, State.REPRODUCED, State.DIAGNOSED, State.PLANNED, State.APPLIED], ids=str)
async def test_cancelled_while_its_tests_run_they_end_within_a_second(tmp_path: Path, state: State) -> None:
    async with flow(tmp_path, sandbox=ScriptedSandbox()) as it:
        gate = it.sandbox.gates[state] = Gate()
        incident_id = await opened(it)
        await asyncio.wait_for(gate.reached.wait(), 60)
        incident = await it.wait(state, incident_id=incident_id)
        assert (await it.say(incident, "cancel", reason="enough")).status_code == 200
        await asyncio.wait_for(gate.given_up.wait(), 2)
        incident, verdict = await ended(it, incident_id, State.CANCELLED)
        assert verdict.verdict == "cancelled"
        gate.open()
        said = names(incident)
        await asyncio.sleep(0.3)
        assert names(await it.log.load(incident_id)) == said


async def test_the_same_fault_again_uses_the_lesson_and_asks_no_model(tmp_path: Path) -> None:
    async with flow(tmp_path, sandbox=ScriptedSandbox()) as it:
        first, _ = await ended(it, await opened(it), State.RESOLVED)
        await it.until(lambda i: i.last(ev.LessonRecorded), "learnt from", incident_id=first.id)
        files = {**repository(), "README.md": b"# A till\n"}
        again, verdict = await ended(it, await opened(it, files), State.RESOLVED)
        planned, diagnosed = again.last(ev.Planned), again.last(ev.Diagnosed)
        assert planned and diagnosed and names(again) == HAPPY and verdict.verdict == "fixed"
        assert planned.plan.basis.kind == "lesson" and planned.model.calls == diagnosed.model.calls == 0
        recorded = await it.until(lambda i: i.last(ev.LessonRecorded), "learnt from", incident_id=again.id)
        both = [i.last(ev.LessonRecorded) for i in (await it.log.load(first.id), recorded)]
        assert both[0] and both[1] and both[0].lesson_id == both[1].lesson_id and both[1].trust > both[0].trust


async def test_every_room_that_worked_on_a_job_is_on_its_one_trace(tmp_path: Path) -> None:
    async with flow(tmp_path, sandbox=ScriptedSandbox()) as it:
        incident_id = await opened(it)
        await ended(it, incident_id, State.RESOLVED)
        await it.until(lambda i: i.last(ev.LessonRecorded), "learnt from", incident_id=incident_id)
        await asyncio.sleep(0.2)
        own = [s for s in it.spans.get_finished_spans() if (s.attributes or {}).get("incident.id") == incident_id]
        assert len({s.context.trace_id for s in own if s.context}) == 1
        rooms = {str(s.resource.attributes["service.name"]) for s in own}
        assert rooms >= {f"autopatch-{r}" for r in ("gateway", "validator", "diagnosis", "planner", "executor", "knowledge")}
        by_name = {s.name: dict(s.attributes or {}) for s in own}
        told_of = {"reproduce by tests", "collect coverage", "retrieval code", "localise", "judge recovery by tests"}
        assert told_of <= by_name.keys()
        places = by_name["localise"]["places"]
        assert isinstance(places, tuple) and "till.py" in str(places[0])


async def _healed(it: Flow, incident_id: str, victim: Victim, folder: Path) -> None:
    watching = asyncio.create_task(victim.watch())
    try:
        incident = await it.until(
            lambda i: i.state in TERMINAL, "ended", incident_id=incident_id, timeout_s=90,
        )
        await it.until(lambda i: i.last(ev.LessonRecorded), "learnt from", incident_id=incident_id, timeout_s=60)
    finally:
        watching.cancel()
    assert incident.state is State.RESOLVED and names(incident) == HAPPY, told(incident)
    assert chain_faults(incident) == []
    assert (folder / "deaths").exists(), "it was never killed"


ONCE = {
    "validator": "decided", "diagnosis": "before_append", "planner": "after_append", "executor": "asking",
    "knowledge": "before_ack",
}
POINTS = ("received", "loaded", "asking", "decided", "before_append", "after_append", "before_ack", "after_ack")


@pytest.mark.parametrize("room", ONCE)
async def test_a_room_that_is_killed_once_during_a_job_loses_nothing_and_says_nothing_twice(tmp_path: Path, room: str) -> None:
    async with hunted(tmp_path, room, ["payments"], sandbox=ScriptedSandbox()) as (it, victim):
        victim.jobs = True
        victim.begin(ONCE[room])
        await _healed(it, await opened(it), victim, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("room", ONCE)
async def test_long_kill_at_every_point_of_a_job(tmp_path: Path, room: str) -> None:
    async with hunted(tmp_path, room, ["payments"], sandbox=ScriptedSandbox()) as (it, victim):
        victim.jobs = True
        for point in POINTS:
            victim.end()
            (tmp_path / "deaths").unlink(missing_ok=True)
            victim.begin(point)
            await _healed(it, await opened(it, request_id=point), victim, tmp_path)
