"""One command in one sealed container: made, watched, killed when it is too slow or no longer wanted, and removed."""

import asyncio
import threading
import time
import uuid
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

import requests
import structlog
from docker import DockerClient
from docker.errors import APIError, ImageNotFound
from docker.utils.socket import STDERR, frames_iter

from autopatch.contract.errors import Unavailable
from services.executor.adapters.runtimes.engine import Engine
from services.executor.adapters.sandbox.job import Job, Outcome
from services.executor.adapters.sandbox.limits import GO, READY, WORK, Limits, archive, container_options, volume_options
from services.executor.adapters.sandbox.output import Capped
from services.executor.adapters.sandbox.owner import EXPIRES, OWNER, RUN, myself, remove

IDLE_S = 90.0
"""So long a container that was begun may wait for the files of its job."""
_GRACE_S = 15
"""Beyond a command's own limit, the outer watchdog allows this for start and end of its container."""
log = structlog.get_logger("executor")


@dataclass
class Begun:
    """A container that has been started."""

    name: str
    runtime: str
    stdout: Capped
    stderr: Capped
    attached: threading.Event = field(default_factory=threading.Event)
    reading: "asyncio.Future[None] | None" = None


class DockerSandbox:
    """At most `slots` runs at a time. Uses gVisor (runsc) where the engine has it, unless another runtime is asked for."""

    def __init__(self, engine: Engine, limits: Limits | None = None, *, slots: int = 2, runtime: str = "") -> None:
        self._engine = engine
        self._limits = limits or Limits()
        self.slots = asyncio.Semaphore(slots)
        self._wanted = runtime

    async def run(self, job: Job) -> Outcome:
        """Raises Unavailable without engine or image. When cancelled, the container is killed before the cancellation goes on."""
        async with self.slots:
            return await self.finish(await self.begin(job), job)

    async def begin(self, job: Job) -> Begun:
        """Starts a container; when the job has a base, it waits with that inside for the job's other files."""
        runtime = self._wanted or await self._engine.do(_best_runtime)
        streams = Capped(self._limits.output), Capped(self._limits.output)
        begun = Begun(f"autopatch-run-{uuid.uuid4().hex[:12]}", runtime, *streams)
        async with AsyncExitStack() as undo:
            undo.push_async_callback(lambda: asyncio.shield(asyncio.ensure_future(self.drop(begun))))
            try:
                await self._create(begun, job)
                patience_s = job.timeout_s + IDLE_S + 4 * _GRACE_S
                begun.reading = asyncio.ensure_future(self._engine.do(lambda client: _read(client, begun), timeout_s=patience_s))
                await self._engine.surely(lambda client: _start(client, begun, job))
            except APIError as error:
                raise Unavailable("docker", f"the sandbox could not be run: {error.explanation or error}") from error
            undo.pop_all()
        return begun

    def options(self, limits: Limits, name: str, runtime: str, job: Job) -> tuple[dict[str, Any], dict[str, str]]:
        """Of the container and of its volume: every guard there is."""
        return container_options(limits, name, runtime, job), volume_options(limits)

    async def _create(self, run: Begun, job: Job) -> None:
        labels = {RUN: run.name, OWNER: myself(), EXPIRES: str(int(time.time() + job.timeout_s + IDLE_S + 2 * _GRACE_S))}
        limits = self._limits.for_job(job)
        options, volume = self.options(limits, run.name, run.runtime, job)

        def create(client: DockerClient) -> None:
            client.images.get(job.image)
            client.volumes.create(run.name, driver="local", driver_opts=volume, labels=labels)
            client.containers.create(job.image, name=run.name, labels=labels, **options)

        try:
            await self._engine.surely(create)
        except ImageNotFound:
            tip = "infra/images/build.sh makes the images"
            raise Unavailable("docker", f"image {job.image} is not on the engine", tip=tip) from None
        except APIError as error:
            raise Unavailable("docker", f"the sandbox could not be made: {error.explanation or error}") from error

    async def finish(self, begun: Begun, job: Job) -> Outcome:
        """Waits for the end of what was begun, and removes it, also when it is cancelled meanwhile. Raises Unavailable."""
        try:
            return await self._watched(begun, job)
        finally:
            await asyncio.shield(asyncio.ensure_future(self.drop(begun)))

    async def _watched(self, run: Begun, job: Job) -> Outcome:
        """Runs until the command ends; the outer watchdog kills what the inner limit did not end."""
        late = False
        begun = time.monotonic()
        try:
            if job.base:
                rest = archive({**job.files, READY: b""})
                await self._engine.surely(lambda client: client.api.put_archive(run.name, WORK, rest))
            async with asyncio.timeout(job.timeout_s + _GRACE_S):
                state = await self._engine.do(lambda client: _end(client, run), timeout_s=job.timeout_s + 2 * _GRACE_S)
        except TimeoutError:
            late = True
            with suppress(APIError):
                await self._engine.do(lambda client: client.api.kill(run.name))
            state = await self._engine.do(lambda client: _end(client, run))
        except APIError as error:
            raise Unavailable("docker", f"the sandbox could not be run: {error.explanation or error}") from error
        if run.reading:
            await asyncio.wait([run.reading], timeout=5)
        seconds = time.monotonic() - begun
        code, why = _verdict(state, seconds, job.timeout_s, late)
        return Outcome(code, run.stdout.text(), run.stderr.text(), seconds, run.runtime, why)

    async def waits(self, begun: Begun) -> bool:
        """Is it still there?"""
        def running(client: DockerClient) -> bool:
            with suppress(APIError):
                return bool(client.api.inspect_container(begun.name)["State"]["Running"])
            return False

        return await self._engine.do(running)

    async def drop(self, run: Begun) -> None:
        """Kills and removes it, whatever its state; its stream ends when it does. What could not be removed is reaped later."""
        try:
            await self._engine.do(lambda client: remove(client, run.name))
        except Unavailable as error:
            log.warning("not removed", run=run.name, reason=error.reason)
        if run.reading:
            await asyncio.wait([run.reading], timeout=5)


def _best_runtime(client: DockerClient) -> str:
    return "runsc" if "runsc" in (client.info().get("Runtimes") or {}) else "runc"


def _start(client: DockerClient, run: Begun, job: Job) -> None:
    if not run.attached.wait(_GRACE_S):
        raise Unavailable("docker", "the sandbox's output cannot be read")
    client.api.start(run.name)
    client.api.put_archive(run.name, WORK, archive({**(job.base or job.files), GO: b""}))


def _end(client: DockerClient, run: Begun) -> dict[str, Any]:
    with suppress(requests.ReadTimeout):
        client.api.wait(run.name)
    state: dict[str, Any] = client.api.inspect_container(run.name)["State"]
    return state


def _read(client: DockerClient, run: Begun) -> None:
    """Attached before the start, so that nothing is missed; reads to the end, however much it is."""
    stream = client.api.attach_socket(run.name, params={"stdout": 1, "stderr": 1, "stream": 1})
    try:
        run.attached.set()
        for number, chunk in frames_iter(stream, tty=False):  # type: ignore[no-untyped-call]
            (run.stderr if number == STDERR else run.stdout).add(chunk)
    finally:
        stream._response.close()
        stream.close()


def _verdict(state: dict[str, Any], seconds: float, timeout_s: float, late: bool) -> tuple[int | None, str]:
    code = int(state.get("ExitCode", -1))
    if state.get("OOMKilled"):
        return None, "it took more memory than it may"
    if late or (code in (124, 137) and seconds >= timeout_s - 0.5):
        return None, f"it took longer than {timeout_s:g} s"
    if state.get("Error"):
        return None, f"it could not be started: {state['Error']}"
    return code, ""
