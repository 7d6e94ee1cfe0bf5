"""Jobs: the sandbox's answers are scripted, everything else is the room's own."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from autopatch.chassis.room import Reject
from autopatch.chassis.telemetry import scope
from autopatch.contract import code
from autopatch.contract import events as ev
from autopatch.contract.actions import PatchCode, Reload
from autopatch.contract.errors import Unavailable
from autopatch.contract.evidence import BlobRef, Cause, ModelUse, Rehearsal, TargetState
from autopatch.contract.lifecycle import State
from autopatch.contract.model import Word, digest
from autopatch.contract.plan import Basis, Plan, Precondition, Step, SuccessCheck
from autopatch.contract.requests import RanTests, Recheck, Rechecked, Request, RunTests
from autopatch.repair.tree import write_archive
from services.validator.service import build
from services.validator.settings import Settings
from services.validator.tests.given import T0, Desk, MemoryLog, OneTarget, Probe, Quiet, Scripted, after, heard, incident

ARCHIVE = write_archive({"calc.py": b"", "test_calc.py": b""})
DIFF = b"--- a/calc.py\n+++ b/calc.py\n"
ADD, SUB, WAIT = "test_calc.py::test_add", "test_calc.py::test_sub", "test_calc.py::test_wait"


class Store:
    """An object store in memory."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {digest(ARCHIVE): ARCHIVE}

    async def put(self, data: bytes) -> BlobRef:
        self.held[digest(data)] = data
        return BlobRef(name=digest(data), size=len(data), digest=digest(data))

    async def get(self, ref: BlobRef) -> bytes:
        return self.held[ref.digest]


@dataclass
class Sandbox:
    """The executor: answers every request with the next reports, the last ones for ever."""

    store: Store
    answers: list[tuple[code.Report, ...] | Unavailable]
    asked: list[RunTests] = field(default_factory=list)

    async def ask(self, request: Request, reply: type[Word]) -> Any:
        assert isinstance(request, RunTests) and reply is RanTests
        self.asked.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Unavailable):
            raise answer
        document = code.Reports(runtime="runsc", image="python", reports=answer)
        return RanTests(reports=await self.store.put(document.model_dump_json().encode()), runtime="runsc")


def run(number: int = 0, trial: str = "", *, ended: Any = "finished", problem: str = "", **outcomes: Any) -> code.Report:
    """One run; the outcome of each test by the last word of its name."""
    cases = tuple(
        code.TestCase(id=f"test_calc.py::test_{name}", outcome=outcome, message="assert 0 == 2" if outcome == "failed" else "")
        for name, outcome in outcomes.items()
    )
    red = any(o in ("failed", "error", "timed_out") for o in outcomes.values())
    return code.Report(trial=trial, run=number, ended=ended, exit_code=int(red), cases=cases, problem=problem, seconds=0.2)


RED = tuple(run(n, add="failed", sub="passed") for n in range(3))
JOB = code.CodeJob(
    repository="calc", snapshot=BlobRef(name=digest(ARCHIVE), size=len(ARCHIVE), digest=digest(ARCHIVE)), tree="t1",
    command=("pytest", "-q"), suite_s=20,
)
OPENED = ev.Opened(target="calc", title="calc is red", job=JOB)


class Case:
    """One job in the room."""

    def __init__(self, *answers: tuple[code.Report, ...] | Unavailable, events: Sequence[ev.Event] = (OPENED,)) -> None:
        self.store = Store()
        self.sandbox = Sandbox(self.store, list(answers))
        self.desk = Desk(MemoryLog(incident([(n, e) for n, e in enumerate(events, 1)])), OneTarget(None), asker=self.sandbox)
        self.desk.blobs = self.store
        self.prometheus = Scripted({})
        self.room = build(Settings(), self.desk, sources=self.prometheus, health=Probe(), cores=Quiet())

    async def hear(self, kind: type[ev.Event]) -> ev.Event:
        [found] = await self.room.handlers[kind](heard(self.desk.memory.incident))
        assert self.prometheus.asked == [] and self.desk.set_to.due == {}
        return found

    async def recheck(self) -> Rechecked:
        answer = await self.room.responders[Recheck](Recheck(incident_id="i1"))
        assert isinstance(answer, Rechecked)
        return answer

    async def decided(self) -> ev.Event:
        return await self.hear(ev.Opened)


async def reproduced(*answers: tuple[code.Report, ...]) -> ev.Reproduced:
    found = await Case(*(answers or (RED,))).decided()
    assert isinstance(found, ev.Reproduced), found
    return found


async def not_reproduced(*reports: code.Report) -> ev.NotReproduced:
    found = await Case(tuple(reports)).decided()
    assert isinstance(found, ev.NotReproduced), found
    return found


async def test_a_test_that_fails_three_times_is_reproduced_with_its_table_and_the_reports_in_full() -> None:
    case = Case(RED)
    found = await case.decided()
    assert isinstance(found, ev.Reproduced) and found.tests and found.tests.report
    assert (found.signal, found.checks) == ("tests", ())
    assert (found.tests.passed, found.tests.failed, [c.id for c in found.tests.failing]) == (1, 1, [ADD])
    assert code.Reports.model_validate_json(case.store.held[found.tests.report.digest]).reports == RED
    [asked] = case.sandbox.asked
    assert (asked.unchanged, asked.coverage, asked.only, asked.diff, asked.limit_s) == (3, False, (), None, 120)


async def test_a_failing_test_among_flaky_ones_is_still_repaired() -> None:
    runs = (run(0, add="failed", wait="failed"), run(1, add="failed", wait="passed"), run(2, add="failed", wait="failed"))
    found = await reproduced(runs, runs)
    assert found.tests and [c.id for c in found.tests.failing] == [ADD]


async def test_where_chance_decides_some_tests_three_red_runs_of_another_are_not_believed() -> None:
    three = (run(0, add="failed", wait="failed"), run(1, add="failed", wait="passed"), run(2, add="failed", wait="failed"))
    ten = (*three, *(run(n, add="passed" if n == 7 else "failed", wait="passed") for n in range(3, 10)))
    case = Case(three, ten)
    found = await case.decided()
    assert isinstance(found, ev.NotReproduced) and found.kind == "flaky"
    assert [asked.unchanged for asked in case.sandbox.asked] == [3, 10]


async def test_tests_that_fail_only_sometimes_are_flaky_and_nothing_is_changed() -> None:
    found = await not_reproduced(run(0, add="failed"), run(1, add="passed"), run(2, add="passed"))
    assert found.kind == "flaky" and "nothing is changed" in found.reason
    assert found.tests and [c.id for c in found.tests.failing] == [ADD]


async def test_tests_that_all_pass_close_the_job_as_green() -> None:
    found = await not_reproduced(*(run(n, add="passed", sub="passed") for n in range(3)))
    assert found.kind == "green" and found.tests and found.tests.passed == 2


async def test_a_run_without_tests_is_an_error_of_the_environment_and_says_which() -> None:
    found = await not_reproduced(*(run(n, problem="No module named 'numpy'") for n in range(3)))
    assert found.kind == "environment_error" and "numpy" in found.reason


async def test_a_module_of_the_repository_that_cannot_be_imported_is_a_fault_to_repair_and_must_break_again() -> None:
    blind = tuple(run(n, problem="ModuleNotFoundError: No module named 'calc.sums'") for n in range(3))
    assert isinstance(await Case(blind).decided(), ev.Reproduced)
    healed = run(0, "diff", add="passed", sub="passed")
    assert isinstance(await (await applied(blind[0], healed, baseline=blind)).hear(ev.Applied), ev.Recovered)
    calm = await (await applied(run(0, add="passed"), healed, baseline=blind)).hear(ev.Applied)
    assert isinstance(calm, ev.NotRecovered) and "did not fail again" in calm.reason


async def test_no_run_in_time_is_an_error_of_the_environment() -> None:
    found = await not_reproduced()
    assert found.kind == "environment_error" and found.reason


async def test_a_test_that_was_seen_to_fail_only_once_is_not_repaired() -> None:
    found = await not_reproduced(RED[0])
    assert found.kind == "environment_error" and "fewer tests" in found.reason
    assert isinstance(await Case(RED[:2]).decided(), ev.Reproduced)


async def test_a_missing_engine_is_waited_for() -> None:
    with pytest.raises(Unavailable) as caught:
        await Case(Unavailable("docker", "the engine does not answer")).decided()
    assert caught.value.service == "docker"


async def test_a_sandbox_that_was_lost_is_asked_for_once_more() -> None:
    case = Case((RED[0], run(1, ended="lost", problem="killed")), RED)
    assert isinstance(await case.decided(), ev.Reproduced) and len(case.sandbox.asked) == 2


async def test_a_sandbox_that_is_lost_again_is_an_error_of_the_environment() -> None:
    case = Case((run(0, ended="lost", problem="killed"),))
    found = await case.decided()
    assert isinstance(found, ev.NotReproduced) and found.kind == "environment_error" and "killed" in found.reason
    assert len(case.sandbox.asked) == 2


@pytest.mark.parametrize("lost", [0, 1])
async def test_a_sandbox_that_is_lost_again_says_nothing_of_a_change_and_is_waited_for(lost: int) -> None:
    copies = [run(0, add="failed", sub="passed"), run(0, "diff", add="passed", sub="passed")]
    copies[lost] = copies[lost].model_copy(update={"ended": "lost", "cases": (), "problem": "killed"})
    case = await applied(*copies)
    with pytest.raises(Unavailable, match="lost twice: killed"):
        await case.hear(ev.Applied)


async def test_secrets_that_a_test_prints_reach_no_event() -> None:
    leaking = tuple(
        r.model_copy(update={"cases": tuple(c.model_copy(update={
            "message": "password=hunter2secret", "actual": "api_key=hunter2secret"}) for c in r.cases)})
        for r in RED
    )
    assert "hunter2secret" not in (await reproduced(leaking)).model_dump_json()
    found = await not_reproduced(*(run(n, problem="password=hunter2secret") for n in range(3)))
    assert "hunter2secret" not in found.model_dump_json()


async def test_many_long_failures_are_cut_to_what_the_log_takes() -> None:
    long = tuple(
        code.Report(ended="finished", run=n, cases=tuple(
            code.TestCase(id=f"t.py::test_{i}", outcome="failed", message="ä\n" * 1000, expected="x" * 9000, actual="y" * 9000)
            for i in range(30)
        )) for n in range(3)
    )
    found = await reproduced(long)
    assert found.tests and found.tests.failed == 30 and found.tests.failing
    assert len(found.model_dump_json().encode()) < 48 * 1024


async def test_a_reopened_job_is_run_again() -> None:
    case = Case(RED, events=(OPENED, ev.NotReproduced(reason="r"),))
    escalated = Case(RED, events=(OPENED, ev.Escalated(reason="r", room="planner"), ev.Reopened(person="ada")))
    assert case.desk.memory.incident.state is State.CLOSED
    assert isinstance(await escalated.hear(ev.Reopened), ev.Reproduced)


async def test_counts_of_every_run_are_on_the_trace() -> None:
    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    with scope(provider.get_tracer("test"), "i1"):
        await Case(RED).decided()
    [seen] = [s for s in spans.get_finished_spans() if s.name == "reproduce by tests"]
    told = dict(seen.attributes or {})
    assert told["tests.runs"] == tuple(f"unchanged {n}: 1 failed, 1 passed in 0.20 s, finished" for n in range(3))
    assert (told["tests.failing"], told["tests.runtime"], told["verdict"]) == ((ADD,), "runsc", "reproduced")


def plan(*actions: Any) -> Plan:
    """A plan for the job."""
    return Plan(
        target="calc", summary="a fix", cause="calc.py:add", success=SuccessCheck(signal="tests", settle_s=0, soak_s=1),
        basis=Basis(kind="template", ref="t", why="w"),
        steps=tuple(Step(action=a, precondition=Precondition(release="t1")) for a in actions),
    )


async def applied(*reports: code.Report, baseline: tuple[code.Report, ...] = RED, actions: Sequence[Any] = ()) -> Case:
    """A job whose diff was handed over; the sandbox answers with these reports."""
    case = Case(baseline, *([baseline] if any(c.id == WAIT for r in baseline for c in r.cases) else []), tuple(reports))
    found = await case.decided()
    patch = PatchCode(diff=(await case.store.put(DIFF)).digest, base="t1", files=("calc.py",))
    made = plan(*(actions or (patch,)))
    events: list[ev.Event] = [
        OPENED, found,
        ev.Diagnosed(
            causes=(Cause(id="calc.py:add", summary="s", confidence=1, cites=()),), evidence=(), signature="code:1",
            state=TargetState(target="calc", at=T0, running=False, release="t1"), model=ModelUse(mode="off"),
        ),
        ev.Planned(plan=made, plan_hash=made.hash, model=ModelUse(mode="off")),
        ev.Rehearsed(plan_hash=made.hash, rehearsal=Rehearsal(passed=True)),
        ev.Applying(plan_hash=made.hash, undo=(), rung="auto", rule="jobs", rehearsed=True),
        ev.Applied(plan_hash=made.hash, results=(), at=after(7)),
    ]
    case.desk.memory.incident = incident([(n, e) for n, e in enumerate(events, 1)])
    return case


async def test_a_changed_copy_whose_tests_all_pass_is_recovered_at_once() -> None:
    case = await applied(run(0, add="failed", sub="passed"), run(0, "diff", add="passed", sub="passed"))
    found = await case.hear(ev.Applied)
    assert isinstance(found, ev.Recovered) and found.tests and found.tests.report
    assert (found.tests.passed, found.tests.failed, found.comparisons) == (2, 0, ())
    asked = case.sandbox.asked[-1]
    assert (asked.unchanged, asked.only, asked.trials, asked.coverage) == (1, (), None, False)
    assert asked.diff == BlobRef(name=digest(DIFF), size=len(DIFF), digest=digest(DIFF))


@pytest.mark.parametrize("changed, said", [
    ({"add": "failed", "sub": "passed"}, "test_add"),
    ({"add": "passed", "sub": "failed"}, "test_sub"),
    ({"add": "passed"}, "test_sub"),
    ({"add": "skipped", "sub": "passed"}, "test_add"),
    ({}, ""),
])
async def test_a_changed_copy_that_does_not_keep_to_the_baseline_is_not_recovered(changed: dict[str, str], said: str) -> None:
    case = await applied(run(0, add="failed", sub="passed"), run(0, "diff", **changed))
    found = await case.hear(ev.Applied)
    assert isinstance(found, ev.NotRecovered) and found.reason and said in found.reason


async def test_a_fault_that_does_not_come_back_on_the_unchanged_copy_credits_no_change() -> None:
    case = await applied(run(0, add="passed", sub="passed"), run(0, "diff", add="passed", sub="passed"))
    found = await case.hear(ev.Applied)
    assert isinstance(found, ev.NotRecovered) and "test_add did not fail again" in found.reason


@pytest.mark.parametrize("reports, which", [
    ((), "changed"), ((run(0, add="failed", sub="passed"),), "changed"),
    ((run(0, "diff", add="passed", sub="passed"),), "unchanged"),
])
async def test_a_copy_that_was_not_run_proves_nothing(reports: tuple[code.Report, ...], which: str) -> None:
    found = await (await applied(*reports)).hear(ev.Applied)
    assert isinstance(found, ev.NotRecovered) and f"the {which} copy was not run" in found.reason


async def test_a_flaky_test_neither_proves_nor_refutes() -> None:
    runs = (run(0, add="failed", wait="failed"), run(1, add="failed", wait="passed"), run(2, add="failed", wait="failed"))
    case = await applied(run(0, add="failed", wait="passed"), run(0, "diff", add="passed", wait="failed"), baseline=runs)
    assert isinstance(await case.hear(ev.Applied), ev.Recovered)


async def test_an_engine_that_goes_away_after_the_hand_over_is_waited_for() -> None:
    case = await applied()
    case.sandbox.answers = [Unavailable("docker", "gone")]
    with pytest.raises(Unavailable):
        await case.hear(ev.Applied)


async def test_a_plan_that_is_not_one_patch_is_a_dead_letter() -> None:
    for actions in ((Reload(),), (PatchCode(diff="a", base="t1"), Reload())):
        with pytest.raises(Reject):
            await (await applied(actions=actions)).hear(ev.Applied)


async def test_the_same_event_twice_decides_the_same() -> None:
    case = await applied(run(0, add="failed", sub="passed"), run(0, "diff", add="passed", sub="passed"))
    assert await case.hear(ev.Applied) == await case.hear(ev.Applied)


async def test_a_recheck_of_a_job_runs_nothing_and_stays_red() -> None:
    case = await applied()
    ran = len(case.sandbox.asked)
    answer = await case.recheck()
    assert (answer.status, len(case.sandbox.asked)) == ("red", ran) and "does not change" in answer.reason
    assert case.desk.memory.incident.state is State.APPLIED


async def test_a_recheck_before_the_tests_ran_is_unknown() -> None:
    assert (await Case(RED).recheck()).status == "unknown"
