"""A bounded pool of database connections that can be resized while it is used. Waiters are served in order."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Generic, Protocol, TypeVar


class PoolTimeout(Exception):
    """No connection became free in time."""


class Connection(Protocol):
    """What the pool needs to know of a connection."""

    @property
    def usable(self) -> bool:
        """Can it take another query?"""

    def close(self) -> None:
        """Ends it at once."""


C = TypeVar("C", bound=Connection)


class Pool(Generic[C]):
    """At most `size` connections are in use at once; others wait, at most `timeout_s` seconds, then get PoolTimeout."""

    def __init__(self, connect: Callable[[], Awaitable[C]], size: int, timeout_s: float) -> None:
        self._connect = connect
        self._idle: deque[C] = deque()
        self._queue: deque[asyncio.Future[None]] = deque()
        self.size = size
        self.timeout_s = timeout_s
        self.in_use = 0

    @property
    def waiting(self) -> int:
        """Requests that wait for a connection now."""
        return sum(not turn.done() for turn in self._queue)

    @property
    def open(self) -> int:
        """Connections that are held, in use or idle."""
        return self.in_use + len(self._idle)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[C]:
        """One connection for the length of the block; one that is no longer usable afterwards is closed."""
        await self._take_place()
        held: C | None = None
        try:
            held = self._idle.pop() if self._idle else await self._connect()
            yield held
        finally:
            self._give_back(held)

    def resize(self, size: int, timeout_s: float) -> None:
        """In place: growing serves waiters at once, shrinking closes idle connections now and busy ones when they return."""
        self.size, self.timeout_s = size, timeout_s
        while self._idle and self.open > size:
            self._idle.pop().close()
        self._serve_queue()

    def close(self) -> None:
        """Closes the idle connections; those in use end with their requests."""
        self.size = 0
        while self._idle:
            self._idle.pop().close()

    async def _take_place(self) -> None:
        if self.in_use < self.size and not self.waiting:
            self.in_use += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            await asyncio.wait({turn}, timeout=self.timeout_s)
        except asyncio.CancelledError:
            self._abandon(turn)
            raise
        if not turn.done():
            self._abandon(turn)
            raise PoolTimeout

    def _abandon(self, turn: asyncio.Future[None]) -> None:
        """A waiter leaves; if its turn had come in the same moment the place goes to the next one."""
        if turn.done():
            self.in_use -= 1
            self._serve_queue()
        else:
            turn.cancel()

    def _give_back(self, held: C | None) -> None:
        self.in_use -= 1
        if held is not None:
            if held.usable and self.open < self.size:
                self._idle.append(held)
            else:
                held.close()
        self._serve_queue()

    def _serve_queue(self) -> None:
        while self._queue and (self._queue[0].done() or self.in_use < self.size):
            turn = self._queue.popleft()
            if not turn.done():
                self.in_use += 1
                turn.set_result(None)
