"""Containers that wait: used once each, gone when nobody wants them, and no worse than none when they are lost."""

import asyncio
import random
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator

import pytest
from docker import DockerClient

from autopatch.contract.errors import Unavailable
from services.executor.adapters.runtimes.engine import Engine
from services.executor.adapters.runtimes.process import start_ticks
from services.executor.adapters.sandbox.container import Begun, DockerSandbox
from services.executor.adapters.sandbox.limits import MIB, Limits
from services.executor.adapters.sandbox.owner import OWNER, myself, reap
from services.executor.adapters.workshop.spares import WarmSandbox
from services.executor.tests.workshop import Bench, outcomes

pytestmark = [pytest.mark.docker]
FILES = {"test_it.py": "import os\n\n\ndef test_it():\n    assert not os.listdir('/tmp')\n"}
PASSED = {"test_it.py::test_it": "passed"}
SLEEPS = {"test_it.py": "import time\n\n\ndef test_it():\n    time.sleep(60)\n"}


@pytest.fixture(params=["runc", pytest.param("runsc", marks=pytest.mark.long)])
async def warm(request: pytest.FixtureRequest, client: DockerClient, engine: Engine) -> AsyncIterator[WarmSandbox]:
    """Under one runtime of the engine."""
    if request.param not in client.info()["Runtimes"]:
        pytest.skip(f"the engine has no runtime {request.param}")
    sandbox = WarmSandbox(DockerSandbox(engine, Limits(output=32 * MIB), runtime=request.param), 1)
    yield sandbox
    await sandbox.close()
    assert containers(client) == set()
    assert client.volumes.list(filters={"label": f"{OWNER}={myself()}"}) == []


def containers(client: DockerClient, owner: str = "") -> set[str]:
    """Names of those that this process, or another one, has: the engine may have more users."""
    label = f"{OWNER}={owner or myself()}"
    return {str(found["Names"][0]).lstrip("/") for found in client.api.containers(all=True, filters={"label": label})}


async def one_waits(client: DockerClient) -> str:
    """The name of the only container, once it is there."""
    while len(found := containers(client)) != 1:
        await asyncio.sleep(0.05)
    return found.pop()


async def test_each_is_used_once_and_another_one_waits_then(warm: WarmSandbox, image: str, client: DockerClient) -> None:
    bench = Bench(warm, image)
    job = await bench.job(FILES)
    names = set()
    for _ in range(3):
        assert outcomes((await bench.run(job, unchanged=1))[0]) == PASSED
        names.add(await one_waits(client))
    assert len(names) == 3


async def test_one_that_was_lost_is_replaced_by_a_new_one(warm: WarmSandbox, image: str, client: DockerClient) -> None:
    bench = Bench(warm, image)
    job = await bench.job(FILES)
    await bench.run(job, unchanged=1)
    lost = await one_waits(client)
    await asyncio.sleep(0.5)
    client.api.kill(lost)
    assert outcomes((await bench.run(job, unchanged=1))[0]) == PASSED
    assert await one_waits(client) != lost


class Silent(DockerSandbox):
    """Does not say whether a container still waits."""

    async def waits(self, begun: Begun) -> bool:
        raise Unavailable("docker", "no answer")


async def test_one_of_which_nobody_knows_whether_it_waits_is_removed(engine: Engine, image: str, client: DockerClient) -> None:
    warm = WarmSandbox(Silent(engine, Limits(output=32 * MIB), runtime="runc"), 1)
    bench = Bench(warm, image)
    job = await bench.job(FILES)
    await bench.run(job, unchanged=1)
    first = await one_waits(client)
    assert outcomes((await bench.run(job, unchanged=1))[0]) == PASSED
    async with asyncio.timeout(20):
        assert await one_waits(client) != first
    await warm.close()
    assert containers(client) == set()


async def test_another_image_pushes_out_the_one_that_waits(warm: WarmSandbox, image: str, client: DockerClient) -> None:
    bench = Bench(warm, image)
    await bench.run(await bench.job(FILES), unchanged=1)
    first = await one_waits(client)
    larger = FILES | {"data.bin": bytes(7 * MIB)}
    assert outcomes((await bench.run(await bench.job(larger), unchanged=1))[0]) == PASSED
    while first in containers(client):
        await asyncio.sleep(0.05)


async def test_a_run_in_one_that_waited_is_gone_within_a_second_when_it_is_cancelled(
    warm: WarmSandbox, image: str, client: DockerClient
) -> None:
    bench = Bench(warm, image)
    job = await bench.job(SLEEPS, test_s=60)
    await bench.run(await bench.job(FILES), unchanged=1)
    await one_waits(client)
    running = asyncio.ensure_future(bench.run(job, unchanged=1))
    await asyncio.sleep(1)
    begun = time.monotonic()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert time.monotonic() - begun < 2, "a second, and as much again for a busy machine"
    assert containers(client) == set()


async def test_cancelled_while_it_waits_for_one_that_is_being_made_nothing_is_left(
    warm: WarmSandbox, image: str, client: DockerClient
) -> None:
    bench = Bench(warm, image)
    job = await bench.job(FILES)
    await bench.run(job, unchanged=1)
    running = asyncio.ensure_future(bench.run(job, unchanged=1))
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


@pytest.mark.parametrize("count", [4, pytest.param(100, marks=pytest.mark.long)])
@pytest.mark.timeout(900)
async def test_cancelled_at_any_moment_a_run_is_gone_soon(
    warm: WarmSandbox, image: str, client: DockerClient, count: int
) -> None:
    bench = Bench(warm, image)
    job = await bench.job(SLEEPS, test_s=60)
    chance, took = random.Random(count), []
    for _ in range(count):
        running = asyncio.ensure_future(bench.run(job, unchanged=2))
        await asyncio.sleep(chance.uniform(0, 2))
        begun = time.monotonic()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        took.append(time.monotonic() - begun)
        assert containers(client) == set()
    took.sort()
    p95 = took[int(0.95 * (count - 1))]
    print(f"cancelled {count} times: median {took[count // 2]:.2f} s, p95 {p95:.2f} s, longest {took[-1]:.2f} s")
    assert took[-1] < 2 and (count < 100 or p95 < 1)


async def test_what_a_killed_executor_left_waiting_is_reaped(
    image: str, engine: Engine, client: DockerClient, docker_host: str
) -> None:
    code = f"""
import asyncio
import random
import socket
import subprocess
import sys
from services.executor.adapters.runtimes.engine import Engine
from services.executor.adapters.runtimes.process import start_ticks
from services.executor.adapters.sandbox.container import DockerSandbox
from services.executor.adapters.sandbox.limits import MIB, Limits
from services.executor.adapters.workshop.spares import WarmSandbox
from services.executor.tests.workshop import Bench
async def main():
    bench = Bench(WarmSandbox(DockerSandbox(Engine({docker_host!r}), Limits(output=32 * MIB)), 1), {image!r})
    await bench.run(await bench.job({FILES!r}), unchanged=1)
    await asyncio.sleep(2)
    print("waiting", flush=True)
    await asyncio.sleep(100)
asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as dying:
        assert dying.stdout and await asyncio.to_thread(dying.stdout.readline) == b"waiting\n"
        owner = f"{socket.gethostname()}/{dying.pid}/{start_ticks(dying.pid)}"
        left = containers(client, owner)
        await reap(engine)
        assert len(left) == 1 and containers(client, owner) == left
        dying.kill()
    assert containers(client, owner) == left
    assert await reap(engine) >= 1
    assert containers(client, owner) == set()
