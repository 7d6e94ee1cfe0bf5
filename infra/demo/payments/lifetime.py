"""When a process ends: on SIGTERM or SIGINT, and on demand with the process that started it, even a killed one."""

import asyncio
import os
import signal
import sys


def stop_event(*, end_with_parent: bool) -> asyncio.Event:
    """Is set when it is time to go. `end_with_parent` watches standard input: a pipe whose other end the parent holds."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if end_with_parent:

        def parent_is_gone() -> None:
            if not os.read(sys.stdin.fileno(), 1024):
                loop.remove_reader(sys.stdin.fileno())
                stop.set()

        loop.add_reader(sys.stdin.fileno(), parent_is_gone)
    return stop
