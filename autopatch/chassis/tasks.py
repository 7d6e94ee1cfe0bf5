"""Endless work that ends when it is told to."""

import asyncio
from collections.abc import Coroutine
from typing import Any

AGAIN_S = 1.0


async def surely(work: Coroutine[Any, Any, None]) -> None:
    """Runs it. A cancellation that a library swallowed on the way (asyncio.wait_for may) is repeated until the work has ended."""
    task = asyncio.create_task(work)
    try:
        await asyncio.wait([task])
    finally:
        while not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=AGAIN_S)
    task.result()
