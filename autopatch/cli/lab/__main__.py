"""`python -m autopatch.cli.lab`: the process that holds a lab for whoever started it.

It prints JSON lines: {"step", "where", "seconds"} while it starts, {"ready": places}, {"done": command}, {"failed", "tip"}.
It reads commands, a line each: `fault pool`, `fault release`, `fault code`, `heal`, `keep`. When its input ends, so does the
lab (unless it was told `keep`), so that nothing outlives a starter that was killed. SIGTERM ends it too.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from autopatch.cli.lab.lab import Lab, claim
from autopatch.cli.lab.payments import CALM
from autopatch.contract.errors import AutoPatchError


def say(**what: Any) -> None:
    """One JSON line to whoever started us; nobody listens any more once the lab is kept."""
    try:
        print(json.dumps(what), flush=True)
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - for the rest of this process


class Host:
    """Serves commands until the end."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._stop = asyncio.Event()
        self._kept = False

    async def run(self) -> int:
        """Exit code 0 when it was told to end, 1 when something in the lab failed."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        reader = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        ending = asyncio.create_task(self._stop.wait())
        serving = asyncio.create_task(self._serve(reader))
        try:
            await asyncio.wait([ending, serving], return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()
        except AutoPatchError as error:
            say(failed=str(error.args[0]), tip=error.tip)
            return 1
        finally:
            for task in (serving, ending):
                task.cancel()
            await asyncio.gather(serving, ending, return_exceptions=True)
            await self._lab.stop()
        return 0

    async def _serve(self, reader: asyncio.StreamReader) -> None:
        starting = asyncio.create_task(self._lab.__aenter__())
        listening = asyncio.create_task(self._listen(reader, starting))
        try:
            await asyncio.wait([starting, listening], return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                return
            starting.result()
            self._record()
            say(ready=asdict(self._lab.places))
            while not listening.done():
                await asyncio.wait([listening], timeout=1)
                self._lab.check()
            listening.result()
        finally:
            for task in (starting, listening):
                task.cancel()
            await asyncio.gather(starting, listening, return_exceptions=True)

    async def _listen(self, reader: asyncio.StreamReader, starting: asyncio.Task[Lab]) -> None:
        """Returns when the input ends."""
        while line := (await reader.readline()).decode().strip():
            await starting
            if line == "keep":
                self._kept = True
            else:
                await asyncio.to_thread(self._obey, line)
            say(done=line)
        if self._kept:
            await self._stop.wait()

    def _obey(self, command: str) -> None:
        payments = self._lab.payments
        match command:
            case "fault pool":
                payments.exhaust_pool()
            case "fault release":
                payments.release_bad()
            case "fault code":
                payments.release_raising()
            case "heal":
                payments.load(CALM)
                payments.restore()
            case _:
                raise AutoPatchError(f"no such command: {command}")

    def _record(self) -> None:
        record = self._lab.folder / "lab.json"
        record.touch(mode=0o600)  # a token is in it
        record.write_text(json.dumps({"pid": os.getpid(), **asdict(self._lab.places)}, indent=2))


def main() -> int:
    """The process."""
    parser = argparse.ArgumentParser(prog="lab", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--autonomy", default="auto")
    parser.add_argument("--model", default="")
    options = parser.parse_args()
    folder, _ = claim(options.state)
    lab = Lab(
        folder, autonomy=options.autonomy, mode=options.model,
        say=lambda what, where, seconds: say(step=what, where=where, seconds=round(seconds, 2)),
    )
    say(folder=str(folder), lab=lab.places.lab)
    return asyncio.run(Host(lab).run())


if __name__ == "__main__":
    sys.exit(main())
