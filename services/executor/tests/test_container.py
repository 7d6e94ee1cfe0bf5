"""A Docker container as a target, on a real engine."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from docker import DockerClient
from docker.types import Mount

from autopatch.contract.actions import Restart, RollbackRelease
from autopatch.contract.errors import Refused, StaleTarget, Unavailable
from autopatch.contract.plan import Precondition
from autopatch.contract.target import DockerRuntime
from services.executor.adapters.delivery.hands import TargetHands
from services.executor.adapters.runtimes.container import ContainerOfTarget
from services.executor.adapters.runtimes.engine import Engine
from services.executor.ports import Failed
from services.executor.tests.fakes import FakePatches
from services.executor.tests.given import NOW, a_plan, a_target

SERVE = [
    "python3",
    "-c",
    "import signal,time\n"
    "signal.signal(signal.SIGHUP, lambda *_: print('reloaded', flush=True))\n"
    "print('up', flush=True)\nwhile True: time.sleep(0.1)",
]
REPOSITORY = "autopatch-executor-test"


@pytest.fixture(scope="session")
def releases(client: DockerClient, image: str) -> Iterator[str]:
    """Three releases of one image; the second one differs in its environment, the third does not stay up."""
    client.images.get(image).tag(REPOSITORY, "1")
    changes = {"2": ["ENV FROM_IMAGE=2", "LABEL made.of=two"], "3": ['ENTRYPOINT ["false"]']}
    for tag, change in changes.items():
        container = client.containers.create(image, ["true"], network_mode="none")
        client.api.commit(container.id or "", repository=REPOSITORY, tag=tag, changes=change)
        container.remove()
    yield REPOSITORY
    for tag in ("1", "2", "3"):
        client.images.remove(f"{REPOSITORY}:{tag}")


@pytest.fixture
def target(client: DockerClient, releases: str, engine: Engine, name: str, tmp_path: Path) -> ContainerOfTarget:
    """Release 1 of a container with a bit of everything, running."""
    client.containers.run(
        f"{releases}:1",
        SERVE,
        name=name,
        detach=True,
        init=True,
        network_mode="none",
        environment={"CHOSEN": "yes"},
        labels={"owner": "tests"},
        mounts=[Mount("/data", str(tmp_path), type="bind")],
        restart_policy={"Name": "on-failure", "MaximumRetryCount": 2},
        mem_limit="64m",
        healthcheck={"test": ["CMD", "true"], "interval": 500_000_000},
        volumes=["/anonymous"],
    )
    return make(engine, name)


def make(engine: Engine, name: str, *, patience_s: float = 15, reload_signal: str = "SIGHUP") -> ContainerOfTarget:
    spec = DockerRuntime(kind="docker", container=name, image=REPOSITORY, releases=("1", "2", "3"), reload_signal=reload_signal)
    return ContainerOfTarget(spec, engine, health="", grace_s=1, patience_s=patience_s)


def names(client: DockerClient, name: str) -> list[str]:
    return sorted(c.name or "" for c in client.containers.list(all=True, ignore_removed=True, filters={"name": name}))


async def well(target: ContainerOfTarget) -> Any:
    for _ in range(100):
        state = await target.inspect()
        if state.running:
            return state
        await asyncio.sleep(0.1)
    raise AssertionError("never ran")


pytestmark = [pytest.mark.docker]


async def test_a_release_is_changed_and_everything_that_the_owner_chose_stays(
    target: ContainerOfTarget, client: DockerClient, name: str
) -> None:
    state = await well(target)
    assert state.release == "1"
    before = client.api.inspect_container(name)
    await target.run_release("2", Precondition(instance=state.instance, release="1"))
    after = client.api.inspect_container(name)
    assert (await target.inspect()).release == "2"
    assert names(client, name) == [name]
    for field in ("Cmd", "Healthcheck"):
        assert after["Config"][field] == before["Config"][field]
    for field in ("RestartPolicy", "Memory", "NetworkMode", "Mounts"):
        assert after["HostConfig"][field] == before["HostConfig"][field]
    assert {(m["Type"], m["Source"], m["Destination"]) for m in after["Mounts"]} == {
        (m["Type"], m["Source"], m["Destination"]) for m in before["Mounts"]
    }
    assert {"CHOSEN=yes", "FROM_IMAGE=2"} <= set(after["Config"]["Env"])
    assert after["Config"]["Labels"]["owner"] == "tests"
    assert after["Config"]["Labels"]["made.of"] == "two"
    assert after["Config"]["Hostname"] == after["Id"][:12]


async def test_back_again_gives_what_the_old_image_had(target: ContainerOfTarget, client: DockerClient, name: str) -> None:
    await well(target)
    before = client.api.inspect_container(name)["Config"]
    await target.run_release("2", Precondition(release="1"))
    await target.run_release("1", Precondition(release="2"))
    after = client.api.inspect_container(name)["Config"]
    own = ("Hostname", "Volumes")
    assert {k: v for k, v in after.items() if k not in own} == {k: v for k, v in before.items() if k not in own}


class Died(BaseException):
    """Stands for the end of the process."""


@pytest.mark.slow
@pytest.mark.parametrize("call", ["rename", "create_container_from_config", "stop", "start", "remove_container"])
@pytest.mark.parametrize(("when", "then"), [("before", "forward"), ("after", "forward"), ("after", "back")])
async def test_a_crash_at_any_point_is_finished_or_taken_back(
    target: ContainerOfTarget, engine: Engine, client: DockerClient, name: str, call: str, when: str, then: str
) -> None:
    state = await well(target)
    dying = make(Dying(engine.host, call, when), name)
    with pytest.raises(Died):
        await dying.run_release("2", Precondition(instance=state.instance))
    half = await target.inspect()
    if half.half_way:
        assert half.instance == state.instance
    if then == "forward":
        if (half.half_way, half.release, half.running) != (False, "2", True):
            await target.run_release("2", Precondition(instance=half.instance, release=half.release))
    else:
        await target.run_release("1", Precondition(release=half.release))
    end = await well(target)
    assert end.release == ("2" if then == "forward" else "1")
    assert not end.half_way
    assert names(client, name) == [name]


class Dying(Engine):
    """Dies around one call to the engine."""

    def __init__(self, host: str, call: str, when: str) -> None:
        super().__init__(host)
        self._call = call
        self._when = when

    async def do(self, work: Any, *, timeout_s: float | None = None) -> Any:
        def watched(client: DockerClient) -> Any:
            real = getattr(client.api, self._call)

            def instead(*args: Any, **options: Any) -> Any:
                if self._when == "after":
                    real(*args, **options)
                raise Died

            setattr(client.api, self._call, instead)
            return work(client)

        return await super().do(watched, timeout_s=timeout_s)


async def test_a_release_that_does_not_come_up_fails_and_the_old_one_is_put_back_as_it_was(
    target: ContainerOfTarget, engine: Engine, client: DockerClient, name: str
) -> None:
    state = await well(target)
    with pytest.raises(Failed, match="not well after 1 s: it does not run"):
        await make(engine, name, patience_s=1).run_release("3", Precondition(release="1"))
    assert (await target.inspect()).half_way
    await target.run_release("1", Precondition(release="1"))
    assert client.api.inspect_container(name)["Id"].startswith(state.instance[:12])
    assert names(client, name) == [name]


async def test_an_unknown_image_changes_nothing(target: ContainerOfTarget, client: DockerClient, name: str) -> None:
    state = await well(target)
    with pytest.raises(Failed, match="image autopatch-executor-test:9 is not on the engine"):
        await target.run_release("9", Precondition(release="1"))
    assert (await target.inspect()).instance == state.instance
    assert names(client, name) == [name]


async def test_a_container_that_somebody_started_anew_is_not_touched(
    target: ContainerOfTarget, client: DockerClient, name: str
) -> None:
    state = await well(target)
    client.containers.get(name).restart(timeout=1)
    before = (await well(target)).instance
    for act in (target.restart, target.reload):
        with pytest.raises(StaleTarget, match="instance is"):
            await act(Precondition(instance=state.instance))
    with pytest.raises(StaleTarget, match="instance is"):
        await target.run_release("2", Precondition(instance=state.instance))
    assert (await target.inspect()).instance == before


async def test_a_restart_keeps_the_container_and_changes_the_instance(
    target: ContainerOfTarget, client: DockerClient, name: str
) -> None:
    state = await well(target)
    await target.restart(Precondition(instance=state.instance))
    after = await target.inspect()
    assert after.instance != state.instance
    assert after.instance[:12] == state.instance[:12]


async def test_a_reload_is_a_signal_and_shows_in_the_logs_of_its_time(
    target: ContainerOfTarget, engine: Engine, name: str
) -> None:
    await well(target)
    begun = datetime.now(UTC)
    assert await target.reload(Precondition()) == "sent SIGHUP"
    await asyncio.sleep(0.5)
    assert "reloaded" in await target.logs(begun - timedelta(seconds=1), datetime.now(UTC) + timedelta(seconds=1), 10)
    assert await target.logs(begun - timedelta(hours=2), begun - timedelta(hours=1), 10) == ()
    with pytest.raises(Refused, match=r"runtime\.reload_url"):
        await make(engine, name, reload_signal="").reload(Precondition())


async def test_a_container_that_is_not_there_is_not_running(engine: Engine, name: str) -> None:
    state = await make(engine, name).inspect()
    assert not state.running
    assert state.instance == ""


async def test_without_an_engine_it_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="docker: unix://.* does not answer"):
        await make(Engine(f"unix://{tmp_path}/none.sock"), "x").inspect()


@pytest.mark.slow
async def test_hands_on_a_real_container_see_what_is_there_finish_what_was_begun_and_take_it_back(
    target: ContainerOfTarget, engine: Engine, client: DockerClient, name: str, tmp_path: Path
) -> None:
    state = await well(target)
    described = a_target(
        tmp_path, configs=(), runtime={"kind": "docker", "container": name, "image": REPOSITORY, "releases": ["1", "2"]}
    )

    def hands(over: Engine) -> TargetHands:
        return TargetHands(described, make(over, name), tmp_path / "locks", lambda: NOW, FakePatches())

    plan = a_plan(RollbackRelease(release="2"), instance=state.instance, release="1")
    undo = (await hands(engine).prepare(plan)).undo
    assert await hands(engine).is_untouched(plan, undo, 0)
    assert [(r.kind, r.release) for r in undo] == [("release", "1")]
    with pytest.raises(Died):
        await hands(Dying(engine.host, "create_container_from_config", "after")).act(plan, undo, 0)
    assert not await hands(engine).has_effect(plan, undo, 0)
    assert not await hands(engine).is_untouched(plan, undo, 0)
    await hands(engine).act(plan, undo, 0)
    assert await hands(engine).has_effect(plan, undo, 0)
    assert not await hands(engine).is_undone(plan, undo, 0, NOW)
    with pytest.raises(StaleTarget):
        await hands(engine).act(plan, undo, 0)
    with pytest.raises(Died):
        await hands(Dying(engine.host, "rename", "after")).take_back(plan, undo, 0)
    assert not await hands(engine).is_undone(plan, undo, 0, NOW)
    await hands(engine).take_back(plan, undo, 0)
    assert await hands(engine).is_undone(plan, undo, 0, NOW)
    assert names(client, name) == [name]


async def test_hands_see_that_a_container_was_stopped_half_way_of_a_restart_and_start_it_again(
    target: ContainerOfTarget, client: DockerClient, name: str, tmp_path: Path
) -> None:
    state = await well(target)
    hands = TargetHands(a_target(tmp_path, configs=()), target, tmp_path / "locks", lambda: NOW, FakePatches())
    plan = a_plan(Restart(), instance=state.instance, release="1")
    undo = (await hands.prepare(plan)).undo
    assert await hands.is_untouched(plan, undo, 0)
    client.containers.get(name).stop(timeout=1)
    assert not await hands.has_effect(plan, undo, 0)
    assert not await hands.is_untouched(plan, undo, 0) and not await hands.is_undone(plan, undo, 0, NOW)
    await hands.take_back(plan, undo, 0)
    assert await hands.is_undone(plan, undo, 0, NOW)


async def test_a_container_that_is_unwell_is_told_from_one_that_was_stopped(
    client: DockerClient, releases: str, engine: Engine, name: str
) -> None:
    check = {"test": ["CMD", "false"], "interval": 100_000_000, "retries": 1}
    made = client.containers.run(
        f"{releases}:1", SERVE, name=name, detach=True, init=True, network_mode="none", healthcheck=check
    )
    target = make(engine, name)
    while client.api.inspect_container(name)["State"]["Health"]["Status"] != "unhealthy":
        await asyncio.sleep(0.1)
    state = await target.inspect()
    assert (state.running, state.unwell) == (False, True)
    made.stop(timeout=1)
    state = await target.inspect()
    assert (state.running, state.unwell) == (False, False)
