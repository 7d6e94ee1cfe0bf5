"""Answers `RunTests`: a job's tests in a sandbox, on the unchanged copy, on candidates, or on a copy with a diff."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from pydantic import ValidationError

from autopatch.chassis.chassis import Blobs
from autopatch.chassis.telemetry import annotate, span
from autopatch.contract.code import CodeJob, Report, Reports, Trials
from autopatch.contract.errors import ContractError
from autopatch.contract.requests import RanTests, RunTests
from autopatch.repair.proving import for_repair
from autopatch.repair.tree import Files, read_archive
from services.executor.adapters.sandbox.job import Sandbox
from services.executor.adapters.workshop.batch import Batch, Run, sources
from services.executor.adapters.workshop.patches import patched, restored
from services.executor.adapters.workshop.spares import WarmSandbox
from services.executor.adapters.images.prepare import CannotPrepare

DIFF = "diff"


class Images(Protocol):
    """Which image a job's tests run in."""

    async def image_for(self, job: CodeJob, tree: Files) -> str:
        """Raises CannotPrepare, Unavailable."""
        ...


class Workshop:
    """Everything that runs a repository's code, in sandboxes only. `inside`: the driver's files, for tests of its guards."""

    def __init__(self, sandbox: Sandbox, blobs: Blobs, images: Images, inside: Mapping[str, bytes] | None = None) -> None:
        self._sandbox = sandbox
        self._blobs = blobs
        self._images = images
        self._inside = inside or sources()

    async def run_tests(self, request: RunTests) -> RanTests:
        """Raises Unavailable without engine or image, ContractError for a snapshot, candidates or a diff that is none."""
        snapshot = await self._blobs.get(request.job.snapshot)
        tree = for_repair(read_archive(snapshot), request.job.command)
        runs = [Run("", number, {}) for number in range(request.unchanged)]
        runs += [*await self._diff(request, tree), *await self._trials(request, tree)]
        with span("test runs", unchanged=request.unchanged, runs=len(runs)) as current:
            try:
                image = await self._images.image_for(request.job, tree)
            except CannotPrepare as error:
                lost = [Report(trial=run.trial, run=run.number, ended="lost", problem=str(error)) for run in runs]
                return await self._answer("none", "none", lost)
            batch = Batch(request, image, snapshot, tree, self._inside)
            reports = [report async for report in batch.reports(self._sandbox, runs)]
            annotate(current, image=image, runtime=batch.runtime, reports=len(reports))
        return await self._answer(batch.runtime, image, reports)

    async def _answer(self, runtime: str, image: str, reports: Sequence[Report]) -> RanTests:
        document = Reports(runtime=runtime, image=image, reports=tuple(reports))
        ref = await self._blobs.put(document.model_dump_json().encode())
        return RanTests(reports=ref, runtime=runtime, tried=sum(report.trial not in ("", DIFF) for report in reports))

    async def close(self) -> None:
        """Removes containers that wait for more."""
        if isinstance(self._sandbox, WarmSandbox):
            await self._sandbox.close()

    async def _diff(self, request: RunTests, tree: Files) -> Sequence[Run]:
        if request.diff is None:
            return ()
        return (Run(DIFF, 0, await patched(await self._blobs.get(request.diff), tree)),)

    async def _trials(self, request: RunTests, tree: Files) -> Iterator[Run]:
        if request.trials is None:
            return iter(())
        try:
            trials = Trials.model_validate_json(await self._blobs.get(request.trials)).trials
        except ValidationError as error:
            raise ContractError(f"the candidates cannot be read: {error.error_count()} faults") from error
        return (restored(trial, tree) for trial in trials)
