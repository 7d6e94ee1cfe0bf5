"""A target's source as a case to repair: snapshotted, its tests run until they are known to be red, and where that comes from."""

import asyncio

from autopatch.chassis.chassis import Chassis
from autopatch.chassis.jobs import tree_of
from autopatch.chassis.redaction import redact
from autopatch.chassis.telemetry import span
from autopatch.contract.code import CodeJob, Covered, Report, Reports
from autopatch.contract.requests import RanTests, RunTests, Snapped, Snapshot
from autopatch.repair.judging import Baseline, clearest, expected, named, within
from autopatch.repair.localise import places
from services.planner.adapters.gate.case import Case, failed_keys
from services.planner.ports import Question

UNCHANGED = 2
"""Runs of the source as it is."""
PASSING = 100
"""Passing tests that are run for their coverage at most."""
LONGEST_S = 840.0
START_S = 60.0
SLOWER = 4
"""Coverage makes tests about so many times slower."""
PLACES = 50


class Sound(Exception):
    """The source is not what is at fault, as far as its tests tell; why."""


async def case_of(chassis: Chassis, question: Question, attached: dict[str, str]) -> Case:
    """Raises Sound when the tests are not red, Unavailable when executor or object store are away or the target's file lacks."""
    snapped = await chassis.asker.ask(Snapshot(target=question.target.name, attached=attached), Snapped)
    job, incident = snapped.job, question.incident
    tree = await tree_of(chassis.blobs, job)
    with span("baseline of the source", commit=job.commit, attached=sorted(attached)) as current:
        runs = await _ran(chassis, RunTests(
            incident_id=incident.id, job=job, unchanged=UNCHANGED, limit_s=min(LONGEST_S, START_S + UNCHANGED * job.suite_s)
        ))
        baseline = expected(runs, tree)
        why = not_red(baseline, tuple(attached), job)
        current.set_attribute("verdict", baseline.verdict)
        current.set_attribute("reason", redact(why or baseline.reason)[:300])
    if why:
        raise Sound(why)
    red = clearest(runs, baseline)
    covered = await _covered(chassis, incident.id, job, baseline)
    found = (await asyncio.to_thread(places, tree, red, covered, baseline))[:PLACES]
    if not found:
        raise Sound(f"{named(baseline.failing)} fail, and nothing in the repository that may be changed has to do with it")
    failed = await failed_keys(chassis, tree, question.failures)
    return Case(incident, job, tree, baseline, red, found, question.diagnosed, question.failures, failed)


def not_red(baseline: Baseline, attached: tuple[str, ...], job: CodeJob) -> str:
    """Why there is nothing to repair by; '' when there is. Every attached file must have a test that fails."""
    if baseline.verdict != "red":
        return f"the tests of commit {job.commit[:12]} are not red: {baseline.reason}"
    silent = [path for path in attached if not any(_of(path, test) for test in baseline.failing)]
    passes = f"{', '.join(silent)}, which the runbook attaches, passes on commit {job.commit[:12]}"
    return f"{passes}: the fault is not what it shows" if silent else ""


def _of(path: str, test: str) -> bool:
    """Is it a test of this file? unittest names its tests by module."""
    return within(test, path) or within(test, path.removesuffix(".py").replace("/", "."))


async def _covered(chassis: Chassis, incident_id: str, job: CodeJob, baseline: Baseline) -> tuple[Covered, ...]:
    """What failing and some passing tests execute; empty when that cannot be had, for places are found without it too."""
    with span("collect coverage", tests_failing=len(baseline.failing)) as current:
        runs = await _ran(chassis, RunTests(
            incident_id=incident_id, job=job, unchanged=1, only=(*baseline.failing, *baseline.passing[:PASSING]), coverage=True,
            limit_s=min(LONGEST_S, START_S + SLOWER * job.suite_s),
        ))
        covered = next((run.covered for run in runs), ())
        current.set_attribute("tests.covered", len(covered))
    return covered


async def _ran(chassis: Chassis, request: RunTests) -> tuple[Report, ...]:
    ran = await chassis.asker.ask(request, RanTests)
    return Reports.model_validate_json(await chassis.blobs.get(ran.reports)).reports
