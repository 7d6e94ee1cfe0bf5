"""Containers that wait, already warm, for a job like the last one: a short run takes 0.25 s there, 0.75 s in a new one."""

import asyncio
from contextlib import suppress

import structlog

from autopatch.contract.errors import AutoPatchError
from services.executor.adapters.sandbox.container import IDLE_S, Begun, DockerSandbox
from services.executor.adapters.sandbox.job import Job, Outcome

LONGEST_S = 900.0
"""A spare does not know yet how long its job may take."""
Waiting = asyncio.Task[Begun]
log = structlog.get_logger("executor")


class WarmSandbox:
    """A sandbox that keeps at most `kept` containers begun. Each is used once."""

    def __init__(self, sandbox: DockerSandbox, kept: int) -> None:
        self._sandbox, self._kept = sandbox, kept
        self._waiting: dict[Job, Waiting] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    async def run(self, job: Job) -> Outcome:
        """As DockerSandbox does it. The next one is begun meanwhile; a cancelled run takes it along. Raises Unavailable."""
        async with self._sandbox.slots:
            begun = await self._taken(job) or await self._sandbox.begin(job)
            if job.base and self._kept:
                self._prepare(_kind(job))
            finishing = asyncio.ensure_future(self._sandbox.finish(begun, job))
            try:
                await asyncio.wait({finishing})
            except asyncio.CancelledError:
                finishing.cancel()
                spare = self._waiting.pop(_kind(job), None)
                gone = [finishing, *([self._leave(spare)] if spare else [])]
                await asyncio.shield(asyncio.gather(*gone, return_exceptions=True))
                raise
            return finishing.result()

    async def close(self) -> None:
        """Removes what waits."""
        while self._waiting:
            self._leave(self._waiting.popitem()[1])
        await asyncio.gather(*self._leaving)

    async def _taken(self, job: Job) -> Begun | None:
        """One for such a job, waited for while it is being begun."""
        task = self._waiting.pop(_kind(job), None)
        if task is None:
            return None
        try:
            begun = await asyncio.shield(task)
            if await self._sandbox.waits(begun):
                return begun
        except asyncio.CancelledError:
            self._leave(task)
            raise
        except AutoPatchError as error:
            log.warning("no container waits", reason=str(error))
        self._leave(task)
        return None

    def _prepare(self, kind: Job) -> None:
        """The oldest has to go for it."""
        if kind in self._waiting:
            return
        while len(self._waiting) >= self._kept:
            self._leave(self._waiting.pop(next(iter(self._waiting))))
        task = asyncio.ensure_future(self._sandbox.begin(kind))
        self._waiting[kind] = task
        asyncio.get_running_loop().call_later(IDLE_S, self._expire, kind, task)

    def _expire(self, kind: Job, task: Waiting) -> None:
        if self._waiting.get(kind) is task:
            self._leave(self._waiting.pop(kind))

    def _leave(self, task: Waiting) -> asyncio.Task[None]:
        async def leave() -> None:
            task.cancel()  # what is being begun removes itself
            with suppress(AutoPatchError, asyncio.CancelledError):
                await self._sandbox.drop(await task)

        leaving = asyncio.ensure_future(leave())
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)
        return leaving


def _kind(job: Job) -> Job:
    """What two jobs must share for the same container to do."""
    size, count = job.more_bytes, job.more_files
    return Job(job.image, job.command, LONGEST_S, base=job.base, first=job.first, more_bytes=size, more_files=count)
