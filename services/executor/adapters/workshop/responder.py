"""Answers `RunTests`: a job's tests in a sandbox, on the unchanged copy, on candidates, or on a copy with a diff."""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

import structlog
from pydantic import ValidationError

from autopatch.chassis import redaction
from autopatch.chassis.chassis import Blobs
from autopatch.chassis.telemetry import annotate, span
from autopatch.contract.code import Report, Reports, Trial, Trials
from autopatch.contract.requests import RanTests, RunTests
from services.executor.adapters.sandbox.job import Job, Outcome, Sandbox

log = structlog.get_logger("executor")
INSIDE = ".autopatch"
START = f"import sys; sys.path.insert(0, '/work/{INSIDE}'); from autopatch_inside.driver import main; main()"


class Workshop:
    """Everything that runs a repository's code, in sandboxes only."""

    def __init__(self, sandbox: Sandbox, blobs: Blobs, images: Mapping[str, str]) -> None:
        self._sandbox = sandbox
        self._blobs = blobs
        self._images = images

    async def run_tests(self, request: RunTests) -> RanTests:
        """Raises Unavailable without engine or image, ContractError for a snapshot or a candidate that is not one."""
        snapshot = await self._blobs.get(request.job.snapshot)
        trials = await self._trials(request)
        image = request.job.image or self._images[request.job.toolchain]
        runs = list(_runs(request, trials))
        with span("test runs", image=image, unchanged=request.unchanged, trials=len(trials)) as current:
            outcome = await self._sandbox.run(_job(request, image, snapshot, runs))
            reports = tuple(_reports(outcome))
            annotate(current, runtime=outcome.runtime, reports=len(reports), seconds=outcome.seconds)
        document = Reports(runtime=outcome.runtime, image=image, reports=reports)
        ref = await self._blobs.put(document.model_dump_json().encode())
        return RanTests(reports=ref, runtime=outcome.runtime, tried=sum(bool(report.trial) for report in reports))

    async def _trials(self, request: RunTests) -> Sequence[Trial]:
        if request.trials is None:
            return ()
        return Trials.model_validate_json(await self._blobs.get(request.trials)).trials


def _runs(request: RunTests, trials: Sequence[Trial]) -> Iterator[dict[str, Any]]:
    for number in range(request.unchanged):
        yield {"trial": "", "run": number, "changes": {}}
    for trial in trials:
        yield {"trial": trial.id, "run": 0, "changes": {change.path: change.content for change in trial.changes}}


def _job(request: RunTests, image: str, snapshot: bytes, runs: Sequence[dict[str, Any]]) -> Job:
    job = request.job
    asked = {
        "command": job.command, "runs": runs, "only": request.only, "coverage": request.coverage, "enough": request.enough,
        "test_s": job.test_s, "suite_s": job.suite_s, "limit_s": request.limit_s,
    }
    content = {f"{INSIDE}/autopatch_inside/{name}": data for name, data in sources().items()}
    content |= {f"{INSIDE}/snapshot.tar.gz": snapshot, f"{INSIDE}/request.json": json.dumps(asked).encode()}
    return Job(image, ("env", "PYTHONHASHSEED=1", "python3", "-s", "-c", START), request.limit_s, content, first=True)


def sources() -> dict[str, bytes]:
    """The files that run inside, by name."""
    folder = files("services.executor.adapters.inside")
    return {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.is_file()}


def _reports(outcome: Outcome) -> Iterator[Report]:
    """What process 1 wrote; of a container that died the runs that it had ended, and the one that it died of."""
    begun: dict[str, Any] = {}
    for line in outcome.stdout.splitlines():
        try:
            said = json.loads(line)
        except ValueError:
            break
        if "begin" in said:
            begun = said
        elif "report" in said:
            begun = {}
            yield _report(said["report"])
    if begun or not outcome.stdout:
        why = outcome.why or f"the container ended with exit code {outcome.exit_code}"
        yield Report(trial=begun.get("begin", ""), ended="lost", problem=f"{why}: {outcome.stderr[-500:]}")


def _report(said: dict[str, Any]) -> Report:
    covered = said["covered"]
    try:
        report = Report.model_validate(said | {"covered": covered})
    except ValidationError as error:
        return Report(trial=said["trial"], run=said["run"], ended="lost", problem=f"an unreadable report: {error.error_count()} faults")
    cases = tuple(case.model_copy(update={"message": redaction.redact(case.message)[:2000]}) for case in report.cases)
    return report.model_copy(update={"cases": cases, "output": redaction.redact(report.output)})
