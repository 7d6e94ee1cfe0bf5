"""Patched releases on a real engine: the image of the running release with the changed files over it, and nothing run for it."""

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker import DockerClient

from autopatch.contract.actions import PatchCode
from autopatch.contract.code import CodeJob
from autopatch.contract.errors import OperatorError, Refused, StaleTarget
from autopatch.contract.model import digest
from autopatch.contract.plan import Plan, UndoRecord
from autopatch.contract.target import DockerRuntime, Target
from autopatch.repair.diffs import make_diff
from autopatch.repair.tree import Files, tree_digest, write_archive
from services.executor.adapters.code import PATCHED
from services.executor.adapters.code.layers import Layers
from services.executor.adapters.delivery.hands import TargetHands
from services.executor.adapters.runtimes.container import ContainerOfTarget
from services.executor.adapters.runtimes.engine import Engine
from services.executor.ports import Failed
from services.executor.tests.fakes import FakeBlobs
from services.executor.tests.given import NOW, a_plan, a_target
from services.executor.tests.test_code import git

REPOSITORY = "autopatch-layers-test"
SOURCE = Files({"app/calc.py": b"SAYS = 'broken'\n", "app/__init__.py": b"", "tests/test_calc.py": b"", "VERSION": b"0\n"})
FIXED = {"app/calc.py": b"from app.words import SAYS\n", "app/words.py": b"SAYS = 'mended'\n"}
RUN = ["python3", "-c", "import time\nfrom app.calc import SAYS\nprint(SAYS, flush=True)\nwhile True: time.sleep(0.1)"]

pytestmark = [pytest.mark.docker]


def packed(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for path, data in files.items():
            member = tarfile.TarInfo(path)
            member.size, member.mode, member.uid = len(data), 0o640, 65534
            archive.addfile(member, io.BytesIO(data))
    return made.getvalue()


@pytest.fixture(scope="session")
def release(client: DockerClient, image: str) -> Iterator[str]:
    """Release 1, compiled so that its byte code counts whatever becomes of the files, as images of services often are."""
    compiling = ["python3", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", "/srv"]
    built = client.containers.create(image, compiling, network_mode="none")
    own = {f"srv/{path}": data for path, data in SOURCE.items() if not path.startswith("tests/")}
    client.api.put_archive(built.id or "", "/", packed({**own, "srv/VERSION": b"stamped\n"}))
    built.start()
    built.wait()
    client.api.commit(built.id or "", repository=REPOSITORY, tag="1", changes=["WORKDIR /srv", "LABEL owner=ann"])
    built.remove()
    yield "1"
    for found in client.images.list(REPOSITORY):
        for tag in found.tags:
            client.images.remove(tag)


class Case:
    """A target that runs release 1, and a patch for it."""

    def __init__(self, engine: Engine, name: str, folder: Path) -> None:
        runtime = DockerRuntime(kind="docker", container=name, image=REPOSITORY, releases=("1",), source="/srv")
        git(folder, "init", "-q")
        git(folder, "commit", "-q", "--allow-empty", "-m", "what is deployed")
        self.commit = git(folder, "rev-parse", "HEAD")
        self.target: Target = a_target(
            folder, runtime=runtime.model_dump(), configs=[], repository=str(folder), tests=["pytest"],
            autonomy={"actions": {"patch_code": "auto"}},
        )
        self.blobs = FakeBlobs(lambda _: None)
        self.layers = Layers(engine, self.blobs)
        container = ContainerOfTarget(runtime, engine, health="", grace_s=1, patience_s=15)
        self.hands = TargetHands(self.target, container, folder / "locks", lambda: NOW, self.layers)

    async def patch(self, source: Files = SOURCE, changes: dict[str, bytes] | None = None) -> PatchCode:
        changes = changes or FIXED
        job = CodeJob(repository="payments", snapshot=await self.blobs.put(write_archive(source)), tree=tree_digest(source),
                      commit=self.commit, command=("pytest",))
        diff = await self.blobs.put(make_diff(source, source.changed(dict(changes))))
        ref = await self.blobs.put(job.model_dump_json().encode())
        return PatchCode(diff=diff.digest, base=job.commit, files=tuple(sorted(changes)), job=ref.digest)

    async def plan(self, patch: PatchCode) -> Plan:
        state = await self.hands.state()
        return a_plan(patch, release=state.release, instance=state.instance)


@pytest.fixture
def case(client: DockerClient, release: str, engine: Engine, name: str, tmp_path: Path) -> Case:
    client.containers.run(
        f"{REPOSITORY}:1", RUN, name=name, detach=True, init=True, network_mode="none", read_only=True, user="65534:65534"
    )
    return Case(engine, name, tmp_path)


async def test_a_patched_release_runs_the_changed_code_whatever_was_compiled_and_the_old_one_comes_back(
    case: Case, client: DockerClient, name: str
) -> None:
    patch = await case.patch()
    plan = await case.plan(patch)
    undo = (await case.hands.prepare(plan)).undo
    assert undo == (UndoRecord(step=0, kind="release", release="1"),)
    assert not await case.hands.has_effect(plan, undo, 0)
    await case.hands.act(plan, undo, 0)
    assert await case.hands.has_effect(plan, undo, 0) and not await case.hands.is_undone(plan, undo, 0, NOW)
    made = f"1-{patch.diff[:12]}"
    assert (await case.hands.state()).releases == ("1", made)
    assert client.containers.get(name).logs() == b"mended\n"
    labels = client.images.get(f"{REPOSITORY}:{made}").labels
    assert labels["owner"] == "ann" and set(labels) == {*client.images.get(f"{REPOSITORY}:1").labels, PATCHED}
    config, before = (client.images.get(f"{REPOSITORY}:{tag}").attrs["Config"] for tag in (made, "1"))
    kept = ("Cmd", "Entrypoint", "Env", "WorkingDir", "User")
    assert [config.get(key) for key in kept] == [before.get(key) for key in kept]
    await case.hands.take_back(plan, undo, 0)
    assert await case.hands.is_undone(plan, undo, 0, NOW)
    assert client.containers.get(name).logs() == b"broken\n"
    assert not client.containers.list(all=True, ignore_removed=True, filters={"name": "autopatch-layer-"})


async def test_the_same_patch_is_laid_once_and_files_keep_their_owner_and_mode(case: Case, client: DockerClient) -> None:
    patch = await case.patch()
    made = await case.layers.build(case.target, patch, "1")
    first = client.images.get(f"{REPOSITORY}:{made}").id
    assert await case.layers.build(case.target, patch, "1") == made
    assert client.images.get(f"{REPOSITORY}:{made}").id == first
    shown = client.containers.run(f"{REPOSITORY}:{made}", ["stat", "-c", "%a %u", "app/calc.py", "app/words.py"], remove=True,
                                  network_mode="none")
    assert shown.decode().split() == ["640", "65534", "644", "0"]


async def test_a_release_whose_file_is_not_the_one_that_the_patch_was_made_for_is_not_patched(
    case: Case, client: DockerClient
) -> None:
    for path in ("app/calc.py", "app/__init__.py"):
        other = SOURCE.changed({path: b"SAYS = 'another'\n"})
        patch = await case.patch(other, {path: b"SAYS = 'mended'\n"})
        plan = await case.plan(patch)
        with pytest.raises(StaleTarget, match=f"/srv/{path} is another file in the image than in commit {case.commit[:12]}"):
            await case.hands.prepare(plan)
        with pytest.raises(StaleTarget):
            await case.layers.build(case.target, patch, "1")
    assert not client.images.list(filters={"label": PATCHED, "reference": f"{REPOSITORY}:1-{digest(b'none')[:12]}"})
    assert not client.containers.list(all=True, ignore_removed=True, filters={"name": "autopatch-layer-"})


async def test_a_new_file_that_is_there_already_is_not_overwritten(case: Case) -> None:
    source = Files({path: data for path, data in SOURCE.items() if path != "app/__init__.py"})
    patch = await case.patch(source, {"app/__init__.py": b"x = 1\n"})
    with pytest.raises(StaleTarget, match="another file"):
        await case.layers.check(case.target, patch, "1")


async def test_a_repository_is_held_against_the_image_by_its_code_and_not_by_what_a_build_stamps(case: Case) -> None:
    await case.layers.compare(case.target, "1", SOURCE)
    with pytest.raises(OperatorError, match="release 1 was built of another app/calc.py"):
        await case.layers.compare(case.target, "1", SOURCE.changed({"app/calc.py": b"other\n"}))
    with pytest.raises(OperatorError, match="holds no code of the repository"):
        await case.layers.compare(case.target, "1", Files({"elsewhere.py": b""}))
    elsewhere = case.target.model_copy(update={"runtime": case.target.runtime.model_copy(update={"source": "/nowhere"})})
    with pytest.raises(OperatorError, match="/nowhere is not in"):
        await case.layers.compare(elsewhere, "1", SOURCE)


async def test_what_an_executor_that_was_killed_left_is_removed_and_what_another_one_uses_is_not(
    case: Case, engine: Engine, client: DockerClient, name: str
) -> None:
    left = client.containers.create(f"{REPOSITORY}:1", name=f"autopatch-layer-{name}", network_mode="none")
    await case.layers.compare(case.target, "1", SOURCE)
    assert left in client.containers.list(all=True, ignore_removed=True)
    await Layers(engine, case.blobs, left_s=-60).compare(case.target, "1", SOURCE)
    assert left not in client.containers.list(all=True, ignore_removed=True)


async def test_a_release_that_is_not_on_the_engine_and_a_tag_that_grows_too_long_are_refused(case: Case) -> None:
    patch = await case.patch()
    with pytest.raises(Failed, match="not on the engine"):
        await case.layers.build(case.target, patch, "9")
    with pytest.raises(Refused, match="too long for a tag"):
        await case.layers.build(case.target, patch, "1" * 120)
