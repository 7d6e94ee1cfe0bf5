"""Code of a running target: its source as a job, a patch proven and run, its branch, and the way back; with the real git."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from autopatch.contract import events as ev
from autopatch.contract import requests as rq
from autopatch.contract.actions import PatchCode
from autopatch.contract.code import CodeJob, Report, Reports, TestCase
from autopatch.contract.errors import OperatorError, Unavailable
from autopatch.contract.lifecycle import Incident
from autopatch.contract.plan import Plan
from autopatch.repair.diffs import make_diff
from autopatch.repair.tree import Files, read_archive
from services.executor.adapters.code.answers import newest
from services.executor.adapters.workshop.patches import patched
from services.executor.tests.fakes import FakeBlobs, World
from services.executor.tests.given import CONFIG, a_plan, a_target, planned

CODE = b"def double(x):\n    return x + x + 1\n"
FIXED = CODE.replace(b" + 1", b"")
WRONG = CODE.replace(b" + 1", b" + 2")
ATTACHED = {"tests/test_late.py": "def test_late(): assert double(2) == 4\n"}
POLICY = "rules:\n- {name: code, actions: [patch_code], targets: [payments], two_persons: false}\n"
POINTS = ("received", "decided", "claimed", "before_effect", "after_effect", "after_offer", "before_return")


def git(folder: Path, *arguments: str) -> str:
    own = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
    command = ["git", "-c", "user.name=Ann", "-c", "user.email=ann@example.org", *arguments]
    return subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, check=True).stdout.strip()


class Workshop:
    """Runs what the module says: `double(2) == 4` is the attached test, `double(0) < 3` one that passes."""

    def __init__(self) -> None:
        self.blobs: FakeBlobs | None = None
        self.asked: list[rq.RunTests] = []

    async def run_tests(self, request: rq.RunTests) -> rq.RanTests:
        assert self.blobs
        self.asked.append(request)
        tree = read_archive(await self.blobs.get(request.job.snapshot))
        reports = [self._report(tree, "", number) for number in range(request.unchanged)]
        if request.diff:
            reports.append(self._report(tree.changed(await patched(await self.blobs.get(request.diff), tree)), "diff", 0))
        data = Reports(runtime="scripted", image="i", reports=tuple(reports)).model_dump_json().encode()
        return rq.RanTests(reports=await self.blobs.put(data), runtime="scripted")

    def _report(self, tree: Files, trial: str, number: int) -> Report:
        names: dict[str, Any] = {}
        exec(tree["calc.py"], names)  # noqa: S102
        double = names["double"]
        told = {"tests/test_late.py::test_late": double(2) == 4, "tests/test_calc.py::test_small": double(0) < 3}
        cases = tuple(TestCase(id=test, outcome="passed" if good else "failed") for test, good in told.items())
        return Report(trial=trial, run=number, ended="finished", exit_code=int(not all(told.values())), cases=cases)


class Patchable(World):
    """A container target whose repository is a real one."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        self.repository = folder / "repository"
        (folder / "config.json").write_bytes(CONFIG)
        runtime = {"kind": "docker", "container": "c", "image": "i", "releases": ["r1", "r2"], "source": "/app"}
        target = a_target(folder, **{
            "runtime": runtime, "repository": str(self.repository), "tests": ["pytest", "-q"],
            "autonomy": {"default": "auto", "actions": {"patch_code": "auto"}}, **changes,
        })
        tests = Workshop()
        super().__init__(folder, target, POLICY, tests)
        tests.blobs = self.chassis.blobs
        self.tests = tests

    async def snapshot(self, attached: dict[str, str] | None = None) -> CodeJob:
        responder: Any = self.room.responders[rq.Snapshot]
        snapped: rq.Snapped = await responder(rq.Snapshot(target="payments", attached=ATTACHED if attached is None else attached))
        return snapped.job

    async def plan(self, fixed: bytes = FIXED, path: str = "calc.py", **changes: Any) -> Plan:
        """As the planner makes it."""
        job = (await self.snapshot()).model_copy(update=changes)
        tree = read_archive(await self.chassis.blobs.get(job.snapshot))
        diff = await self.chassis.blobs.put(make_diff(tree, tree.changed({path: fixed or None})))
        ref = await self.chassis.blobs.put(job.model_dump_json().encode())
        return a_plan(PatchCode(diff=diff.digest, base=job.commit, files=(path,), job=ref.digest))

    async def healed(self, **given: Any) -> Incident:
        plan = await self.plan(**given)
        self.has(planned(plan))
        await self.run()
        return self.incident()

    def branches(self) -> list[str]:
        return git(self.repository, "for-each-ref", "--format=%(refname:short)", "refs/heads/autopatch").split()


@pytest.fixture
def it(tmp_path: Path) -> Patchable:
    world = Patchable(tmp_path)
    folder = world.repository
    (folder / "tests").mkdir(parents=True)
    (folder / "calc.py").write_bytes(CODE)
    (folder / "tests" / "test_calc.py").write_text("def test_small(): assert double(0) < 3\n")
    (folder / "link.py").symlink_to("calc.py")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "begin")
    return world


async def test_a_snapshot_is_the_commit_that_is_checked_out_with_the_attached_tests_over_it(it: Patchable) -> None:
    (it.repository / "calc.py").write_text("not committed")
    (it.repository / "new.py").write_text("not added")
    job = await it.snapshot()
    tree = read_archive(await it.chassis.blobs.get(job.snapshot))
    assert dict(tree) == {
        "calc.py": CODE, "tests/test_calc.py": b"def test_small(): assert double(0) < 3\n",
        "tests/test_late.py": ATTACHED["tests/test_late.py"].encode(),
    }
    assert (job.repository, job.commit, job.command) == ("payments", git(it.repository, "rev-parse", "HEAD"), ("pytest", "-q"))


async def test_a_folder_in_a_repository_can_be_the_targets(it: Patchable, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    world = Patchable(inner, repository=str(it.repository / "tests"))
    job = await world.snapshot({})
    assert list(read_archive(await world.chassis.blobs.get(job.snapshot))) == ["test_calc.py"]


@pytest.mark.parametrize(("given", "says"), [
    ({"repository": "/nowhere/at/all"}, "repository: /nowhere/at/all is not a folder"),
    ({"repository": ""}, "repository is not set"),
    ({"tests": []}, "tests is not set"),
    ({"runtime": {"kind": "process", "command": ["x"], "pidfile": "/p", "releases": ["r1"]}}, "in containers only"),
    ({"runtime": {"kind": "docker", "container": "c", "image": "i", "releases": ["r1"]}}, "runtime.source is not set"),
])
async def test_what_the_targets_file_lacks_is_said_with_the_remedy(tmp_path: Path, given: dict[str, Any], says: str) -> None:
    with pytest.raises(OperatorError) as error:
        await Patchable(tmp_path, **given).snapshot()
    assert says in str(error.value) and error.value.tip


async def test_a_repository_that_is_none_or_empty_is_told_as_such(tmp_path: Path) -> None:
    world = Patchable(tmp_path)
    world.repository.mkdir()
    with pytest.raises(OperatorError, match="not a git repository"):
        await world.snapshot()
    git(world.repository, "init", "-q")
    with pytest.raises(OperatorError, match="has no commit yet"):
        await world.snapshot()


async def test_a_release_that_was_built_of_something_else_than_is_checked_out_is_not_snapshotted(it: Patchable) -> None:
    it.patches.fault = OperatorError("release r1 was built of another calc.py")
    with pytest.raises(OperatorError, match="another calc.py"):
        await it.snapshot()


async def test_only_tests_are_laid_over_a_snapshot(it: Patchable) -> None:
    for path in ("calc.py", "../tests/test_x.py"):
        with pytest.raises(OperatorError, match="attached"):
            await it.snapshot({path: "x"})


async def test_a_proven_patch_runs_as_a_release_of_its_own_and_is_offered_with_its_test_and_trailers(it: Patchable) -> None:
    incident = await it.healed()
    assert it.story() == ["planned", "rehearsed", "applying", "applied"]
    action = incident.last(ev.Planned).plan.steps[0].action  # type: ignore[union-attr]
    assert isinstance(action, PatchCode)
    release = f"r1-{action.diff[:12]}"
    assert it.runtime.effects == [f"release {release}"] and it.patches.built == [release]
    rehearsal = incident.last(ev.Rehearsed).rehearsal  # type: ignore[union-attr]
    assert [(run.label, run.outcome) for run in rehearsal.runs] == [("unchanged", "red"), ("changed", "green")]
    assert "-    return x + x + 1" in rehearsal.diff
    [branch] = it.branches()
    assert branch == "autopatch/one"
    assert git(it.repository, "diff", "--name-status", "main", branch).split() == ["M", "calc.py", "A", "tests/test_late.py"]
    assert git(it.repository, "show", f"{branch}:calc.py").encode() + b"\n" == FIXED
    assert "Incident: one" in git(it.repository, "log", "-1", "--format=%(trailers)", branch)
    assert git(it.repository, "status", "--porcelain") == "" and git(it.repository, "branch", "--show-current") == "main"
    applied = incident.last(ev.Applied)
    assert applied and f"branch {branch} at" in applied.results[0].detail
    state = await it.hands(it.target).state()
    assert (state.release, state.releases) == (release, ("r1", release, "r2"))


async def test_a_patch_that_its_tests_do_not_prove_changes_nothing(it: Patchable) -> None:
    incident = await it.healed(fixed=WRONG)
    failed = incident.last(ev.RehearsalFailed)
    assert failed and "still failed: tests/test_late.py::test_late" in failed.rehearsal.reason
    assert (it.runtime.effects, it.branches()) == ([], [])


@pytest.mark.parametrize(("given", "says"), [
    ({"path": "tests/test_late.py", "fixed": b"def test_late(): pass\n"}, "belongs to the tests"),
    ({"fixed": b""}, "removes calc.py"),
    ({"command": ("true",)}, "other tests"),
    ({"repository": "orders"}, "another target"),
])
async def test_a_patch_that_is_not_this_targets_or_changes_what_it_may_not_is_not_run(
    it: Patchable, given: dict[str, Any], says: str
) -> None:
    plan = await it.plan(**given)
    it.has(planned(plan))
    await it.run()
    failed = it.incident().last(ev.RehearsalFailed)
    assert failed and says in failed.rehearsal.reason
    assert (it.runtime.effects, it.branches(), it.tests.asked) == ([], [], [])


@pytest.mark.parametrize("point", POINTS)
async def test_killed_anywhere_while_applying_the_patch_runs_once_and_is_offered_once(it: Patchable, point: str) -> None:
    it.dies_at = (point, 1)
    await it.healed()
    assert it.dies_at is None, "never came there"
    assert it.story()[-1] == "applied" and len(it.runtime.effects) == 1
    assert it.branches() == ["autopatch/one"] and git(it.repository, "rev-list", "--count", "main..autopatch/one") == "1"


@pytest.mark.parametrize("point", ["", "received", "before_effect", "after_effect", "before_return"])
async def test_a_patch_that_does_not_recover_the_target_is_taken_back_with_its_branch(it: Patchable, point: str) -> None:
    await it.healed()
    it.says(ev.NotRecovered(reason="still red", comparisons=()))
    it.seen = {}
    it.dies_at = (point, 1) if point else None
    await it.run()
    assert it.story()[-1] == "rolled_back" and it.runtime.release == "r1" and len(it.runtime.effects) == 2
    said = it.incident().last(ev.RolledBack)
    assert it.branches() == [] and said and ("removed" in said.detail or point == "before_return")


async def test_a_branch_that_a_person_went_on_with_stays_and_is_told(it: Patchable) -> None:
    await it.healed()
    git(it.repository, "checkout", "-q", "autopatch/one")
    (it.repository / "more.py").write_text("more = 1\n")
    git(it.repository, "add", ".")
    git(it.repository, "commit", "-q", "-m", "more")
    it.says(ev.NotRecovered(reason="still red", comparisons=()))
    await it.run()
    said = it.incident().last(ev.RolledBack)
    assert it.branches() == ["autopatch/one"] and said and "autopatch/one" in said.detail and it.runtime.release == "r1"


@pytest.mark.parametrize("where", ["repository", "another"])
async def test_a_branch_that_a_person_has_checked_out_stays_and_is_told(it: Patchable, tmp_path: Path, where: str) -> None:
    await it.healed()
    if where == "repository":
        git(it.repository, "checkout", "-q", "autopatch/one")
    else:
        git(it.repository, "worktree", "add", "-q", str(tmp_path / "another"), "autopatch/one")
    it.says(ev.NotRecovered(reason="still red", comparisons=()))
    await it.run()
    said = it.incident().last(ev.RolledBack)
    assert it.branches() == ["autopatch/one"] and git(tmp_path / where, "status", "--porcelain") == ""
    assert said and f"checked out in {tmp_path / where}" in said.detail and "git branch -D autopatch/one" in said.detail
    assert it.story()[-1] == "rolled_back" and it.runtime.release == "r1"


async def test_a_patch_that_cannot_be_offered_does_not_stay(it: Patchable) -> None:
    git(it.repository, "branch", "autopatch/one")
    await it.healed()
    assert it.story()[-3:] == ["apply_failed", "rolling_back", "rolled_back"]
    assert it.runtime.release == "r1" and it.branches() == ["autopatch/one"]


async def test_while_its_commit_is_not_there_a_patch_is_not_run(it: Patchable) -> None:
    plan = await it.plan(commit="a" * 40)
    it.has(planned(plan))
    with pytest.raises(Unavailable, match="has no commit aaaaaaaaaaaa any more"):
        await it.deliver()
    assert (it.runtime.effects, it.branches(), it.story()[-1]) == ([], [], "planned")


async def test_a_repository_that_goes_away_after_the_rehearsal_holds_the_patch_up_until_it_is_back(it: Patchable) -> None:
    it.has(planned(await it.plan()))
    await it.deliver()
    away = it.repository.rename(it.repository.with_name("away"))
    with pytest.raises(Unavailable, match="is not a folder"):
        await it.run()
    assert it.story()[-1] == "rehearsed" and it.runtime.effects == []
    away.rename(it.repository)
    await it.run()
    assert it.story()[-1] == "applied" and it.branches() == ["autopatch/one"]


async def test_a_release_that_changed_since_makes_the_plan_stale(it: Patchable) -> None:
    plan = await it.plan()
    it.has(planned(plan))
    await it.deliver()
    it.runtime.release = "r2"
    await it.run()
    assert it.story()[-1] == "stale" and (it.runtime.effects, it.branches()) == ([], [])


def test_of_the_log_the_newest_lines_are_told_and_of_long_ones_both_ends() -> None:
    long = "a" * 3000 + "b" * 3000
    assert newest(["old", long, "new"], 4100) == ("new",)
    assert newest(["old", long, "new"], 8025) == (f"{'a' * 2000} … {'b' * 2000}", "new")
