"""The composition root: which handler hears what, and which adapters it stands on."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from autopatch.chassis.chassis import Chassis
from autopatch.chassis.room import Room
from autopatch.contract import events as ev
from autopatch.contract import requests as rq
from autopatch.contract.errors import OperatorError
from autopatch.contract.evidence import TargetState
from autopatch.contract.target import Target
from services.executor.acting import Acting
from services.executor.adapters.delivery.start import HandsFor, look_around, rehearsal_for
from services.executor.adapters.policy_file import usable_policy
from services.executor.adapters.runtimes.engine import Engine
from services.executor.adapters.workshop.start import workshop_for
from services.executor.deciding import Deciding
from services.executor.adapters.defects.jobs import Jobs, RunsTests, for_jobs
from services.executor.ports import Hands, Rehearse
from services.executor.settings import Settings

LOG_BYTES = 48 * 1024


def build(
    settings: Settings, chassis: Chassis, *, rehearse: Rehearse | None = None, hands: Callable[[Target], Hands] | None = None,
    workshop: RunsTests | None = None, crash: Callable[[str], None] = lambda _: None,
) -> Room:
    """Tests pass hands, a rehearsal, a workshop, and a `crash` that is called at received, decided, claimed, before_effect,
    after_effect and before_return."""
    engine = Engine(settings.docker_host)
    hands_on = hands or HandsFor(settings, engine, chassis.clock)
    policy = Path(settings.policy)
    deciding = Deciding(chassis, hands_on, rehearse or rehearsal_for(settings, engine), lambda: usable_policy(policy), crash)
    acting = Acting(chassis, hands_on, crash)
    answers = Answers(chassis, hands_on)
    tests = workshop or workshop_for(settings, engine, chassis.blobs)
    jobs = Jobs(chassis, tests, crash)

    return Room(
        name="executor",
        handlers={
            ev.Planned: for_jobs(jobs.planned, deciding.planned), ev.Rehearsed: for_jobs(jobs.rehearsed, deciding.rehearsed),
            ev.Approved: deciding.approved, ev.Applying: for_jobs(jobs.applying, acting.applying),
            ev.ApplyFailed: acting.undo_due, ev.NotRecovered: acting.undo_due,
            ev.RollingBack: for_jobs(jobs.rolling_back, acting.rolling_back),
            ev.Cancelled: for_jobs(jobs.cancelled, acting.cancelled),
        },
        timers={"expiry": deciding.expiry},
        responders={rq.Inspect: answers.inspect, rq.Logs: answers.logs, rq.RunTests: tests.run_tests},
        shielded=frozenset({ev.Applying, ev.ApplyFailed, ev.NotRecovered, ev.RollingBack, ev.Cancelled}),
        on_start=(lambda: look_around(settings, engine),),
    )


class Answers:
    """What other rooms may know of a target."""

    def __init__(self, chassis: Chassis, hands: Callable[[Target], Hands]) -> None:
        self._chassis = chassis
        self._hands = hands

    async def inspect(self, request: rq.Inspect) -> TargetState:
        """Raises OperatorError for an unknown target."""
        return await self._hands(self._target(request.target)).state()

    async def logs(self, request: rq.Logs) -> rq.LogLines:
        """The newest lines that fit into an answer."""
        lines = await self._hands(self._target(request.target)).logs(request.start, request.end, request.limit)
        kept = await asyncio.to_thread(newest, lines, LOG_BYTES)
        return rq.LogLines(lines=kept, truncated=len(kept) < len(lines) or len(lines) >= request.limit)

    def _target(self, name: str) -> Target:
        target = self._chassis.targets.get(name)
        if target is None:
            raise OperatorError(f"there is no target {name!r}", tip="target files are listed by `autopatch doctor`")
        return target


def newest(lines: Sequence[str], size: int) -> tuple[str, ...]:
    """The last lines whose JSON stays below `size` bytes."""
    kept: list[str] = []
    for line in reversed(lines):
        line = line[:4000]
        size -= len(line.encode()) * 2 + 4 if not line.isascii() or '"' in line or "\\" in line else len(line) + 4
        if size < 0:
            break
        kept.append(line)
    return tuple(reversed(kept))
