"""Several runs in one container, and the rest in another one when that one dies of a run."""

import base64
import json
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from pydantic import ValidationError

from autopatch.chassis import redaction
from autopatch.contract.code import Report, TestCase
from autopatch.contract.requests import RunTests
from autopatch.repair.tree import Files
from services.executor.adapters.inside.watch import all_passed
from services.executor.adapters.sandbox.job import Job, Outcome, Sandbox
from services.executor.adapters.sandbox.limits import MIB

INSIDE = ".autopatch"
START = f"import sys; sys.path.insert(0, '/work/{INSIDE}'); from autopatch_inside.driver import main; main(sys.argv[1])"
LIKELY = {"python": "pytest", "node": "node"}
DEATHS = 20
"""After so many containers that died the rest is not tried."""

Changes = Mapping[str, bytes | None]


@dataclass(frozen=True)
class Run:
    """One run of the tests. `refused`: why it is not run."""

    trial: str
    number: int
    changes: Changes
    refused: str = ""


class Batch:
    """The runs of one request. `runtime` is known once something has run."""

    def __init__(self, request: RunTests, image: str, snapshot: bytes, tree: Files, inside: Mapping[str, bytes]) -> None:
        self._request, self._image, self._snapshot, self._inside = request, image, snapshot, inside
        self._size, self._count = sum(map(len, tree.values())), len(tree)
        self._deadline = time.monotonic() + request.limit_s
        self._passed = 0
        self.runtime = ""

    async def reports(self, sandbox: Sandbox, runs: Sequence[Run]) -> AsyncIterator[Report]:
        """In the order of the runs, until enough have passed or the time is over. Raises Unavailable."""
        left = list(runs)
        for _ in range(DEATHS):
            allowed = self._deadline - time.monotonic()
            wanted = [run for run in left if not run.refused]
            if not wanted or allowed <= 0 or self._enough():
                break
            outcome = await sandbox.run(self._job(wanted, allowed))
            self.runtime = outcome.runtime
            for report in _reports(outcome):
                for refused in _refused(left):
                    yield refused
                left.pop(0)
                self._passed += bool(report.trial) and all_passed(report.model_dump(), self._request.only)
                yield report
            if _is_done(outcome):
                break
        for refused in _refused(left):
            yield refused

    def _enough(self) -> bool:
        return bool(self._request.enough) and self._passed >= self._request.enough

    def _job(self, runs: Sequence[Run], limit_s: float) -> Job:
        request, job = self._request, self._request.job
        asked = {
            "command": job.command, "runs": [_encoded(run) for run in runs], "only": request.only, "coverage": request.coverage,
            "enough": max(request.enough - self._passed, 0), "test_s": job.test_s, "suite_s": job.suite_s, "limit_s": limit_s,
        }
        base = {f"{INSIDE}/autopatch_inside/{name}": data for name, data in self._inside.items()}
        content = {f"{INSIDE}/snapshot.tar.gz": self._snapshot, f"{INSIDE}/request.json": json.dumps(asked).encode()}
        command = ("env", "PYTHONHASHSEED=1", "python3", "-s", "-c", START, LIKELY[job.toolchain])
        size, count = _rounded(2 * self._size, 4 * MIB), _rounded(2 * self._count, 1024)
        return Job(self._image, command, limit_s, content, base, first=True, more_bytes=size, more_files=count)


def _refused(left: list[Run]) -> Iterator[Report]:
    """Takes what is not to be run from the front."""
    while left and left[0].refused:
        run = left.pop(0)
        yield Report(trial=run.trial, run=run.number, ended="finished", problem=run.refused)


def _rounded(number: int, step: int) -> int:
    """Up, so that repositories of about a size can have the same container."""
    return -(-number // step) * step


def _encoded(run: Run) -> dict[str, Any]:
    changes = {path: None if data is None else base64.b64encode(data).decode() for path, data in run.changes.items()}
    return {"trial": run.trial, "run": run.number, "changes": changes}


def sources() -> dict[str, bytes]:
    """The files that run inside, by their path."""
    folder = files("services.executor.adapters.inside")
    found = [(entry.name, entry) for entry in folder.iterdir()]
    found += [(f"listeners/{entry.name}", entry) for entry in folder.joinpath("listeners").iterdir()]
    return {name: entry.read_bytes() for name, entry in found if entry.is_file()}


def _said(outcome: Outcome) -> Iterator[dict[str, Any]]:
    """Lines of process 1, up to one that was cut."""
    for line in outcome.stdout.splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            return


def _is_done(outcome: Outcome) -> bool:
    return any("done" in said for said in _said(outcome))


def _reports(outcome: Outcome) -> Iterator[Report]:
    """What process 1 told, and of a container that died the run that it died of.

    Killed (137) without a word about memory, a candidate is taken to have used it up; a run of the unchanged copy is lost.
    """
    open_run: dict[str, Any] | None = {"begin": "", "run": 0}
    for said in _said(outcome):
        if "begin" in said:
            open_run = said
        elif "report" in said:
            open_run = None
            yield _report(said["report"])
        elif "done" in said:
            return
    if open_run is not None:
        memory = "memory" in outcome.why or (outcome.exit_code == 137 and open_run["begin"])
        why = outcome.why or f"exit code {outcome.exit_code}"
        last = redaction.redact(outcome.stderr.strip()[-500:])
        yield Report(
            trial=open_run["begin"], run=open_run["run"], ended="out_of_memory" if memory else "lost",
            problem=f"the container ended during the run: {why}{': ' if last else ''}{last}",
        )


def _report(said: dict[str, Any]) -> Report:
    try:
        report = Report.model_validate(said)
    except ValidationError as error:
        problem = f"the report of the tests cannot be read: {error.error_count()} faults"
        return Report(trial=said["trial"], run=said["run"], ended="lost", problem=problem)
    clean = redaction.redact
    cases = tuple(_clean(case) for case in report.cases)
    return report.model_copy(update={"cases": cases, "output": clean(report.output), "problem": clean(report.problem)[:2000]})


def _clean(case: TestCase) -> TestCase:
    texts = {name: redaction.redact(getattr(case, name))[:2000] for name in ("message", "expected", "actual")}
    return case.model_copy(update=texts)
