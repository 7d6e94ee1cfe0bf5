"""The way to the engine, without one: a thread for every piece of work, and containers that the engine does not remove."""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
from docker import DockerClient
from docker.errors import APIError, NotFound

from autopatch.contract.errors import Unavailable
from services.executor.adapters.delivery.start import look_around
from services.executor.adapters.runtimes.engine import Engine
from services.executor.adapters.sandbox.container import Begun, DockerSandbox
from services.executor.adapters.sandbox.job import Job, Outcome
from services.executor.adapters.sandbox.output import Capped
from services.executor.adapters.sandbox.owner import EXPIRES, OWNER, RUN, myself, reap, reaping
from services.executor.adapters.workshop.spares import WarmSandbox
from services.executor.settings import Settings

T = TypeVar("T")


class Api:
    """What the engine would do. `fault` is raised by every removal; `left` are containers with their labels."""

    def __init__(self, fault: Exception | None = None, **left: dict[str, str]) -> None:
        self.fault, self.left = fault, left
        self.asked = 0

    def containers(self, **_: Any) -> list[dict[str, Any]]:
        self.asked += 1
        nameless = [{"Id": name, "Names": [], "Labels": self.left[name]} for name in self.left if name == "dead"]
        return nameless + [{"Names": [f"/{name}"], "Labels": labels} for name, labels in self.left.items() if name != "dead"]

    def volumes(self, **_: Any) -> dict[str, Any]:
        return {"Volumes": None}

    def wait(self, _: str) -> None:
        return

    def inspect_container(self, _: str) -> dict[str, Any]:
        return {"State": {"ExitCode": 0, "Running": True}}

    def remove_container(self, name: str, **_: Any) -> None:
        if self.fault:
            raise self.fault
        if self.left.pop(name, None) is None:
            raise NotFound(name)

    def remove_volume(self, name: str, **_: Any) -> None:
        raise self.fault or NotFound(name)


class Near(Engine):
    """An engine in this process; `silent` while it does not answer."""

    def __init__(self, api: Api) -> None:
        super().__init__("unix:///nowhere")
        self.api, self.silent = api, False

    def _done(self, work: Callable[[DockerClient], T], timeout_s: float) -> T:
        if self.silent:
            raise Unavailable("docker", "it does not answer")
        return work(cast(DockerClient, self))


JOB = Job("i", ("true",), 1)
BUSY = APIError("removal is already in progress")


def begun(name: str = "run") -> Begun:
    return Begun(name, "runc", Capped(100), Capped(100))


def most(setting: str) -> int:
    return int(next(bound.le for bound in Settings.model_fields[setting].metadata if hasattr(bound, "le")))


async def test_with_as_many_runs_as_may_be_set_there_still_is_a_thread_to_kill_them() -> None:
    engine, end = Near(Api()), threading.Event()
    runs = [engine.do(lambda _: end.wait(20)) for _ in range(2 * 2 * most("sandbox_slots") + 2 * most("sandbox_spares"))]
    working = asyncio.gather(*runs)
    await asyncio.sleep(0)
    try:
        assert await asyncio.wait_for(engine.do(lambda _: "killed"), 5) == "killed"
    finally:
        end.set()
        await working


@pytest.mark.parametrize("silent", [False, True])
async def test_a_container_that_cannot_be_removed_does_not_cost_its_result(silent: bool) -> None:
    class Hushed(Api):
        def inspect_container(self, name: str) -> dict[str, Any]:
            engine.silent = silent
            return super().inspect_container(name)

    engine = Near(Hushed(BUSY))
    outcome = await DockerSandbox(engine, runtime="runc").finish(begun(), JOB)
    assert outcome.exit_code == 0


async def test_a_spare_that_cannot_be_removed_ends_neither_the_run_nor_the_end() -> None:
    class Warm(DockerSandbox):
        async def begin(self, job: Job) -> Begun:
            return begun()

        async def finish(self, begun: Begun, job: Job) -> Outcome:
            return Outcome(0, "", "", 0.1, "runc")

    warm = WarmSandbox(Warm(Near(Api(BUSY)), runtime="runc"), 1)
    assert (await warm.run(Job("i", ("true",), 1, base={"a": b""}))).exit_code == 0
    await warm.close()


async def test_while_an_executor_looks_for_orphans_another_one_can_start(tmp_path: Path) -> None:
    class Slow(Near):
        async def do(self, work: Callable[[DockerClient], T], *, timeout_s: float | None = None) -> T:
            begun.set()
            await end.wait()
            return await super().do(work)

    begun, end = asyncio.Event(), asyncio.Event()
    settings = Settings(locks=str(tmp_path / "locks"))
    first = asyncio.create_task(look_around(settings, Slow(Api())))
    await begun.wait()
    await look_around(settings, Near(Api()))
    end.set()
    await first


async def test_what_has_expired_is_removed_while_the_executor_runs_and_nothing_else() -> None:
    def labels(owner: str, expires: float) -> dict[str, str]:
        return {RUN: "x", OWNER: owner, EXPIRES: str(int(expires))}

    now, dead = time.time(), f"{myself().rpartition('/')[0]}/1"
    api = Api(
        leaked=labels(myself(), now - 10), dead=labels(myself(), now - 10), running=labels(myself(), now + 100),
        left=labels(dead, now + 100), strange={RUN: "x"},
    )
    engine = Near(api)
    engine.silent = True
    loop = asyncio.create_task(reaping(engine, 0.01))
    await asyncio.sleep(0.1)
    assert len(api.left) == 5
    engine.silent, api.fault = False, BUSY
    while not api.asked:
        await asyncio.sleep(0.01)
    api.fault = None
    async with asyncio.timeout(5):
        while {"leaked", "dead"} & set(api.left):
            await asyncio.sleep(0.01)
    asked = api.asked
    while api.asked < asked + 3:
        await asyncio.sleep(0.01)
    assert set(api.left) == {"running", "left", "strange"} and not loop.done()
    loop.cancel()
    await reap(engine)
    assert set(api.left) == {"running"}
