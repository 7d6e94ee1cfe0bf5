"""What /metrics says of the log."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from prometheus_client import REGISTRY

from autopatch.contract import events as ev
from services.gateway.adapters.http.gauges import Gauges
from services.gateway.tests import story
from services.gateway.tests.fakes import FakeChassis
from services.gateway.tests.story import ID


@pytest.fixture
async def counting(chassis: FakeChassis) -> AsyncIterator[FakeChassis]:
    story.awaiting(chassis, "before-1")
    task = asyncio.create_task(Gauges(chassis.log, chassis.clock).run())
    yield chassis
    task.cancel()


def now(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0


async def waiting(count: int) -> None:
    async with asyncio.timeout(3):
        while now("autopatch_approvals_waiting") != count:
            await asyncio.sleep(0.01)


async def test_incidents_that_wait_for_a_person_are_counted_also_those_of_before_the_start(counting: FakeChassis) -> None:
    await waiting(1)
    made = story.awaiting(counting, needed=2)
    await waiting(2)
    counting.log.say(ID, ev.Approved(plan_hash=made.hash, person="ann"), by="person:ann")
    counting.log.say("before-1", ev.Cancelled(person="olga"), by="person:olga")
    await waiting(1)
    counting.log.down = True
    await asyncio.sleep(0.05)
    counting.log.down = False
    counting.log.say(ID, ev.Approved(plan_hash=made.hash, person="bob"), by="person:bob")
    await waiting(0)


async def test_stages_count_from_the_alert_on_and_only_what_came_after_the_start(chassis: FakeChassis) -> None:
    def sums() -> tuple[float, float]:
        return now("autopatch_stage_seconds_count", stage="rehearsed"), now("autopatch_stage_seconds_sum", stage="rehearsed")

    story.awaiting(chassis, "before-1")
    count, total = sums()
    task = asyncio.create_task(Gauges(chassis.log, chassis.clock).run())
    story.awaiting(chassis)
    await waiting(2)
    assert sums() == (count + 1, total + 10)
    task.cancel()
