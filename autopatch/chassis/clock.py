"""Time as an argument, so that rooms never read it by themselves."""

import asyncio
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What time is it, and wake me later."""

    def now(self) -> datetime:
        """The current time, with its zone."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The machine's."""

    def now(self) -> datetime:
        """UTC."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """asyncio's."""
        await asyncio.sleep(seconds)
