"""One room in a process of its own that kills itself at a named point: `python -m tests.flow.victim FOLDER ROOM`.

What to do is in FOLDER/victim.json: the room's settings, the common ones, and where to die. Each death is a line in
FOLDER/deaths.
"""

import asyncio
import json
import os
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from autopatch.chassis import logs
from autopatch.chassis.main import start
from autopatch.chassis.runner import Runner
from autopatch.chassis.settings import Common
from tests.flow.hands import ScriptedHands, rehearsed_green
from tests.flow.harness import blueprint
from tests.flow.sandbox import ScriptedSandbox


class Death:
    """Kills this process with SIGKILL when it passes the point for the first time. `armed` is a file: a restart lives."""

    def __init__(self, folder: Path, point: str) -> None:
        self._armed = folder / "armed"
        self._deaths = folder / "deaths"
        self._point = point

    def now(self, point: str) -> None:
        """Does not come back when this is the point."""
        if point != self._point or not self._armed.exists():
            return
        self._armed.unlink()
        with self._deaths.open("a") as file:
            file.write(f"{point}\n")
        os.kill(os.getpid(), signal.SIGKILL)

    async def at(self, point: str) -> None:
        """For the chassis."""
        self.now(point)


async def main(folder: Path, room: str) -> None:
    """Until killed."""
    order: dict[str, Any] = json.loads((folder / "victim.json").read_text())
    death = Death(folder, order["point"])
    common = Common(**order["common"])
    adapters: dict[str, Any] = {}
    if room == "executor":
        hands = ScriptedHands(folder / "journal", guarded=order["guarded"])
        adapters = {"hands": hands, "rehearse": rehearsed_green, "crash": lambda p: death.now(f"executor_{p}")}
    if not order["guarded"]:
        Runner._wanted = lambda *_: True  # type: ignore[method-assign]  # noqa: SLF001
    made = blueprint(room, {room: order["settings"]}, sandbox=ScriptedSandbox() if order["jobs"] else None, **adapters)
    async with AsyncExitStack() as stack:
        running = await start(made, common, stack, crash=death.at)
        (folder / "victim.url").write_text(running.url)
        await running.task


if __name__ == "__main__":
    logs.set_up("ERROR")
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
