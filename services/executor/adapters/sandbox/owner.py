"""Labels that say whose a container or volume is, and the removal of those whose owner or time is over."""

import asyncio
import os
import socket
import time
from collections.abc import Callable

import structlog
from docker import DockerClient
from docker.errors import APIError, NotFound

from autopatch.contract.errors import Unavailable
from services.executor.adapters.runtimes.engine import Engine
from services.executor.adapters.runtimes.process import start_ticks

RUN = "org.autopatch.run"
OWNER = "org.autopatch.owner"
EXPIRES = "org.autopatch.expires"
log = structlog.get_logger("executor")


def myself() -> str:
    """This process: machine, process id, and start time so that a later process with the same id is another."""
    return f"{socket.gethostname()}/{os.getpid()}/{start_ticks(os.getpid())}"


async def reap(engine: Engine) -> int:
    """Removes what dead executors of this machine left and what has expired; says how many runs that were. Raises Unavailable."""
    return await engine.do(lambda client: _reap(client, _is_dead))


async def reaping(engine: Engine, every_s: float = 60) -> None:
    """The background loop: what could not be removed in its time is, once it has expired."""
    while True:
        await asyncio.sleep(every_s)
        try:
            if runs := await engine.do(lambda client: _reap(client, _has_expired)):
                log.info("expired runs of the sandbox removed", runs=runs)
        except (Unavailable, APIError) as error:
            log.debug("nothing was reaped", reason=str(error))


def remove(client: DockerClient, name: str) -> None:
    """Container and volume of a run, whatever their state. What the engine does not remove is told, and reaped later."""
    for drop in (client.api.remove_container, client.api.remove_volume):
        try:
            drop(name, force=True)
        except NotFound:
            pass
        except APIError as error:
            log.warning("not removed", run=name, reason=str(error.explanation or error))


def _reap(client: DockerClient, due: Callable[[dict[str, str]], bool]) -> int:
    found: dict[str, dict[str, str]] = {}
    for container in client.api.containers(all=True, filters={"label": RUN}):
        names = container.get("Names") or [container["Id"]]  # one that is dead often has no name
        found[names[0].lstrip("/")] = container["Labels"]
    for volume in client.api.volumes(filters={"label": RUN})["Volumes"] or []:
        found.setdefault(volume["Name"], volume["Labels"])
    names = [name for name, labels in found.items() if due(labels)]
    for name in names:
        remove(client, name)
    return len(names)


def _has_expired(labels: dict[str, str]) -> bool:
    expires = labels.get(EXPIRES, "")
    return expires.isdecimal() and time.time() > int(expires)


def _is_dead(labels: dict[str, str]) -> bool:
    try:
        machine, pid, ticks = labels[OWNER].split("/")
        here = machine == socket.gethostname()
        return time.time() > int(labels[EXPIRES]) or (here and start_ticks(int(pid)) != int(ticks))
    except (KeyError, ValueError):
        return True
