"""Scripted hands: what they do to a target is a line in a journal file and a real edit of its pool size."""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from autopatch.contract.actions import SetConfig
from autopatch.contract.errors import StaleTarget, Unavailable
from autopatch.contract.evidence import ConfigState, Rehearsal, RehearsalRun, TargetState
from autopatch.contract.model import digest
from autopatch.contract.plan import Plan, UndoRecord
from autopatch.contract.target import Target
from services.executor.ports import Prepared

POOL = re.compile(rb'("pool_size": )(\d+)')


class Gate:
    """Whoever comes here waits until it is opened."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.given_up = asyncio.Event()
        self._open = asyncio.Event()

    async def enter(self) -> None:
        """Says that somebody came, and waits; says so too when the wait is cancelled."""
        self.reached.set()
        try:
            await self._open.wait()
        except asyncio.CancelledError:
            self.given_up.set()
            raise

    def open(self) -> None:
        """From now on nobody waits."""
        self._open.set()


async def rehearsed_green(target: Target, plan: Plan, running: str) -> Rehearsal:
    """A sandbox that always says what it should."""
    runs = tuple(
        RehearsalRun(label=label, outcome=outcome, exit_code=code, seconds=0.1, runtime="scripted")  # type: ignore[arg-type]
        for label, outcome, code in (("unchanged", "red", 1), ("changed", "green", 0))
    )
    return Rehearsal(runs=runs, passed=True, diff="-10 +20")


@dataclass
class ScriptedHands:
    """Called with a target it gives the hands for it. The journal is shared by every process that is given the same path."""

    journal: Path
    slow_s: float = 0.0
    guarded: bool = True
    """False: neither looks for the effect nor checks the file, as a target without any guard would behave."""

    gates: dict[str, Gate] = field(default_factory=dict)
    """Where a call waits, by the name of the method."""
    away: set[str] = field(default_factory=set)
    """Methods for which the engine is away."""

    async def allow(self, method: str) -> None:
        """Raises Unavailable while the engine is away."""
        if method in self.gates:
            await self.gates[method].enter()
        if method in self.away:
            raise Unavailable("docker", "the engine does not answer")

    def __call__(self, target: Target) -> "TargetHands":
        return TargetHands(self, target)

    def write(self, line: str) -> None:
        descriptor = os.open(self.journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(descriptor, f"{line}\n".encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lines(self) -> list[str]:
        return self.journal.read_text().splitlines() if self.journal.exists() else []


@dataclass
class TargetHands:
    """The hands for one target."""

    owner: ScriptedHands
    target: Target

    @asynccontextmanager
    async def fence(self) -> AsyncIterator[None]:
        yield

    @property
    def path(self) -> Path:
        return Path(self.target.configs[0].path)

    async def state(self) -> TargetState:
        await self.owner.allow("state")
        data = self.path.read_bytes()
        found = POOL.search(data)
        assert found
        config = ConfigState(file="config", digest=digest(data), values={"database.pool_size": int(found.group(2))},
                             modified=datetime.fromtimestamp(self.path.stat().st_mtime, UTC))
        return TargetState(target=self.target.name, at=datetime.now(UTC), running=True, release="1", releases=("1",),
                           instance="i-1", configs=(config,))

    async def prepare(self, plan: Plan) -> Prepared:
        await self.owner.allow("prepare")
        data, undo = self.path.read_bytes(), list[UndoRecord]()
        for number, step in enumerate(plan.steps):
            if step.precondition.config_digest and step.precondition.config_digest != digest(data):
                raise StaleTarget("the file is not what the plan was made for")
            if not isinstance(step.action, SetConfig):
                undo.append(UndoRecord(step=number, kind="none"))
                continue
            found = POOL.search(data)
            assert found
            after = data[: found.start(2)] + str(step.action.value).encode() + data[found.end(2):]
            undo.append(UndoRecord(step=number, kind="splice", file="config", offset=found.start(2), old=found.group(2).decode(),
                                   new=str(step.action.value), digest_before=digest(data), digest_after=digest(after)))
        return Prepared(tuple(undo), "-10 +20")

    async def has_effect(self, plan: Plan, undo: Sequence[UndoRecord], step: int) -> bool:
        await self.owner.allow("has_effect")
        record = undo[step]
        return self.owner.guarded and record.kind == "splice" and digest(self.path.read_bytes()) == record.digest_after

    async def act(self, plan: Plan, undo: Sequence[UndoRecord], step: int) -> str:
        await self.owner.allow("act")
        await asyncio.sleep(self.owner.slow_s)
        record = undo[step]
        if record.kind == "splice":
            self._swap(record.digest_before, record.old, record.new)
            self.owner.write(f"apply {self.target.name} {plan.hash[:8]} {step}")
        return "done"

    async def is_undone(self, plan: Plan, undo: Sequence[UndoRecord], step: int, since: datetime) -> bool:
        await self.owner.allow("is_undone")
        record = undo[step]
        return record.kind != "splice" or digest(self.path.read_bytes()) == record.digest_before

    async def is_untouched(self, plan: Plan, undo: Sequence[UndoRecord], step: int) -> bool:
        await self.owner.allow("is_untouched")
        record = undo[step]
        return record.kind != "splice" or digest(self.path.read_bytes()) == record.digest_before

    async def take_back(self, plan: Plan, undo: Sequence[UndoRecord], step: int) -> str:
        await self.owner.allow("take_back")
        record = undo[step]
        if record.kind == "splice":
            self._swap(record.digest_after, record.new, record.old)
            self.owner.write(f"undo {self.target.name} {plan.hash[:8]} {step}")
        return "undone"

    async def logs(self, start: datetime, end: datetime, limit: int) -> Sequence[str]:
        await self.owner.allow("logs")
        if b'"pool_size": 10' in self.path.read_bytes():
            return ['{"level": "error", "message": "could not acquire a connection from the pool within 5s"}'] * 20
        return []

    def _swap(self, before: str, old: str, new: str) -> None:
        data = self.path.read_bytes()
        if self.owner.guarded and digest(data) != before:
            raise StaleTarget("the file changed since")
        draft = self.path.with_suffix(f".{os.getpid()}.new")
        draft.write_bytes(POOL.sub(lambda m: m.group(1) + new.encode(), data))
        draft.replace(self.path)


