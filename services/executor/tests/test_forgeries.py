"""Wrong fixes that pretend to be right ones, each a folder: believed by an exit code, and never by the workshop."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from autopatch.contract.code import Report
from autopatch.repair.judging import expected, judge
from services.executor.adapters.runtimes.engine import Engine
from services.executor.adapters.sandbox.container import DockerSandbox
from services.executor.adapters.sandbox.job import Job
from services.executor.adapters.sandbox.limits import MIB, Limits
from services.executor.tests.workshop import Bench, dulled, of

pytestmark = [pytest.mark.docker]
FOLDER = Path(__file__).parent / "forgeries"
LIMITS = Limits(output=32 * MIB)


def files_of(folder: Path) -> dict[str, str | bytes]:
    """By path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.suffix not in (".pyc", "")}


BASE = files_of(FOLDER / "base")
FORGERIES = {path.name: files_of(path) for path in sorted(FOLDER.iterdir()) if path.name != "base"}
ALONE = ("equals_everything",)
"""Nothing in the process of the tests can tell these: reading the code is the only guard."""
HONEST = {"calc.py": str(BASE["calc.py"], "utf-8").replace("a - b", "a + b")}  # type: ignore[arg-type]


async def judged(bench: Bench, candidates: Mapping[str, Mapping[str, str | bytes]]) -> dict[str, tuple[bool, Report]]:
    """The verdict on each candidate, by all tests."""
    job = await bench.job(BASE, "python -m pytest -q", suite_s=20)
    plain, *reports = await bench.run(job, [of(name, changes) for name, changes in candidates.items()], unchanged=1)
    baseline = expected([plain])
    assert baseline.verdict == "red"
    return {report.trial: (judge(baseline, report).ok, report) for report in reports}


@pytest.mark.parametrize("runtime", ["runc", pytest.param("runsc", marks=pytest.mark.long)])
async def test_no_forgery_is_accepted_and_an_honest_fix_is(runtime: str, engine: Engine, image: str) -> None:
    told = await judged(Bench(DockerSandbox(engine, LIMITS, runtime=runtime), image), {**FORGERIES, "honest": HONEST})
    assert told.pop("honest")[0]
    assert [name for name, (ok, _) in told.items() if ok] == []
    assert len(told) >= 12


async def test_each_is_believed_by_who_looks_at_the_exit_code(engine: Engine, image: str) -> None:
    script = "for f in */; do (cd $f; timeout 20 python -m pytest -q -p no:cacheprovider >/dev/null 2>&1; echo ${f%/} $?); done"
    files = {
        f"{name}/{path}": content if isinstance(content, bytes) else content.encode()
        for name, changes in FORGERIES.items() for path, content in {**BASE, **changes}.items()
    }
    outcome = await DockerSandbox(engine, LIMITS, runtime="runc").run(Job(image, ("sh", "-c", script), 100, files))
    codes = dict(line.split() for line in outcome.stdout.splitlines())
    assert {name: code for name, code in codes.items() if code != "0"} == {}
    assert codes.keys() == FORGERIES.keys()


async def unread(
    engine: Engine, image: str, changes: Sequence[tuple[str, Mapping[str, str | bytes]]],
    inside: Mapping[str, bytes] | None = None, runtime: str = "runc",
) -> dict[str, bool]:
    """The verdicts when nobody has read the code of the candidates, nor restored tests and configuration."""
    bench = Bench(DockerSandbox(engine, LIMITS, runtime=runtime), image, inside=inside)
    job = await bench.job(BASE, "python -m pytest -q", suite_s=20)
    runs = [(name, {path: _bytes(content) for path, content in files.items()}) for name, files in changes]
    plain, *reports = await bench.unread(job, [("", {}), *runs])
    return {report.trial: judge(expected([plain]), report).ok for report in reports}


def _bytes(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.encode()


@pytest.mark.parametrize("runtime", ["runc", pytest.param("runsc", marks=pytest.mark.long)])
async def test_most_are_not_accepted_even_if_nobody_reads_their_code(runtime: str, engine: Engine, image: str) -> None:
    code = [(name, changes) for name, changes in FORGERIES.items() if set(changes) == {"calc.py"}]
    told = await unread(engine, image, [*code, ("messages", MESSAGES)], runtime=runtime)
    assert [name for name, ok in told.items() if ok] == list(ALONE)
    assert len(told) >= 12


_CASE = '{"case": {"id": "tests/test_calc.py::test_%s", "outcome": "passed"}}\\n'
CASES = "".join(_CASE % name for name in ("zero", "add", "double"))
MESSAGES: dict[str, str | bytes] = {
    "calc.py": f"""
import os

for fd in range(3, 64):
    try:
        os.write(fd, b'{CASES}' + b'{{"end": 0, "changed": []}}\\n')
    except OSError:
        pass
os._exit(0)
"""
}
_BLIND = ("listeners/pristine.py", "    return sorted(\n", "    return [] and sorted(\n")
_TRUSTING = [
    ("watch.py", "if not line.startswith(self._token):", 'if b"{" not in line:'),
    ("watch.py", "json.loads(line[len(self._token) :])", 'json.loads(line[line.index(b"{") :])'),
]
_UNMOVED = ("listeners/by_pytest.py", "if _code(item) is not self._codes.get(item.nodeid):", "if False:")


@pytest.mark.parametrize(
    ("names", "cuts"),
    [
        (["patches_reports", "patches_calls", "patches_the_listener"], [_BLIND]),
        (["messages"], _TRUSTING),
        (["rewrites_tests_in_memory"], [_UNMOVED]),
        (["edits_tests", "conftest_rewrites", "equals_everything"], []),
    ],
)
async def test_a_forgery_is_accepted_once_its_guard_inside_is_gone(
    names: list[str], cuts: list[tuple[str, str, str]], engine: Engine, image: str
) -> None:
    known = {**FORGERIES, "messages": MESSAGES}
    told = await unread(engine, image, [(name, known[name]) for name in names], dulled(cuts))
    assert told == dict.fromkeys(names, True)
