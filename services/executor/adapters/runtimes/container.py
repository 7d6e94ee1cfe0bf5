"""A Docker container. A release is changed by recreating it, so that a crash at any point can be finished or taken back."""

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

from docker import DockerClient
from docker.errors import APIError, NotFound

from autopatch.contract.errors import AutoPatchError, OperatorError, Refused, StaleTarget
from autopatch.contract.plan import Precondition
from autopatch.contract.target import DockerRuntime
from services.executor.adapters.delivery.checks import demand, reload_by, wait_well
from services.executor.adapters.delivery.runtime import RuntimeState
from services.executor.adapters.runtimes.engine import Engine
from services.executor.adapters.runtimes.recreate import recreate
from services.executor.ports import Failed

Attrs = dict[str, Any]


class ContainerOfTarget:
    """While a release is changed the old container is kept as NAME-previous: as long as it is there the change has not ended."""

    def __init__(self, spec: DockerRuntime, engine: Engine, *, health: str, grace_s: float, patience_s: float) -> None:
        """`grace_s`: seconds from SIGTERM to SIGKILL; `patience_s`: seconds until well."""
        self._spec = spec
        self._engine = engine
        self._health = health
        self._grace_s = grace_s
        self._patience_s = patience_s
        self._kept = f"{spec.container}-previous"

    async def inspect(self) -> RuntimeState:
        """By name. Of a half-way change the old container's identity counts, for that is what the plan was made for."""
        now, kept = await self._engine.do(self._both)
        return replace(self._state(kept or now), running=_running(now), half_way=kept is not None)

    async def reload(self, precondition: Precondition) -> str:
        """By address or signal."""
        container = await self._demanded(precondition)

        async def send(name: str) -> None:
            await self._do(lambda client: client.api.kill(container["Id"], name), container, gone=StaleTarget)

        return await reload_by(self._spec, send)

    async def restart(self, precondition: Precondition) -> str:
        """The same container again, by its id."""
        container = await self._demanded(precondition)
        own_id = container["Id"]
        grace = round(self._grace_s)
        await self._do(lambda client: client.api.restart(own_id, timeout=grace), container, slow=True, gone=StaleTarget)
        return await self._well(own_id)

    async def run_release(self, release: str, precondition: Precondition) -> str:
        """Renames, creates, starts, waits until well, removes the old one; goes on where an interrupted call stopped."""
        now, kept = await self._engine.do(self._both)
        demand(precondition, self._state(kept or now))
        original = kept or now
        if original is None:
            raise Failed(f"there is no container {self._spec.container}")
        if kept and self._state(kept).release == release:
            return await self._restore(now, kept)
        if not kept and self._state(now).release == release:
            return await self._start(original, None)
        if now and kept and self._state(now).release != release:
            await self._remove(now)
            now = None
        if not kept:
            self._check_removable(original)
        new = now if kept and now else await self._do(lambda client: self._create(client, original, release), original, slow=True)
        return await self._start(new, original)

    async def logs(self, start: datetime, end: datetime, limit: int) -> Sequence[str]:
        """From the engine, by its own times."""

        def read(client: DockerClient) -> Sequence[str]:
            since, until = start.timestamp(), end.timestamp()
            stream = client.api.logs(self._spec.container, since=since, until=until, stream=True, follow=False)
            lines: deque[bytes] = deque(maxlen=limit)
            rest = b""
            for chunk in stream:
                *whole, rest = (rest + chunk).split(b"\n")
                lines.extend(whole)
                rest = rest[-65536:]
            lines.extend([rest] if rest else [])
            return tuple(line.decode(errors="replace").rstrip("\r") for line in lines)

        try:
            return await self._engine.do(read, timeout_s=15)
        except APIError as error:
            raise OperatorError(f"logs of {self._spec.container}: {error.explanation}") from error

    async def _demanded(self, precondition: Precondition) -> Attrs:
        now, kept = await self._engine.do(self._both)
        demand(precondition, self._state(kept or now))
        if now is None or kept:
            raise Failed(f"container {self._spec.container} is missing, or a change of its release has not ended")
        return now

    def _both(self, client: DockerClient) -> tuple[Attrs | None, Attrs | None]:
        found: list[Attrs | None] = []
        for name in (self._spec.container, self._kept):
            try:
                found.append(client.api.inspect_container(name))
            except NotFound:
                found.append(None)
        return found[0], found[1]

    def _create(self, client: DockerClient, original: Attrs, release: str) -> Attrs:
        image = f"{self._spec.image}:{release}"
        try:
            client.api.inspect_image(image)  # type: ignore[no-untyped-call]
        except NotFound:
            raise Failed(f"image {image} is not on the engine") from None
        if original["Name"].lstrip("/") != self._kept:
            client.api.rename(original["Id"], self._kept)
        return recreate(client, original, self._spec.container, image)

    async def _start(self, new: Attrs, old: Attrs | None) -> str:
        """Starting and stopping what is started or stopped already does nothing."""
        if old:
            await self._do(lambda client: client.api.stop(old["Id"], timeout=round(self._grace_s)), old, slow=True)
        await self._do(lambda client: client.api.start(new["Id"]), new)
        said = await self._well(new["Id"])
        if old:
            await self._remove(old)
        return said

    async def _restore(self, now: Attrs | None, kept: Attrs) -> str:
        if now:
            await self._remove(now)
        await self._do(lambda client: client.api.rename(kept["Id"], self._spec.container), kept)
        return await self._start(kept, None)

    async def _remove(self, container: Attrs) -> None:
        def remove(client: DockerClient) -> None:
            with suppress(NotFound):
                client.api.remove_container(container["Id"], force=True)

        await self._do(remove, container, slow=True)

    async def _well(self, container_id: str) -> str:
        async def look() -> RuntimeState:
            attrs = await self._do(lambda client: client.api.inspect_container(container_id), {"Id": container_id})
            return self._state(attrs)

        state = await wait_well(look, self._health, self._patience_s)
        return f"release {state.release} runs as {state.instance}"

    async def _do(self, work: Any, container: Attrs, *, slow: bool = False, gone: type[AutoPatchError] = Failed) -> Any:
        try:
            return await self._engine.do(work, timeout_s=self._grace_s + 60 if slow else None)
        except NotFound:
            raise gone(f"container {container['Id'][:12]} is gone") from None
        except APIError as error:
            raise Failed(f"{self._spec.container}: {error.explanation or error}") from error

    def _check_removable(self, original: Attrs) -> None:
        if original["HostConfig"].get("AutoRemove"):
            raise Refused(f"{self._spec.container} was started with --rm: no way back", tip="start it without --rm")

    def _state(self, attrs: Attrs | None) -> RuntimeState:
        if attrs is None:
            return RuntimeState(False)
        repository, _, tag = str(attrs["Config"]["Image"]).rpartition(":")
        started = str(attrs["State"]["StartedAt"])
        release, instance = tag if repository == self._spec.image else "", f"{attrs['Id'][:12]}@{started}"
        running = _running(attrs)
        unwell = bool(attrs["State"].get("Running")) and not running
        return RuntimeState(running, release, instance, _time(started), _time(attrs["Created"]), unwell=unwell)


def _running(attrs: Attrs | None) -> bool:
    """Running, and healthy where the image says how to tell."""
    state = attrs["State"] if attrs else {}
    health = (state.get("Health") or {}).get("Status", "healthy")
    return bool(state.get("Running")) and not state.get("Restarting") and health in ("healthy", "none")


def _time(text: str) -> datetime | None:
    """The engine writes nanoseconds, and year 1 for never."""
    at = datetime.fromisoformat(text[:26].rstrip("Z") + "+00:00")
    return at if at.year > 1 else None
