"""What is told of a container that died during a run: no sandbox, only what one gave back."""

import json

import pytest

from autopatch.contract.code import CodeJob
from autopatch.contract.evidence import BlobRef
from autopatch.contract.requests import RunTests
from autopatch.repair.tree import Files
from services.executor.adapters.sandbox.job import Job, Outcome
from services.executor.adapters.workshop.batch import Batch, Run

JOB = CodeJob(repository="r", snapshot=BlobRef(name="s", size=0, digest="s"), tree="t", command=("pytest",))


class Died:
    """A sandbox whose containers die of their first run."""

    def __init__(self, code: int | None, why: str) -> None:
        self._code, self._why = code, why

    async def run(self, job: Job) -> Outcome:
        runs = json.loads(job.files[".autopatch/request.json"])["runs"]
        began = json.dumps({"begin": runs[0]["trial"], "run": runs[0]["run"]}) + "\n"
        return Outcome(self._code, began, "", 1.0, "runc", self._why)


@pytest.mark.parametrize(("trial", "code", "why", "ended"), [
    ("", None, "it took more memory than it may", "out_of_memory"), ("", 137, "", "lost"), ("", 1, "", "lost"),
    ("one", None, "it took more memory than it may", "out_of_memory"), ("one", 137, "", "out_of_memory"),
])
async def test_a_container_that_somebody_killed_tells_nothing_of_the_unchanged_copy(
    trial: str, code: int | None, why: str, ended: str
) -> None:
    batch = Batch(RunTests(incident_id="one", job=JOB), "image", b"", Files({}), {})
    reports = [report async for report in batch.reports(Died(code, why), [Run(trial, 0, {}), Run(trial, 1, {})])]
    assert [(report.run, report.ended) for report in reports] == [(0, ended), (1, ended)]
    assert all(report.problem.startswith("the container ended during the run: ") for report in reports)
