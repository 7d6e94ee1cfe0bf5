"""What a repair starts from, as the log and the object store tell it, and the ground that a round of it stands on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from autopatch.chassis import jobs
from autopatch.chassis.chassis import Chassis
from autopatch.chassis.room import Reject
from autopatch.contract import events as ev
from autopatch.contract.actions import PatchCode
from autopatch.contract.code import CodeJob, Place, Places, Report
from autopatch.contract.errors import ContractError
from autopatch.contract.lifecycle import Incident
from autopatch.repair.applying import EditError, apply_answer
from autopatch.repair.diffs import apply_diff
from autopatch.repair.judging import Baseline
from autopatch.repair.paths import proves
from autopatch.repair.tree import Files
from services.planner.adapters.gate.candidate import Changes, key_of
from services.planner.ports import Failure


@dataclass(frozen=True)
class Case:
    """One job, red. `red` is a run of the unchanged copy; `failed` holds the keys of what was tried in this incident before."""

    incident: Incident
    job: CodeJob
    tree: Files
    baseline: Baseline
    red: Report
    places: tuple[Place, ...]
    diagnosed: ev.Diagnosed
    failures: tuple[Failure, ...] = ()
    failed: frozenset[str] = frozenset()

    @property
    def tests(self) -> Mapping[str, bytes]:
        """The files that are tests."""
        return {path: data for path, data in self.tree.items() if proves(path, self.tree)}


@dataclass(frozen=True)
class Ground:
    """What a round's candidates are built upon: the snapshot, or the snapshot with a change that healed a part of the tests."""

    tree: Files
    changes: Changes
    places: tuple[Place, ...]
    failing: frozenset[str]
    report: Report
    description: str = ""

    @classmethod
    def of(cls, case: Case) -> "Ground":
        """The snapshot."""
        return cls(case.tree, {}, case.places, frozenset(case.baseline.failing), case.red)

    def with_change(self, case: Case, changes: Changes, failing: frozenset[str], report: Report, description: str) -> "Ground":
        """The snapshot with `changes`, of which `failing` are left."""
        tree = case.tree.changed(changes)
        places = tuple(moved(place, case.tree.get(place.path, b""), tree.get(place.path, b"")) for place in case.places)
        return Ground(tree, changes, places, failing, report, description)


async def load(chassis: Chassis, incident: Incident, failures: tuple[Failure, ...]) -> Case:
    """Raises Reject when the log does not hold what a job's has, Unavailable when the object store does not answer."""
    job, diagnosed = jobs.job_of(incident), incident.last(ev.Diagnosed)
    if diagnosed is None:
        raise Reject(f"incident {incident.id} has no diagnosis of runs of its tests")
    baseline, red = await jobs.red_of(chassis.blobs, incident)
    tree = await jobs.tree_of(chassis.blobs, job)
    if baseline.verdict != "red":
        raise Reject(f"the tests of incident {incident.id} are not red: {baseline.reason}")
    places = Places.model_validate_json(await chassis.blobs.get(diagnosed.places)).places if diagnosed.places else ()
    failed = await failed_keys(chassis, tree, failures)
    return Case(incident, job, tree, baseline, red, places, diagnosed, failures, failed)


async def diff_of(chassis: Chassis, actions: Sequence[object]) -> bytes | None:
    """The diff of a plan that patches code, None for any other. Raises Unavailable."""
    patch = next((action for action in actions if isinstance(action, PatchCode)), None)
    return None if patch is None else (await jobs.diff_of(chassis.blobs, patch))[1]


async def failed_keys(chassis: Chassis, tree: Files, failures: Sequence[Failure]) -> frozenset[str]:
    """Of patches that did not work. Raises Unavailable."""
    return frozenset([key for failure in failures if (key := await _key(chassis, tree, failure)) is not None])


async def _key(chassis: Chassis, tree: Files, failure: Failure) -> str | None:
    diff = await diff_of(chassis, [step.action for step in failure.plan.steps])
    try:
        return None if diff is None else key_of(apply_diff(diff, tree))
    except ContractError:
        return None


def refitted(diff: bytes, tree: Files) -> Changes | str:
    """A diff made for another tree: as it is, else as a model's would be, its lines found each in one place; or why not."""
    try:
        return apply_diff(diff, tree)
    except ContractError:
        pass
    try:
        return apply_answer(f"```diff\n{diff.decode()}\n```\n", tree, sorted(tree)[:1]).changes
    except (EditError, UnicodeDecodeError) as error:
        return f"its diff no longer applies: {error}"


def moved(place: Place, before: bytes, after: bytes) -> Place:
    """The place in a file that was changed: what lies behind the change moves with it, what holds it grows."""
    grown, at = len(after.splitlines()) - len(before.splitlines()), first_change(before, after)
    if not grown or place.end < at:
        return place
    start = place.start + grown if place.start > at else place.start
    lines = {(line + grown if line > at else line): score for line, score in place.lines.items()}
    return place.model_copy(update={
        "start": max(1, start), "end": max(start, place.end + grown, 1), "lines": {n: s for n, s in lines.items() if n > 0}
    })


def first_change(before: bytes, after: bytes) -> int:
    """The first line that differs, from 1."""
    old, new = before.splitlines(), after.splitlines()
    return next((n for n, (one, other) in enumerate(zip(old, new, strict=False), 1) if one != other), min(len(old), len(new)) + 1)


def without(baseline: Baseline, failing: frozenset[str]) -> Baseline:
    """The baseline with only these tests to be healed."""
    return replace(baseline, failing=tuple(sorted(failing)))
