"""One thread for blocking calls, one at a time, so that neither the event loop nor the engine meets two at once."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Worker:
    """Calls run in the order in which they come. A cancelled caller leaves; the call itself ends."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self.closed = False

    async def run(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """The call's result, or what it raises."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, partial(call, *args, **kwargs))

    def close(self) -> None:
        """Waits for the call that is running."""
        self.closed = True
        self._pool.shutdown(wait=True, cancel_futures=True)
