"""Code repair: the job, runs of tests, and the verdict. A repository travels as a snapshot in the object store."""

from typing import ClassVar, Literal

from pydantic import Field

from autopatch.contract.evidence import BlobRef, ModelUse
from autopatch.contract.model import Word

Toolchain = Literal["python", "node"]
TestOutcome = Literal["passed", "failed", "error", "skipped", "timed_out"]
Ended = Literal["finished", "timed_out", "out_of_memory", "lost"]
Kind = Literal[
    "fixed", "not_reproduced", "environment_error", "flaky", "format_error", "no_fix_found", "sandbox_unavailable", "cancelled"
]


class CodeJob(Word):
    """A repository whose tests are red. `snapshot` is a gzipped tar of its regular files, uncommitted changes included."""

    repository: str = Field(pattern=r"^[A-Za-z0-9._-]{1,80}$", description="its name, for people and for knowledge")
    snapshot: BlobRef
    tree: str = Field(description="SHA-256 over paths, modes and contents; what a diff is relative to")
    commit: str = Field(default="", description="the commit that the snapshot began from; '' without git")
    command: tuple[str, ...] = Field(min_length=1, description="how its tests are run, such as pytest -q")
    toolchain: Toolchain = "python"
    image: str = Field(default="", description="a container image to run the tests in; '' takes the toolchain's own")
    issue: str = Field(default="", max_length=8000, description="what a person says is wrong; untrusted")
    test_s: float = Field(default=10, gt=0, le=600, description="seconds that one test may take")
    suite_s: float = Field(default=120, gt=0, le=1800, description="seconds that one run of all tests may take")


class Frame(Word):
    """One frame of a traceback, innermost last. `path` is relative to the repository."""

    path: str
    line: int
    function: str = ""


class TestCase(Word):
    """What became of one test. `expected` and `actual` are set where the runner tells them."""

    __test__: ClassVar[bool] = False
    id: str
    outcome: TestOutcome
    message: str = Field(default="", description="at most 2,000 characters, redacted")
    expected: str = ""
    actual: str = ""
    frames: tuple[Frame, ...] = Field(default=(), description="frames in the repository only")
    seconds: float = 0.0


class Covered(Word):
    """Lines that one test executed, by path."""

    test: str
    lines: dict[str, tuple[int, ...]]


class Report(Word):
    """One run of tests on one copy. `trial` is '' for the unchanged copy.

    `problem` says why there are no cases to judge by: nothing collected, an import that failed, a command that was not found.
    """

    trial: str = ""
    run: int = 0
    ended: Ended
    exit_code: int | None = None
    cases: tuple[TestCase, ...] = ()
    problem: str = ""
    output: str = Field(default="", description="head and tail, redacted")
    seconds: float = 0.0
    covered: tuple[Covered, ...] = ()

    def outcome(self, test: str) -> TestOutcome | None:
        """What became of one test; None when it was not reported."""
        return next((case.outcome for case in self.cases if case.id == test), None)


class Reports(Word):
    """The document behind `RanTests.reports`."""

    runtime: str = Field(description="runc or runsc")
    image: str
    reports: tuple[Report, ...]


class FileChange(Word):
    """A file as it would be. `content` is base64; None removes the file."""

    path: str
    content: str | None


class Trial(Word):
    """One candidate."""

    id: str = Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")
    changes: tuple[FileChange, ...]


class Trials(Word):
    """The document behind `RunTests.trials`, in the order in which they are tried."""

    trials: tuple[Trial, ...]


class TestTable(Word):
    """A run in short, for events and people. `failing` holds at most 20."""

    __test__: ClassVar[bool] = False
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failing: tuple[TestCase, ...] = ()
    seconds: float = 0.0
    report: BlobRef | None = Field(default=None, description="the Reports in full")


class Place(Word):
    """A function, method or class, or lines of a file, and how suspicious it is."""

    path: str
    name: str = Field(default="", description="qualified name; '' for lines outside of functions")
    start: int = Field(ge=1, description="first line")
    end: int = Field(ge=1, description="last line")
    score: float = Field(ge=0, le=1)
    lines: dict[int, float] = Field(default_factory=dict, description="score by line, the suspicious ones only")
    why: str = ""


class Places(Word):
    """The document behind `Diagnosed.places`, most suspicious first."""

    places: tuple[Place, ...]


class RepairVerdict(Word):
    """How a job ended; what `autopatch repair --json` prints."""

    verdict: Kind
    reason: str
    incident: str
    repository: str
    attempts: int = 0
    before: TestTable | None = None
    after: TestTable | None = None
    diff: str = Field(default="", description="unified, relative to the snapshot; bytes outside UTF-8 are escaped as \\xNN")
    diff_blob: BlobRef | None = Field(default=None, description="the same, byte by byte")
    basis: str = Field(default="", description="lesson, template or model, and which")
    runtime: str = ""
    model: ModelUse | None = None
    seconds: float = 0.0
    trace: str = Field(default="", description="trace id")
    tip: str = Field(default="", description="what a person may try next; '' when there is nothing to do")
