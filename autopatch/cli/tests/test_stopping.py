"""A private job that is stopped: what it had come to is not lost, and what may go on is cancelled by the next run."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autopatch.chassis.settings import Common
from autopatch.cli import testing
from autopatch.cli.asking import Asking, Result
from autopatch.cli.private import _Job
from autopatch.cli.snapshot import take
from autopatch.cli.tests.test_repair import DIFF
from autopatch.cli.tests.test_repair import calc as calc
from autopatch.contract import events as ev
from autopatch.contract.errors import Unavailable
from autopatch.contract.lifecycle import State, Stored
from services.gateway.adapters.http.knowledge import KnowledgeDoor
from services.gateway.adapters.repairs.jobs import Jobs
from services.gateway.desk import Desk
from services.gateway.tests import job_story
from services.gateway.tests.fakes import FakeChassis

Begin = Callable[..., "asyncio.Task[Result]"]


class Bench:
    """Runs in one folder and on one log, one after the other."""

    def __init__(self, folder: Path, repository: Path) -> None:
        self.chassis = FakeChassis()
        self.jobs = Jobs(self.chassis, Desk(self.chassis, KnowledgeDoor("", "")))
        self.current = folder / "current"
        self._folder, self._repository = folder, repository

    def begin(self, tell: Callable[[Stored], None] = lambda _: None, *rooms: "asyncio.Task[None]") -> "asyncio.Task[Result]":
        asking = Asking(take(self._repository, {"PATH": os.environ["PATH"]}), testing.said("pytest -q", None))
        job = _Job(self._folder, Common(), None, tell)
        return asyncio.create_task(job._through(self.jobs, list(rooms), asking))

    async def opened(self, count: int = 1) -> str:
        """The newest incident, once there are so many."""
        while len(ids := await self.chassis.log.ids()) < count:
            await asyncio.sleep(0.01)
        return str(ids[-1])

    async def state(self, incident: str) -> State:
        return (await self.chassis.log.load(incident)).state  # type: ignore[no-any-return]


@pytest.fixture
def bench(tmp_path: Path, calc: Path) -> Bench:
    (tmp_path / "kept").mkdir()
    return Bench(tmp_path / "kept", calc)


async def test_stopped_just_as_it_ends_it_keeps_its_verdict_and_its_diff(bench: Bench) -> None:
    def stop(stored: Stored) -> None:
        if isinstance(stored.envelope.data, ev.Recovered):
            running.cancel()

    running = bench.begin(stop)
    await job_story.fixed(bench.chassis, await bench.opened(), DIFF)
    result = await running
    assert (result.verdict.verdict, result.diff) == ("fixed", DIFF) and not bench.current.exists()


async def test_stopped_on_its_way_it_is_cancelled_and_forgotten(bench: Bench) -> None:
    running = bench.begin()
    incident = await bench.opened()
    running.cancel()
    assert (await running).verdict.verdict == "cancelled"
    assert await bench.state(incident) is State.CANCELLED and not bench.current.exists()


async def next_run_cancels(bench: Bench, incident: str) -> None:
    assert bench.current.read_text() == incident and not (await bench.chassis.log.load(incident)).terminal
    following = bench.begin()
    await bench.opened(2)
    assert await bench.state(incident) is State.CANCELLED
    following.cancel()
    await following


async def test_stopped_twice_before_its_cancellation_is_on_the_log_the_next_run_cancels_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancelling = asyncio.Event()

    async def never(*_: Any) -> None:
        cancelling.set()
        await asyncio.Event().wait()

    running = bench.begin()
    incident = await bench.opened()
    with monkeypatch.context() as patch:
        patch.setattr(bench.jobs, "cancel", never)
        running.cancel()
        await cancelling.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    await next_run_cancels(bench, incident)


async def test_when_a_room_dies_the_next_run_cancels_its_job(bench: Bench) -> None:
    async def dies() -> None:
        await bench.opened()
        raise Unavailable("docker", "gone")

    with pytest.raises(Unavailable, match="room ended: docker: gone"):
        await bench.begin(lambda _: None, asyncio.create_task(dies(), name="executor"))
    await next_run_cancels(bench, await bench.opened())


async def test_a_job_that_comes_onto_the_log_after_it_was_looked_for_is_cancelled_by_the_next_run(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening, ways, kept = bench.jobs.open, asyncio.Event(), list[Any]()

    async def later(*given: Any) -> None:
        kept.append(given)
        ways.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        patch.setattr(bench.jobs, "open", later)
        running = bench.begin()
        await ways.wait()
        running.cancel()
        assert "before it began" in (await running).verdict.reason
    await opening(*kept[0])
    await next_run_cancels(bench, await bench.opened())
