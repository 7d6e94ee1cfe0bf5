"""The rehearsal of a patch: the target's own tests, red on the source as it is, green with the diff, in a sandbox."""

from autopatch.chassis import redaction
from autopatch.chassis.chassis import Blobs
from autopatch.chassis.telemetry import annotate, span
from autopatch.contract.errors import ContractError, Refused
from autopatch.contract.evidence import Rehearsal
from autopatch.contract.plan import Plan
from autopatch.contract.requests import RunTests
from autopatch.contract.target import Target
from autopatch.repair.judging import expected
from services.executor.adapters.code.patches import patch_in, understood
from services.executor.adapters.defects.jobs import LONGEST_S, SHOWN, START_S, RunsTests, rehearsed, run

UNCHANGED = 2
"""Runs of the source as it is: a test that does now this and now that proves nothing."""


class Proof:
    """What is expected comes from runs of the unchanged copy beside the changed one, not from what the planner saw."""

    def __init__(self, blobs: Blobs, workshop: RunsTests) -> None:
        self._blobs = blobs
        self._workshop = workshop

    async def __call__(self, incident_id: str, target: Target, plan: Plan) -> Rehearsal:
        """Raises Unavailable without sandbox or object store, OperatorError, Refused for a patch that is not this target's."""
        action = patch_in(plan)
        assert action is not None
        patch = await understood(self._blobs, target, action)
        shown = redaction.redact(patch.diff.decode(errors="backslashreplace"))[:SHOWN]
        limit_s = min(LONGEST_S, START_S + (UNCHANGED + 1) * patch.job.suite_s)
        request = RunTests(incident_id=incident_id, job=patch.job, unchanged=UNCHANGED, diff=patch.ref, limit_s=limit_s)
        with span("rehearsal", diff=action.diff, files=list(action.files), commit=action.base) as current:
            try:
                reports, tests = await run(self._workshop, self._blobs, request)
                baseline = expected([report for report in reports.reports if not report.trial], patch.tree)
                rehearsal = rehearsed(baseline, reports, UNCHANGED).model_copy(update={"tests": tests, "diff": shown})
            except (Refused, ContractError) as error:
                rehearsal = Rehearsal(passed=False, reason=f"the diff is refused: {error}", diff=shown)
            annotate(current, passed=rehearsal.passed, reason=rehearsal.reason)
        return rehearsal
