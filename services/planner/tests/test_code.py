"""Code of a running target: a runbook asks for it, the tests that it brings must be red, and what passes becomes a plan."""

import base64
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from autopatch.chassis.chassis import Chassis
from autopatch.chassis.llm.scripted import ScriptedLlm
from autopatch.chassis.llm.settings import Limits, LlmSettings
from autopatch.contract import events as ev
from autopatch.contract.actions import PatchCode, RollbackRelease
from autopatch.contract.code import CodeJob, Covered, Report, Reports, TestCase, Trials
from autopatch.contract.errors import Unavailable
from autopatch.contract.evidence import Evidence
from autopatch.contract.plan import Precondition
from autopatch.contract.requests import Found, Inspect, RanTests, Recall, Recalled, Request, RunbookPlan, RunTests, Search
from autopatch.contract.requests import Snapped, Snapshot
from autopatch.contract.target import Target
from autopatch.repair.diffs import apply_diff
from autopatch.repair.tree import tree_digest, write_archive
from services.planner.service import build
from services.planner.settings import Settings
from services.planner.tests import fakes
from services.planner.tests.repair_fakes import Memory, Repository, Ticking, fenced

SOURCE = b"def add(a, b):\n    return a - b\n"
COMMIT = "c" * 40
ATTACHED = "tests/test_attached.py"
RED = {f"{ATTACHED}::test_two": "add(1, 2) == 3", f"{ATTACHED}::test_many": "add(40, 2) == 42"}
GREEN = {"tests/test_own.py::test_zero": "add(0, 0) == 0"}
SOURCED = {"kind": "docker", "container": "c", "image": "i", "releases": ["1", "2"], "source": "/app"}
TARGET: dict[str, Any] = {
    "runtime": SOURCED, "repository": "/repo", "tests": ["pytest", "-q"],
    "autonomy": {"default": "auto", "actions": {"patch_code": "auto"}},
}


def book(**changed: Any) -> RunbookPlan:
    facts = {"name": "code", "title": "Code", "causes": ("pool_exhausted",), "actions": ({"kind": "patch_code"},),
             "attached": {ATTACHED: "as the repository below has them"}}
    return RunbookPlan.model_validate(facts | changed)


@dataclass
class World:
    """Knowledge with these runbooks, and an executor that evaluates the tests of a repository. `away` is asked in vain, `blind`
    has no coverage, and code with `lost_with` costs it the sandbox."""

    repository: Repository
    books: tuple[RunbookPlan, ...]
    away: type[Request] | None = None
    blind: bool = False
    lost_with: bytes = b"no such code"

    def __post_init__(self) -> None:
        self.blobs = Memory()
        self.asked: list[Request] = []

    async def ask(self, request: Request, reply: Any) -> Any:
        self.asked.append(request)
        if self.away and isinstance(request, self.away):
            raise Unavailable("executor", "repository: /repo is not a git repository")
        match request:
            case Recall(cause="pool_exhausted"):
                return Recalled(runbooks=self.books)
            case Inspect():
                return fakes.state()
            case Snapshot():
                return Snapped(job=self.job())
            case RunTests():
                return await self._ran(request)
            case Search():
                return Found(items=())
            case _:
                return Recalled()

    def job(self) -> CodeJob:
        tree = self.repository.tree
        return CodeJob(
            repository="payments", snapshot=self.blobs.keep(write_archive(tree)), tree=tree_digest(tree), commit=COMMIT,
            command=("pytest", "-q"),
        )

    async def _ran(self, request: RunTests) -> RanTests:
        reports = [self._report(request, "", {}, number) for number in range(request.unchanged)]
        if request.trials:
            for trial in Trials.model_validate_json(await self.blobs.get(request.trials)).trials:
                changes = {c.path: base64.b64decode(c.content or "") for c in trial.changes}
                reports.append(self._report(request, trial.id, changes, 0))
        data = Reports(runtime="runc", image="i", reports=tuple(reports)).model_dump_json().encode()
        return RanTests(reports=self.blobs.keep(data), runtime="runc", tried=len(reports))

    def _report(self, request: RunTests, trial: str, changes: dict[str, bytes], number: int) -> Report:
        if any(self.lost_with in data for data in changes.values()):
            return Report(trial=trial, ended="lost", problem="the container is gone")
        if request.job.command[0] == "python3":
            return Report(trial=trial, ended="finished", output="[]")
        cases: tuple[TestCase, ...] = tuple(self.repository.run(changes, request.only))
        seen = cases if request.coverage and not self.blind else ()
        covered = tuple(Covered(test=case.id, lines={"calc.py": (2,)}) for case in seen)
        failed = any(case.outcome != "passed" for case in cases)
        return Report(trial=trial, run=number, ended="finished", exit_code=int(failed), cases=cases, covered=covered)

    def chassis(self, known: Target) -> Chassis:
        targets = SimpleNamespace(get=lambda name: known if name == known.name else None)
        return cast(Chassis, SimpleNamespace(asker=self, blobs=self.blobs, clock=Ticking(), targets=targets))


def world(source: bytes = SOURCE, tests: dict[str, str] | None = None, *books: RunbookPlan, **changed: Any) -> World:
    return World(Repository({"calc.py": source}, tests or {**GREEN, **RED}), books or (book(),), **changed)


async def say(it: World, events: list[ev.Event] | None = None, *, max_attempts: int = 3, **target: Any) -> ev.Event:
    room = build(Settings(max_attempts=max_attempts), it.chassis(fakes.target(**TARGET | target)))
    said = fakes.heard(events or fakes.until_diagnosed())
    [event] = await room.handlers[type(said.event)](said)
    return event


async def planned(it: World, *given: Any, **target: Any) -> ev.Planned:
    event = await say(it, *given, **target)
    assert isinstance(event, ev.Planned), event
    return event


async def test_a_runbook_that_says_so_becomes_a_patch_that_its_tests_prove_with_the_old_release_as_the_way_back() -> None:
    it = world()
    plan = (await planned(it)).plan
    [step] = plan.steps
    assert isinstance(step.action, PatchCode)
    assert step.undo == RollbackRelease(release="2") and step.precondition == Precondition(release="2", instance="c1")
    assert step.action.base == COMMIT and step.action.files == ("calc.py",)
    job = CodeJob.model_validate_json(it.blobs.held[step.action.job])
    assert (job, plan.success.signal, plan.basis.kind, plan.risk) == (it.job(), "latency", "template", "high")
    made = apply_diff(it.blobs.held[step.action.diff], it.repository.tree)
    names: dict[str, Any] = {}
    exec(made["calc.py"] or b"", names)  # noqa: S102
    assert names["add"](20, 3) == 23
    snapshots = [request for request in it.asked if isinstance(request, Snapshot)]
    assert snapshots == [Snapshot(target="payments", attached={ATTACHED: "as the repository below has them"})]


@pytest.mark.parametrize(("tests", "says"), [
    (GREEN, "are not red: all 1 tests pass in 2 runs"),
    ({**GREEN, f"{ATTACHED}::test_zero": "add(0, 0) == 0", "tests/test_own.py::test_two": "add(1, 2) == 3"},
     "tests/test_attached.py, which the runbook attaches, passes on commit"),
])
async def test_where_the_attached_tests_are_not_red_code_is_not_patched_and_it_is_said_why(
    tests: dict[str, str], says: str
) -> None:
    event = await say(world(SOURCE, tests))
    assert isinstance(event, ev.Escalated) and "patch the code, as runbook code says" in event.reason and says in event.reason


@pytest.mark.parametrize(("target", "says"), [
    ({"autonomy": {"default": "auto"}}, "autonomy.actions does not name patch_code"),
    ({"runtime": SOURCED | {"source": ""}}, "runtime.source is not set"),
    ({"tests": []}, "repository and tests are not set"),
])
async def test_a_target_that_does_not_let_its_code_be_patched_is_not_even_snapshotted(target: dict[str, Any], says: str) -> None:
    it = world()
    event = await say(it, **target)
    assert isinstance(event, ev.Escalated) and says in event.reason
    assert not [request for request in it.asked if isinstance(request, Snapshot | RunTests)]


async def test_what_other_runbooks_do_comes_first_and_code_is_left_alone() -> None:
    back = book(name="back", actions=({"kind": "rollback_release", "release": "previous"},), attached={})
    it = world(SOURCE, None, book(), back)
    event = await planned(it)
    assert event.plan.basis.ref == "back" and event.plan.steps[0].action == RollbackRelease(release="1")
    assert not [request for request in it.asked if isinstance(request, Snapshot)]


async def test_a_patch_that_did_not_recover_the_target_is_not_tried_again() -> None:
    it = world(SOURCE, {f"{ATTACHED}::test_one": "add(1, 1) == 1"})
    first = await planned(it)
    tried = (
        ev.Applied(plan_hash=first.plan_hash, results=(), diff="", at=fakes.START),
        ev.NotRecovered(reason="still red", comparisons=()),
    )
    second = await planned(it, [*fakes.until_diagnosed(), *fakes.rolled_back_attempt(*tried, made=first.plan)])
    before, after = (apply_diff(_diff(it, event), it.repository.tree) for event in (first, second))
    assert before != after


async def test_after_three_patches_that_failed_there_is_no_fourth_whatever_the_setting() -> None:
    it = world(SOURCE, {f"{ATTACHED}::test_one": "add(1, 1) == 1"})
    made = (await planned(it)).plan
    events = [*fakes.until_diagnosed(), *fakes.failed_rehearsal(made) * 2]
    assert (await planned(it, events, max_attempts=9)).plan != made
    it.asked.clear()
    event = await say(it, [*events, *fakes.failed_rehearsal(made)], max_attempts=9)
    assert isinstance(event, ev.Escalated) and "3 patches of the code failed" in event.reason
    assert not [request for request in it.asked if isinstance(request, Snapshot | RunTests)]


def _diff(it: World, event: ev.Planned) -> bytes:
    action = event.plan.steps[0].action
    assert isinstance(action, PatchCode)
    return it.blobs.held[action.diff]


async def test_while_the_executor_cannot_say_what_the_source_is_nothing_is_planned() -> None:
    with pytest.raises(Unavailable, match="not a git repository"):
        await say(world(away=Snapshot))


async def test_a_fault_that_no_edit_mends_is_told_with_what_was_tried() -> None:
    event = await say(world(b"def add(a, b):\n    return None\n"))
    assert isinstance(event, ev.Escalated) and "no change heals the failing tests" in event.reason


@pytest.mark.parametrize("hinted", [False, True])
async def test_what_a_search_of_the_code_took_is_spent_and_told_even_if_it_was_broken_off(hinted: bool) -> None:
    own = {"tests/test_own.py::test_two": "add(1, 2) == 3"}
    it = world(b"def add(a, b):\n    return None\n", {**GREEN, **own} if hinted else None)
    llm = ScriptedLlm(fenced("def add(a, b):\n    return a * b\n"))
    if hinted:
        it.books, it.lost_with = (), b"a * b"
    room = build(Settings(llm=LlmSettings(mode="local", limits=Limits(calls=1))), it.chassis(fakes.target(**TARGET)), llm=llm)
    events = raising() if hinted else fakes.until_diagnosed()
    [event] = await room.handlers[ev.Diagnosed](fakes.heard(events))
    assert isinstance(event, ev.Escalated) and llm.calls == 1
    assert event.model is not None and event.model.calls == 1 and "1 of 1 calls are made" in event.reason


def raising(cause: str = "code_fault", at: str = "calc.py:2") -> list[ev.Event]:
    """The log of an incident whose likeliest cause is that."""
    opened, reproduced, diagnosed = fakes.until_diagnosed()
    assert isinstance(diagnosed, ev.Diagnosed)
    causes = tuple(c.model_copy(update={"id": cause, "cites": ("x1", "m1")}) for c in diagnosed.causes)
    seen = Evidence(id="x1", source="log", summary=f"its own code raises, {at} in add", query=at)
    worse = Evidence(id="m1", source="metric", summary="errors rose")
    return [opened, reproduced, diagnosed.model_copy(update={"causes": causes, "evidence": (worse, seen)})]


async def test_without_a_runbook_code_that_raises_is_patched_where_its_own_tests_are_red() -> None:
    own = {"tests/test_own.py::test_two": "add(1, 2) == 3", "tests/test_own.py::test_ten": "add(4, 6) == 10"}
    it = world(SOURCE, {**GREEN, **own})
    made = (await planned(it, raising())).plan
    assert isinstance(made.steps[0].action, PatchCode) and "all its tests pass with it" in made.basis.why
    assert [request.attached for request in it.asked if isinstance(request, Snapshot)] == [{}]


async def test_where_its_own_tests_are_green_a_person_is_told_the_place_and_what_is_lacking() -> None:
    event = await say(world(SOURCE, GREEN), raising())
    assert isinstance(event, ev.Escalated)
    for told in ("as the log points into it", "are not red", "calc.py:2 in add", "A runbook with patch_code brings a test"):
        assert told in event.reason


async def test_red_tests_that_do_not_run_what_raises_are_no_reason_to_patch_anything() -> None:
    event = await say(world(SOURCE, {**GREEN, "tests/test_own.py::test_two": "add(1, 2) == 3"}), raising(at="shop/db.py:88"))
    assert isinstance(event, ev.Escalated) and "which are not seen to run shop/db.py" in event.reason
    event = await say(world(SOURCE, {"tests/test_all.py::test_two": "add(1, 2) == 3"}, blind=True), raising())
    assert isinstance(event, ev.Escalated) and "which are not seen to run calc.py" in event.reason


async def test_a_source_that_cannot_be_looked_at_holds_up_nothing_that_a_hint_alone_pointed_to() -> None:
    event = await say(world(away=Snapshot), raising())
    assert isinstance(event, ev.Escalated) and "not a git repository" in event.reason


@pytest.mark.parametrize(("cause", "at", "target"), [
    ("overload", "calc.py:2", {}), ("code_fault", "calc.py:2", {"autonomy": {"default": "auto"}}), ("code_fault", "", {}),
])
async def test_code_is_not_looked_at_for_another_cause_without_a_traceback_or_where_it_may_not_be_patched(
    cause: str, at: str, target: dict[str, Any]
) -> None:
    it = world()
    assert isinstance(await say(it, raising(cause, at), **target), ev.Escalated)
    assert not [request for request in it.asked if isinstance(request, Snapshot | RunTests)]
