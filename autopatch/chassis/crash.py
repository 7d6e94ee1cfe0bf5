"""Named points at which a test may kill the process, to prove that nothing is lost between any two lines."""

from collections.abc import Awaitable, Callable

Crash = Callable[[str], Awaitable[None]]

POINTS = (
    "received", "loaded", "asking", "decided", "before_append", "after_append", "before_ack", "after_ack", "before_put",
    "after_put",
)
"""A message came; its incident was read; the handler is about to be asked; it decided; around the append; around the
acknowledgement; around a write to a target's record."""


async def no_crash(_: str) -> None:
    """What runs in production: nothing."""
