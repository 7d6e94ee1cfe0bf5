"""A private AutoPatch for one job: nats-server and the rooms that a job needs, in this process, gone when the job has ended."""

import asyncio
import os
import pwd
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from autopatch.chassis.llm.settings import LlmSettings
from autopatch.chassis.settings import Common, load
from autopatch.cli import quarters
from autopatch.cli.asking import Asking, Mode, Result, Tell
from autopatch.contract.errors import ContractError, Unavailable
from services.gateway.agent import NotFound

if TYPE_CHECKING:  # half a second that starts while nats-server does
    from autopatch.chassis.main import Blueprint
    from services.gateway.adapters.repairs.jobs import Jobs
    from services.gateway.adapters.repairs.words import Ask
    from services.gateway.agent import Caller

ROOMS = ("executor", "validator", "diagnosis", "planner", "knowledge")
LATER = ("autopatch.chassis.main", "services.gateway.adapters.repairs.jobs", *(f"services.{room}.service" for room in ROOMS))
UNDO_S = 10.0
"""A step that has begun is undone before a cancelled job ends."""
OPENING_TRIES, OPENING_S = 8, 0.05
"""How long a job that is not on the log yet is looked for."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(prepare: Callable[[], Asking], mode: Mode | None, tell: Tell, note: Callable[[str], None]) -> Result:
    """Works on one job and leaves nothing running. Ctrl-C and its like cancel it.

    `prepare` makes the job, on a thread, while everything starts. Raises what it raises, and Unavailable without a nats-server.
    """
    with quarters.folder(note) as at, quarters.logged(at), quarters.server(at) as common:
        return asyncio.run(_Job(at, common, mode, tell).work(prepare))


class _Job:
    def __init__(self, folder: Path, common: Common, mode: Mode | None, tell: Tell) -> None:
        self._current = folder / "current"
        self._folder = folder
        self._common = common
        self._mode = mode
        self._tell = tell
        self._name = ""

    async def work(self, prepare: Callable[[], Asking]) -> Result:
        working = asyncio.create_task(self._work(prepare))
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, working.cancel)
        try:
            return await working
        except asyncio.CancelledError:
            return Result.unbegun(self._name)

    async def _work(self, prepare: Callable[[], Asking]) -> Result:
        loop, pool = asyncio.get_running_loop(), ThreadPoolExecutor(2)
        try:
            imported = loop.run_in_executor(pool, lambda: [import_module(name) for name in LATER])
            asking = await loop.run_in_executor(pool, prepare)
            self._name = asking.snapshot.name
            await imported
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        async with self._rooms() as (jobs, rooms):
            return await self._through(jobs, rooms, asking)

    async def _through(self, jobs: "Jobs", rooms: list["asyncio.Task[None]"], asking: Asking) -> Result:
        from services.gateway.adapters.repairs.words import Ask
        from services.gateway.agent import Caller

        ask, caller = Ask.model_validate(asking.body()), Caller(_person(), "operator", True)
        await self._forget(jobs, caller)
        incident = ask.incident(asking.snapshot.tree)
        self._current.write_text(incident)
        watching = asyncio.create_task(self._watch(jobs, ask, caller))
        try:
            await asyncio.wait({watching, *rooms}, return_when=asyncio.FIRST_COMPLETED)
            if not watching.done():
                raise Unavailable("autopatch", _why(rooms), tip=f"its log is {self._folder / quarters.LOG}")
            result = watching.result()
        except asyncio.CancelledError:
            if not await _stopped(jobs, incident, caller):
                return Result.unbegun(self._name)
            done, _ = await asyncio.wait({watching}, timeout=UNDO_S)
            result = watching.result() if done else Result.unbegun(self._name)
        finally:
            watching.cancel()
        self._current.unlink(missing_ok=True)  # whatever left before this may go on: the next run cancels it
        return result

    async def _watch(self, jobs: "Jobs", ask: "Ask", caller: "Caller") -> Result:
        begun = await jobs.open(ask, caller)
        async for stored in jobs.follow(begun.incident):
            self._tell(stored)
            if verdict := await jobs.verdict_after(stored):
                return Result(verdict, await jobs.diff(begun.incident) if verdict.verdict == "fixed" else b"")
        raise AssertionError("a live log has no end")

    async def _forget(self, jobs: "Jobs", caller: "Caller") -> None:
        """A job whose process was killed is on the log still, and would be taken up again."""
        left = self._current.read_text() if self._current.exists() else ""
        try:
            if left:
                await jobs.cancel(left, caller, "left over from a run that was killed")
        except (ContractError, NotFound):
            pass  # it had ended, or it had not begun

    @asynccontextmanager
    async def _rooms(self) -> "AsyncIterator[tuple[Jobs, list[asyncio.Task[None]]]]":
        from autopatch.chassis import main
        from autopatch.chassis.targets import FileTargets

        await main.prepare(self._common)
        made = [(blueprint, AsyncExitStack()) for blueprint in self._blueprints()]
        desk = AsyncExitStack()
        try:
            starts = [main.start(room, self._common, stack, targets=FileTargets(())) for room, stack in made]
            jobs, *running = await _together(self._jobs(desk), *starts)
            yield jobs, [room.task for room in running]
        finally:
            await asyncio.gather(*(stack.aclose() for stack in (desk, *(stack for _, stack in made))))

    async def _jobs(self, stack: AsyncExitStack) -> "Jobs":
        """The part of the gateway that opens jobs and tells their verdicts, without its door."""
        from autopatch.chassis import main, telemetry
        from autopatch.chassis.bus import connect
        from autopatch.chassis.clock import SystemClock
        from autopatch.chassis.targets import FileTargets
        from services.gateway.adapters.http.knowledge import KnowledgeDoor
        from services.gateway.adapters.repairs.jobs import Jobs
        from services.gateway.desk import Desk

        common = self._common
        bus = await connect(common.nats_url, "gateway", nkey_folder=common.nkey_folder, budget_s=common.publish_budget_s)
        stack.push_async_callback(bus.close)
        provider = telemetry.provider("gateway", common.otlp_endpoint)
        stack.push_async_callback(asyncio.to_thread, provider.shutdown)
        tracer = provider.get_tracer("autopatch")
        chassis = cast(Any, main.desk("gateway", bus, common, FileTargets(()), SystemClock(), tracer))
        return Jobs(chassis, Desk(chassis, KnowledgeDoor("", "")))

    def _blueprints(self) -> "list[Blueprint]":
        from autopatch.chassis.main import Blueprint

        llm = {"llm": load(LlmSettings, mode=self._mode)} if self._mode else {}
        given: dict[str, dict[str, Any]] = {
            "knowledge": {"folder": str(self._folder / "knowledge"), "embedder": "none", "runbooks": ""},
            "diagnosis": llm, "planner": llm, "executor": {"locks": str(self._folder / "locks")},
        }
        made = []
        for room in ROOMS:
            settings, service = (import_module(f"services.{room}.{part}") for part in ("settings", "service"))
            made.append(Blueprint(room, settings.Settings, service.build, given.get(room, {})))
        return made


async def _together(*starts: Awaitable[Any]) -> list[Any]:
    """All results; when one fails the others are stopped first."""
    tasks = [asyncio.ensure_future(start) for start in starts]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _stopped(jobs: "Jobs", incident: str, caller: "Caller") -> bool:
    """The job may be about to begin: it is looked for a little longer. False when it did not. One that has ended stays so."""
    for _ in range(OPENING_TRIES):
        with suppress(NotFound):
            with suppress(ContractError):
                await jobs.cancel(incident, caller, "stopped by a signal")
            return True
        await asyncio.sleep(OPENING_S)
    return False


def _why(rooms: "list[asyncio.Task[None]]") -> str:
    ended = next(task for task in rooms if task.done())
    error = None if ended.cancelled() else ended.exception()
    return f"the {ended.get_name()} room ended: {error or 'without a reason'}"


def _person() -> str:
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = ""
    return "".join(c for c in name.lower() if c.isascii() and (c.isalnum() or c in "._-")) or "operator"
