"""What several rooms need of a defect job: its repository's paths, what its tests were before, and the diff of its plan."""

import asyncio
from collections.abc import Awaitable, Callable, Collection

from autopatch.chassis.chassis import Blobs
from autopatch.chassis.redaction import redact
from autopatch.chassis.room import Reject
from autopatch.contract import events as ev
from autopatch.contract.actions import PatchCode
from autopatch.contract.code import CodeJob, Report, Reports
from autopatch.contract.errors import Unavailable
from autopatch.contract.evidence import BlobRef
from autopatch.contract.lifecycle import Incident
from autopatch.contract.requests import RanTests
from autopatch.repair.judging import Baseline, clearest, expected
from autopatch.repair.proving import for_repair
from autopatch.repair.tree import Files, read_archive


def job_of(incident: Incident) -> CodeJob:
    """Raises Reject for an incident that is no job."""
    job = incident.opened.job
    if job is None:
        raise Reject(f"incident {incident.id} is no job")
    return job


async def tree_of(blobs: Blobs, job: CodeJob) -> Files:
    """The job's snapshot, which knows what proves something. Raises Unavailable, ContractError for one that is none."""
    tree = await asyncio.to_thread(read_archive, await blobs.get(job.snapshot))
    return await asyncio.to_thread(for_repair, tree, job.command)


async def paths_of(blobs: Blobs, job: CodeJob) -> Collection[str]:
    """The repository's files: what cannot be imported may be one of them. Raises ContractError for no snapshot at all."""
    return frozenset(await asyncio.to_thread(read_archive, await blobs.get(job.snapshot)))


async def baseline_of(blobs: Blobs, incident: Incident) -> Baseline:
    """By the runs that reproduced the fault. Raises as `red_of` does."""
    return (await red_of(blobs, incident))[0]


async def red_of(blobs: Blobs, incident: Incident) -> tuple[Baseline, Report]:
    """What the runs that reproduced the fault teach, and one that stands for them. Raises Reject without them, Unavailable."""
    found = incident.last(ev.Reproduced)
    if found is None or found.tests is None or found.tests.report is None:
        raise Reject(f"incident {incident.id} has no runs that reproduced its fault")
    runs = Reports.model_validate_json(await blobs.get(found.tests.report)).reports
    baseline = expected(runs, await paths_of(blobs, job_of(incident)))
    return baseline, clearest(runs, baseline)


async def reports_of(blobs: Blobs, run: Callable[[], Awaitable[RanTests]]) -> tuple[Reports, BlobRef]:
    """A sandbox that was lost may have been ended from outside, so it is tried once more; then that is how the run ended."""
    ran = await run()
    reports = Reports.model_validate_json(await blobs.get(ran.reports))
    if any(report.ended == "lost" for report in reports.reports):
        ran = await run()
        reports = Reports.model_validate_json(await blobs.get(ran.reports))
    return reports, ran.reports


def unless_lost(reports: Reports) -> None:
    """Raises Unavailable: a sandbox that was lost says nothing of a change."""
    if lost := next((report for report in reports.reports if report.ended == "lost"), None):
        raise Unavailable("sandbox", f"it was lost twice: {redact(lost.problem)[:300]}".rstrip(": "))


def patch_of(incident: Incident) -> PatchCode:
    """The newest plan's patch. Raises Reject for any other plan."""
    planned = incident.last(ev.Planned)
    actions = [step.action for step in planned.plan.steps] if planned and planned.plan.hash == planned.plan_hash else []
    if len(actions) != 1 or not isinstance(actions[0], PatchCode):
        raise Reject(f"incident {incident.id}: a job's plan is exactly one patch of code")
    return actions[0]


async def diff_of(blobs: Blobs, patch: PatchCode) -> tuple[BlobRef, bytes]:
    """The diff with its size, which a plan does not tell. Raises Unavailable."""
    data = await blobs.get(BlobRef(name=patch.diff, size=0, digest=patch.diff))
    return BlobRef(name=patch.diff, size=len(data), digest=patch.diff), data
