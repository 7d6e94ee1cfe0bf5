"""A soak and a local model take turns on the cores."""

import asyncio
from dataclasses import dataclass, field

from autopatch.chassis.clock import SystemClock
from autopatch.chassis.llm import cores as llm
from services.validator.adapters.cores import LeasedCores


@dataclass
class Machine:
    """The leases of one machine."""

    leases: llm.LeasedCores = field(default_factory=lambda: llm.LeasedCores(llm.MemoryStore()))

    async def cores(self) -> llm.LeasedCores:
        return self.leases


async def test_a_soak_waits_for_a_running_model_call() -> None:
    machine = Machine()
    cores = LeasedCores(machine.cores, SystemClock())
    async with machine.leases.computing("i2"):
        waiting = asyncio.create_task(cores.begin_measuring("i1"))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        released = SystemClock().now()
    since = await asyncio.wait_for(waiting, 2)
    assert since is not None and since >= released
    await cores.end_measuring("i1")


async def test_a_model_waits_until_the_soak_is_judged() -> None:
    machine = Machine()
    cores = LeasedCores(machine.cores, SystemClock())
    since = await cores.begin_measuring("i1")
    assert await cores.begin_measuring("i1") == since
    assert cores.measured() == ("i1",)
    entering = asyncio.create_task(machine.leases.computing("i2").__aenter__())
    await asyncio.sleep(0.05)
    assert not entering.done()
    await cores.end_measuring("i1")
    await asyncio.wait_for(entering, 2)
    assert cores.measured() == ()


async def test_a_lease_that_was_lost_begins_the_soak_anew() -> None:
    now = [100.0]
    machine = Machine(llm.LeasedCores(llm.MemoryStore(), lease_s=30, clock=lambda: now[0]))
    cores = LeasedCores(machine.cores, SystemClock())
    first = await cores.begin_measuring("i1")
    now[0] += 100
    second = await cores.begin_measuring("i1")
    assert first is not None and second is not None and second > first
    await cores.end_measuring("i1")


async def test_giving_back_what_is_not_held_is_harmless() -> None:
    await LeasedCores(Machine().cores, SystemClock()).end_measuring("nobody")
