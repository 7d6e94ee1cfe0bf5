"""Jobs: what runs of tests, coverage and knowledge say is scripted; localising itself is real."""

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from autopatch.chassis.room import Heard, Reject
from autopatch.chassis.telemetry import scope
from autopatch.contract import code
from autopatch.contract import events as ev
from autopatch.contract.envelope import Envelope
from autopatch.contract.errors import Unavailable
from autopatch.contract.evidence import BlobRef, Similar
from autopatch.contract.lifecycle import Incident, Stored, apply
from autopatch.contract.model import Word, digest
from autopatch.contract.requests import Found, IndexCode, Indexed, RanTests, Request, RunTests, Search
from autopatch.repair.judging import expected, table
from autopatch.repair.tree import tree_digest, write_archive
from services.diagnosis.adapters.defects import telling
from services.diagnosis.adapters.defects.localise import Localiser, chosen
from services.diagnosis.tests.given import T0, Still

SOURCE = '''"""Sums."""


def add(a, b):
    return a - b


def sub(a, b):
    return a - b


def double(a):
    return a * 2
'''
TESTS = '''from calc import add, double, sub


def test_add():
    assert add(2, 2) == 4


def test_sub():
    assert sub(2, 2) == 0


def test_double():
    assert double(2) == 4
'''
ADD, SUB, DOUBLE = (f"test_calc.py::test_{name}" for name in ("add", "sub", "double"))
COVERED = (
    code.Covered(test=ADD, lines={"calc.py": (5,), "test_calc.py": (5,)}),
    code.Covered(test=SUB, lines={"calc.py": (9,), "test_calc.py": (9,)}),
    code.Covered(test=DOUBLE, lines={"calc.py": (13,), "test_calc.py": (13,)}),
)
CASES = (
    code.TestCase(
        id=ADD, outcome="failed", message="assert 0 == 4", expected="4", actual="0",
        frames=(code.Frame(path="test_calc.py", line=5, function="test_add"),),
    ),
    code.TestCase(id=SUB, outcome="passed"), code.TestCase(id=DOUBLE, outcome="passed"),
)


@dataclass
class Rooms:
    """The executor, knowledge and the object store."""

    held: dict[str, bytes] = field(default_factory=dict)
    covered: tuple[code.Covered, ...] = COVERED
    problem: str = ""
    ended: Any = "finished"
    similar: tuple[Similar, ...] = ()
    away: frozenset[type[Request]] = frozenset()
    slow: float = 0.0
    asked: list[Request] = field(default_factory=list)
    given_up: bool = False

    async def put(self, data: bytes) -> BlobRef:
        self.held[digest(data)] = data
        return BlobRef(name=digest(data), size=len(data), digest=digest(data))

    async def get(self, ref: BlobRef) -> bytes:
        return self.held[ref.digest]

    async def ask(self, request: Request, reply: type[Word]) -> Any:
        self.asked.append(request)
        if type(request) in self.away:
            raise Unavailable("docker" if isinstance(request, RunTests) else "qdrant", "it does not answer")
        match request:
            case RunTests():
                report = code.Report(ended=self.ended, cases=CASES, covered=self.covered, problem=self.problem)
                document = code.Reports(runtime="runsc", image="python", reports=(report,))
                return RanTests(reports=await self.put(document.model_dump_json().encode()), runtime="runsc")
            case IndexCode():
                await self._slowly()
                return Indexed(chunks=3, changed=3)
            case Search():
                return Found(items=self.similar)
            case _:
                raise AssertionError(request)

    async def _slowly(self) -> None:
        try:
            await asyncio.sleep(self.slow)
        except asyncio.CancelledError:
            self.given_up = True
            raise


class Case:
    """One reproduced job in the localiser."""

    def __init__(self, source: str = SOURCE, cases: tuple[code.TestCase, ...] = CASES, issue: str = "", **rooms: Any) -> None:
        self.rooms = Rooms(**rooms)
        self.tree = {"calc.py": source.encode(), "test_calc.py": TESTS.encode()}
        self.cases = cases
        self.issue = issue
        desk: Any = type("Desk", (), {"asker": self.rooms, "blobs": self.rooms, "clock": Still(T0)})()
        self.localiser = Localiser(desk, lambda: "off", patience_s=0.2)

    async def heard(self) -> Heard:
        reports = tuple(code.Report(ended="finished", run=n, cases=self.cases) for n in range(3))
        document = code.Reports(runtime="runsc", image="python", reports=reports)
        ref = await self.rooms.put(document.model_dump_json().encode())
        job = code.CodeJob(
            repository="calc", snapshot=await self.rooms.put(write_archive(self.tree)), tree=tree_digest(self.tree),
            command=("pytest", "-q"), issue=self.issue,
        )
        incident = Incident("i1")
        red = ev.Reproduced(signal="tests", checks=(), tests=table(reports[0], ref))
        for number, event in enumerate((ev.Opened(target="calc", title="red", job=job), red)):
            envelope = Envelope(
                event_id=f"e{number}", incident_id="i1", event=event.name, version=1, at=T0, by="test", data=event,
                previous_hash=incident.last_hash,
            ).sealed()
            incident = apply(incident, Stored(incident.last_sequence + 1, envelope))
        return Heard(incident, incident.log[-1])

    async def run(self) -> ev.Event:
        [found] = await self.localiser.diagnose(await self.heard())
        return found

    async def diagnosed(self) -> ev.Diagnosed:
        found = await self.run()
        assert isinstance(found, ev.Diagnosed), found
        return found


async def test_the_function_that_only_the_failing_test_executes_is_the_first_cause() -> None:
    case = Case()
    found = await case.diagnosed()
    first = found.causes[0]
    assert first.id == "calc.py:add" and first.confidence > 0.5
    assert {"p1", "t1"} <= set(first.cites) <= {e.id for e in found.evidence}
    assert {e.source for e in found.evidence} == {"test"}
    assert "assert 0 == 4" in next(e.summary for e in found.evidence if e.id == "t1")
    assert next(e.sample for e in found.evidence if e.id == "t1") == "expected 4, got 0"
    assert (found.state.running, found.state.release, found.state.target) == (False, tree_digest(case.tree), "calc")
    assert found.model.calls == 0 and "calc.py" in found.explanation and "1 test failed in every run" in found.explanation
    assert found.places
    places = code.Places.model_validate_json(case.rooms.held[found.places.digest]).places
    assert (places[0].path, places[0].name, places[0].start, places[0].end) == ("calc.py", "add", 4, 5)
    assert not [p for p in places if p.path == "test_calc.py"]


async def test_failing_and_passing_tests_are_run_once_with_coverage_and_flaky_ones_are_not() -> None:
    case = Case()
    heard = await case.heard()
    shown = heard.event
    assert isinstance(shown, ev.Reproduced) and shown.tests and shown.tests.report
    known = code.Reports.model_validate_json(case.rooms.held[shown.tests.report.digest])
    calm = known.reports[1].model_copy(update={"cases": (CASES[0], CASES[1], code.TestCase(id=DOUBLE, outcome="failed"))})
    mixed = known.model_copy(update={"reports": (known.reports[0], calm, known.reports[2])})
    case.rooms.held[shown.tests.report.digest] = mixed.model_dump_json().encode()
    await case.localiser.diagnose(heard)
    [asked] = [r for r in case.rooms.asked if isinstance(r, RunTests)]
    assert (asked.unchanged, asked.coverage, asked.only, asked.trials, asked.diff) == (1, True, (ADD, SUB), None, None)


def test_of_many_passing_tests_those_of_the_same_file_come_first_and_all_keep_their_order() -> None:
    names = [f"test_{'b' if n % 2 else 'a'}.py::test_{n}" for n in range(400)]
    report = code.Report(ended="finished", cases=tuple(
        code.TestCase(id=name, outcome="failed" if n == 301 else "passed") for n, name in enumerate(names)
    ))
    taken = chosen(report, expected((report, report)))
    assert names[301] in taken and len(taken) == 101 and list(taken) == sorted(taken, key=names.index)
    assert all(name.startswith("test_b.py") for name in taken)


def test_long_names_of_tests_do_not_make_a_request_too_large_for_the_bus() -> None:
    cases = tuple(code.TestCase(id=f"t.py::test_{n}_{'x' * 2000}", outcome="failed" if n < 20 else "passed") for n in range(60))
    report = code.Report(ended="finished", cases=cases)
    assert 0 < sum(len(t) for t in chosen(report, expected((report, report)))) < 32_000


@pytest.mark.parametrize("kind", [IndexCode, Search])
async def test_missing_knowledge_is_noted_and_stops_nothing(kind: type[Request]) -> None:
    found = await Case(away=frozenset({kind})).diagnosed()
    assert found.causes[0].id == "calc.py:add" and found.missing == ("code: qdrant: it does not answer",)
    assert found.signature == (await Case().diagnosed()).signature


async def test_slow_knowledge_is_given_up_soon_after_coverage_is_there() -> None:
    case = Case(slow=60)
    found = await asyncio.wait_for(case.diagnosed(), 5)
    assert found.missing == ("code: not read within 0.2 s of the tests",) and case.rooms.given_up


async def test_a_cancelled_diagnosis_leaves_nothing_running() -> None:
    case = Case(slow=60)
    case.localiser._patience_s = 60  # noqa: SLF001
    task = asyncio.create_task(case.run())
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert case.rooms.given_up


async def test_a_missing_engine_is_waited_for() -> None:
    with pytest.raises(Unavailable) as caught:
        await Case(away=frozenset({RunTests})).run()
    assert caught.value.service == "docker"


async def test_without_coverage_the_traceback_decides_and_what_is_missing_is_said() -> None:
    frames = (code.Frame(path="test_calc.py", line=5, function="test_add"), code.Frame(path="calc.py", line=5, function="add"))
    cases = (CASES[0].model_copy(update={"frames": frames}), *CASES[1:])
    found = await Case(cases=cases, covered=(), problem="no module named coverage").diagnosed()
    assert found.causes[0].id == "calc.py:add" and "f1" in found.causes[0].cites
    assert found.missing == ("coverage: no module named coverage",)


async def test_a_fault_that_keeps_every_test_from_being_read_is_localised_by_what_the_run_said() -> None:
    frames = (code.Frame(path="calc.py", line=5, function="add"),)
    said = "calc.py, line 5: SyntaxError: invalid syntax"
    cases = (code.TestCase(id="test_calc.py", outcome="error", message=f'File "calc.py", line 5 {said}', frames=frames),)
    found = await Case(SOURCE.replace("a - b\n\n\ndef sub", "a -\n\n\ndef sub"), cases, covered=(), problem=said).diagnosed()
    assert found.causes[0].id.startswith("calc.py:") and "SyntaxError" in found.evidence[0].summary
    report = code.Report(ended="finished", problem=said)
    job = code.CodeJob(repository="calc", snapshot=BlobRef(name="s", size=1, digest="s"), tree="t", command=("x",))
    place, ref = code.Place(path="calc.py", start=5, end=5, score=0.5), BlobRef(name="p", size=1, digest="p")
    seen = telling.Seen(job, report, ())
    blind = telling.diagnosed(seen, [place], ref, "x", found.state, found.model, lambda text: text)
    assert telling.UNREAD in blind.explanation and blind.causes[0].cites == ("p1", "r1")
    assert said in next(e.summary for e in blind.evidence if e.id == "r1")


async def test_when_nothing_leads_into_the_code_a_person_gets_the_evidence() -> None:
    case = Case(covered=())
    case.tree = {"test_calc.py": TESTS.encode()}
    found = await case.run()
    assert isinstance(found, ev.Undiagnosed) and "no place" in found.reason
    assert [e.id for e in found.evidence][:1] == ["t1"] and found.missing


async def test_code_that_knowledge_finds_is_cited_by_causes_in_its_file() -> None:
    near = (Similar(id="calc.py#1", kind="code", title="add", text="def add", score=1, source="calc.py"),)
    case = Case(similar=near, issue="adding two numbers gives nonsense")
    found = await case.diagnosed()
    assert "k1" in found.causes[0].cites
    [asked] = [r for r in case.rooms.asked if isinstance(r, Search)]
    assert (asked.kinds, asked.target) == (("code",), "calc")
    assert "adding two numbers" in asked.text and ADD in asked.text


async def test_the_same_fault_is_known_again_whatever_its_layout_and_whatever_changed_elsewhere() -> None:
    first = (await Case().diagnosed()).signature
    moved = SOURCE.replace("    return a - b\n\n\ndef sub", "    # the sum\n    return (a -  b)\n\n\ndef sub")
    moved = moved.replace("a * 2", "2 * a")
    assert first.startswith("code:") and (await Case(moved).diagnosed()).signature == first


async def test_another_fault_has_another_signature() -> None:
    other = (await Case(SOURCE.replace("return a - b\n\n\ndef sub", "return b - a\n\n\ndef sub")).diagnosed()).signature
    assert other != (await Case().diagnosed()).signature
    job = code.CodeJob(repository="calc", snapshot=BlobRef(name="s", size=1, digest="s"), tree="t", command=("x",))
    made = [telling.signature(job, [ADD], "x"), telling.signature(job, [ADD, SUB], "x"), telling.signature(job, [ADD], "y"),
            telling.signature(job.model_copy(update={"repository": "other"}), [ADD], "x")]
    assert len(set(made)) == 4 and telling.signature(job, [SUB, ADD], "x") == made[1]


async def test_secrets_of_the_repository_reach_neither_event_nor_question_nor_trace() -> None:
    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    leaking = (CASES[0].model_copy(update={"message": "password=hunter2secret", "actual": "api_key=hunter2secret"}), *CASES[1:])
    similar = (Similar(id="k", kind="code", title="password=hunter2secret", text="x", score=1, source="calc.py"),)
    case = Case(cases=leaking, issue="it says password=hunter2secret", similar=similar, problem="", covered=())
    case.rooms.problem = "password=hunter2secret"
    with scope(provider.get_tracer("test"), "i1"):
        found = await case.run()
    asked = [r for r in case.rooms.asked if isinstance(r, Search)]
    told = found.model_dump_json() + asked[0].text + "".join(s.to_json() for s in spans.get_finished_spans())
    assert "hunter2secret" not in told


async def test_places_and_their_scores_are_on_the_trace_and_so_are_those_not_taken() -> None:
    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    with scope(provider.get_tracer("test"), "i1"):
        await Case().run()
    seen = {s.name: dict(s.attributes or {}) for s in spans.get_finished_spans()}
    assert {"collect coverage", "retrieval code", "localise"} <= seen.keys()
    places, covered = seen["localise"]["places"], seen["collect coverage"]
    assert isinstance(places, tuple) and str(places[0]).startswith("calc.py:4-5 add ")
    assert (covered["tests"], covered["tests.failing"], covered["tests.covered"]) == (3, 1, 3)


async def test_a_reproduction_without_runs_is_a_dead_letter() -> None:
    case = Case()
    heard = await case.heard()
    envelope = heard.stored.envelope.model_copy(update={"data": ev.Reproduced(signal="tests", checks=())})
    stored = Stored(2, envelope)
    with pytest.raises(Reject):
        await case.localiser.diagnose(Heard(replace(heard.incident, log=(heard.incident.log[0], stored)), stored))


def test_suspicion_is_one_for_a_lone_certain_place_and_shared_by_equals() -> None:
    assert telling.suspicion([1.0]) == [1.0]
    assert telling.suspicion([1.0] * 5) == [0.2] * 5
    assert telling.suspicion([1.0, 0.5]) == [0.8, 0.1]
    assert telling.suspicion([0.0, 0.0]) == [0.0, 0.0]
