"""A job whose tests are Python expressions, an executor that really evaluates them, and the rooms around it."""

import ast
import base64
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from autopatch.chassis.chassis import Chassis
from autopatch.chassis.room import Heard
from autopatch.contract import events as ev
from autopatch.contract.actions import PatchCode
from autopatch.contract.code import CodeJob, Frame, Place, Places, Report, Reports, TestCase, TestTable, Trials
from autopatch.contract.errors import Unavailable
from autopatch.contract.evidence import BlobRef, Cause, Evidence, ModelUse, Rehearsal, RehearsalRun, Similar, TargetState
from autopatch.contract.model import digest
from autopatch.contract.plan import Basis, Plan, Precondition, Step, SuccessCheck
from autopatch.contract.requests import Found, Lesson, RanTests, Recall, Recalled, Request, RunTests, Search
from autopatch.repair.tree import Files, tree_digest, write_archive
from services.planner.tests.fakes import incident

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
OFF = ModelUse(mode="off")


class Memory:
    """An object store."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}

    async def put(self, data: bytes) -> BlobRef:
        return self.keep(data)

    def keep(self, data: bytes) -> BlobRef:
        self.held[digest(data)] = data
        return BlobRef(name=digest(data), size=len(data), digest=digest(data))

    async def get(self, ref: BlobRef) -> bytes:
        if ref.digest not in self.held:
            raise Unavailable("nats", f"object {ref.name[:12]} is not in the object store")
        return self.held[ref.digest]


class Ticking:
    """Every look at the clock is a tenth of a second later."""

    def __init__(self) -> None:
        self.at = START

    def now(self) -> datetime:
        self.at += timedelta(seconds=0.1)
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


@dataclass
class Repository:
    """Files, and tests: an id and an expression over the names that all modules define."""

    files: dict[str, bytes]
    tests: dict[str, str]

    @property
    def tree(self) -> Files:
        written = "".join(f"def {name.split('::')[1]}():\n    assert {text}\n\n" for name, text in self.tests.items())
        imports = "".join(f"from {path[:-3]} import *\n" for path in self.files if path.endswith(".py"))
        return Files({**self.files, "tests/test_all.py": f"{imports}\n{written}".encode()})

    def run(self, changes: Mapping[str, bytes | None], only: Sequence[str], *, first_failure: bool = False) -> list[TestCase]:
        """Like an executor: what a candidate changes about tests does not count."""
        names: dict[str, Any] = {}
        cases: list[TestCase] = []
        broken = ""
        for path, data in {**self.files, **{p: d for p, d in changes.items() if not p.startswith("tests/")}}.items():
            if not path.endswith(".py"):
                continue
            try:
                exec(compile(data or b"", path, "exec"), names)  # noqa: S102 - the tests' own files
            except (SyntaxError, NameError, TypeError, ValueError) as error:
                broken = f"{type(error).__name__}: {error}"
        for test, text in self.tests.items():
            if only and test not in only:
                continue
            cases.append(_case(test, text, names, broken))
            if first_failure and cases[-1].outcome != "passed":
                break
        return cases


def _case(test: str, text: str, names: dict[str, Any], broken: str) -> TestCase:
    frames = (Frame(path="tests/test_all.py", line=4, function=test.split("::")[1]),)
    if broken:
        return TestCase(id=test, outcome="error", message=broken, frames=frames, seconds=0.001)
    try:
        passed = bool(eval(text, names))  # noqa: S307
        left, _, right = text.partition(" == ")
        told = {} if passed or not right else {"actual": repr(eval(left, names)), "expected": repr(ast.literal_eval(right))}  # noqa: S307
        message = "" if passed else f"assert {text}"
        return TestCase(id=test, outcome="passed" if passed else "failed", message=message, frames=frames, seconds=0.001, **told)
    except (NameError, TypeError, ValueError, IndexError, KeyError, ZeroDivisionError, AttributeError, RecursionError) as error:
        return TestCase(id=test, outcome="failed", message=f"{type(error).__name__}: {error}", frames=frames, seconds=0.001)


@dataclass
class Rooms:
    """Executor and knowledge. `faults` are raised by the next runs of tests, one each. A candidate that holds
    `deadly` kills the sandbox."""

    repository: Repository
    blobs: Memory = field(default_factory=Memory)
    lessons: tuple[Lesson, ...] = ()
    alike: tuple[Similar, ...] = ()
    faults: list[BaseException] = field(default_factory=list)
    runs: list[RunTests] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)
    seen: list[dict[str, bytes]] = field(default_factory=list)
    knowledge: bool = True
    hang: Any = None
    deadly: bytes = b""

    async def ask(self, request: Request, reply: Any) -> Any:
        match request:
            case Recall():
                if not self.knowledge:
                    raise Unavailable("knowledge", "nobody answers")
                return Recalled(lessons=self.lessons)
            case Search():
                if not self.knowledge:
                    raise Unavailable("knowledge", "nobody answers")
                return Found(items=self.alike)
            case RunTests():
                self.runs.append(request)
                if self.hang is not None:
                    await self.hang()
                if self.faults:
                    raise self.faults.pop(0)
                return await self._ran(request)
            case _:
                raise AssertionError(request)

    async def _ran(self, request: RunTests) -> RanTests:
        assert request.trials is not None
        reports: list[Report] = []
        passed = 0
        for trial in Trials.model_validate_json(await self.blobs.get(request.trials)).trials:
            changes = {c.path: None if c.content is None else base64.b64decode(c.content) for c in trial.changes}
            self.tried.append(trial.id)
            self.seen.append({path: data for path, data in changes.items() if data is not None})
            reports.append(self._report(request, trial.id, changes))
            if reports[-1].ended == "lost":
                break
            passed += bool(reports[-1].cases) and all(case.outcome == "passed" for case in reports[-1].cases)
            if request.enough and passed >= request.enough:
                break
        data = Reports(runtime="runc", image="i", reports=tuple(reports)).model_dump_json().encode()
        return RanTests(reports=self.blobs.keep(data), runtime="runc", tried=len(reports))

    def _report(self, request: RunTests, name: str, changes: Mapping[str, bytes | None]) -> Report:
        if self.deadly and self.deadly in b"".join(data or b"" for data in changes.values()):
            return Report(trial=name, ended="lost", problem="the container is gone")
        if request.job.command[0] == "python3":
            return Report(trial=name, ended="finished", output=_printed(self.repository, changes, request.job.command[2]))
        cases = self.repository.run(changes, request.only, first_failure=bool(request.only))
        return Report(trial=name, ended="finished", exit_code=0, cases=tuple(cases))

    def chassis(self) -> Chassis:
        """What the planner is given."""
        return cast(Chassis, SimpleNamespace(asker=self, blobs=self.blobs, clock=Ticking(), targets=None))


def _printed(repository: Repository, changes: Mapping[str, bytes | None], script: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        for path, data in {**repository.tree, **changes}.items():
            full = Path(folder) / path
            full.parent.mkdir(parents=True, exist_ok=True)
            full.write_bytes(data or b"")
        done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, timeout=20, check=False)
    return done.stdout


def opened(rooms: Rooms, *places: Place, issue: str = "", seconds: float = 0.0, **job: Any) -> list[ev.Event]:
    """A job up to its diagnosis; red by what its tests say now, in so many seconds."""
    repository, tree = rooms.repository, rooms.repository.tree
    red = Report(ended="finished", exit_code=1, cases=tuple(repository.run({}, ())), seconds=seconds)
    runs = Reports(runtime="runc", image="i", reports=tuple(red.model_copy(update={"run": n}) for n in range(3)))
    made = CodeJob(
        repository="shop", snapshot=rooms.blobs.keep(write_archive(tree)), tree=tree_digest(tree), command=("pytest", "-q"),
        issue=issue, **job,
    )
    table = TestTable(failing=red.cases[:1], failed=1, report=rooms.blobs.keep(runs.model_dump_json().encode()))
    state = TargetState(target="shop", at=START, running=False, release=made.tree)
    return [
        ev.Opened(target="shop", title="red tests", job=made),
        ev.Reproduced(signal="tests", checks=(), tests=table),
        ev.Diagnosed(
            causes=(Cause(id="calc.py:f", summary="most suspicious", confidence=0.9, cites=("t1",)),),
            evidence=(Evidence(id="t1", source="test", summary="it failed"),), state=state, signature="code:1", model=OFF,
            places=rooms.blobs.keep(Places(places=places or everywhere(tree)).model_dump_json().encode()),
        ),
    ]


def everywhere(tree: Mapping[str, bytes]) -> tuple[Place, ...]:
    """Every function of the tree, equally suspicious on every line."""
    found = []
    for path in sorted(p for p in tree if p.endswith(".py") and not p.startswith("tests/")):
        for node in ast.parse(tree[path]).body:
            if isinstance(node, ast.FunctionDef):
                end = node.end_lineno or node.lineno
                lines = dict.fromkeys(range(node.lineno + 1, end + 1), 0.9)
                found.append(Place(path=path, name=node.name, start=node.lineno, end=end, score=0.9, lines=lines))
    return tuple(found)


def failed_attempt(planned: ev.Planned) -> list[ev.Event]:
    """The plan did not turn red into green at the executor's."""
    runs = (RehearsalRun(label="changed", outcome="red", exit_code=1, seconds=1),)
    return [planned, ev.RehearsalFailed(
        plan_hash=planned.plan_hash, rehearsal=Rehearsal(runs=runs, passed=False, reason="still red with the change")
    )]


def lesson(rooms: Rooms, diff: bytes, *, id: str = "lesson-1", trust: float = 0.6) -> Lesson:
    """A diff that healed this fault once."""
    patch = PatchCode(diff=rooms.blobs.keep(diff).digest, base="another-tree", files=("calc.py",))
    plan = Plan(
        target="shop", summary="s", cause="calc.py:f", steps=(Step(action=patch, precondition=Precondition(release="r")),),
        success=SuccessCheck(signal="tests", settle_s=0, soak_s=1), basis=Basis(kind="template", ref="t", why="w"),
    )
    return Lesson(id=id, signature="code:1", target="shop", cause="calc.py:f", plan=plan, recovered=1, failed=0, trust=trust,
                  last_outcome_at=START)


def heard(events: Sequence[ev.Event]) -> Heard:
    """The last of them."""
    made = incident(events)
    return Heard(made, made.log[-1])


def patched(rooms: Rooms, planned: ev.Planned) -> dict[str, bytes]:
    """The tree with the planned diff, by git itself."""
    action = planned.plan.steps[0].action
    assert isinstance(action, PatchCode)
    with tempfile.TemporaryDirectory() as folder:
        for path, data in rooms.repository.tree.items():
            full = Path(folder) / path
            full.parent.mkdir(parents=True, exist_ok=True)
            full.write_bytes(data)
        subprocess.run(["git", "apply", "-"], cwd=folder, input=rooms.blobs.held[action.diff], check=True, timeout=20)
        return {path: (Path(folder) / path).read_bytes() for path in rooms.repository.files}


def fenced(code: str) -> str:
    """As a model answers."""
    return f"```python\n{code}```\n"


