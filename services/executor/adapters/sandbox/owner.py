"""Labels that say whose a container or volume is, and the removal of those whose owner is dead."""

import os
import socket
import time
from contextlib import suppress

from docker import DockerClient
from docker.errors import APIError

from services.executor.adapters.runtimes.engine import Engine
from services.executor.adapters.runtimes.process import start_ticks

RUN = "org.autopatch.run"
OWNER = "org.autopatch.owner"
EXPIRES = "org.autopatch.expires"


def myself() -> str:
    """This process: machine, process id, and start time so that a later process with the same id is another."""
    return f"{socket.gethostname()}/{os.getpid()}/{start_ticks(os.getpid())}"


async def reap(engine: Engine) -> int:
    """Removes what dead executors of this machine left and what has expired; says how many runs that were. Raises Unavailable."""
    return await engine.do(_reap)


def _reap(client: DockerClient) -> int:
    found: dict[str, dict[str, str]] = {}
    for container in client.api.containers(all=True, filters={"label": RUN}):
        found[container["Names"][0].lstrip("/")] = container["Labels"]
    for volume in client.api.volumes(filters={"label": RUN})["Volumes"] or []:
        found.setdefault(volume["Name"], volume["Labels"])
    dead = [name for name, labels in found.items() if _is_dead(labels)]
    for name in dead:
        for drop in (client.api.remove_container, client.api.remove_volume):
            with suppress(APIError):
                drop(name, force=True)
    return len(dead)


def _is_dead(labels: dict[str, str]) -> bool:
    try:
        machine, pid, ticks = labels[OWNER].split("/")
        expires = int(labels[EXPIRES])
        here = machine == socket.gethostname()
        return time.time() > expires or (here and start_ticks(int(pid)) != int(ticks))
    except (KeyError, ValueError):
        return True
