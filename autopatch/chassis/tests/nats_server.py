"""A real nats-server for tests: fsync on, a folder of its own, killed with its test."""

import asyncio
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path


def free_port() -> int:
    """One that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


class NatsServer:
    """Start, kill -9 and start again on the same port and store."""

    def __init__(self, folder: Path, extra: str = "") -> None:
        self.port = free_port()
        self.url = f"nats://127.0.0.1:{self.port}"
        beside = Path(sys.executable).parent / "nats-server"
        self._binary = str(beside) if beside.exists() else shutil.which("nats-server") or "nats-server"
        self._config = folder / "nats.conf"
        self._config.write_text(
            f'listen: "127.0.0.1:{self.port}"\njetstream {{ store_dir: "{folder}/store", sync_interval: always }}\n{extra}\n'
        )
        self._process: subprocess.Popen[bytes] | None = None
        self.deaths = 0

    def start(self) -> "NatsServer":
        """Returns when it accepts connections."""
        self._process = subprocess.Popen(
            [self._binary, "-c", str(self._config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 0.2):
                    return self
            except OSError:
                time.sleep(0.02)
        raise RuntimeError("nats-server did not start")

    def kill(self) -> None:
        """kill -9."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None
            self.deaths += 1


async def until(condition, timeout_s: float = 10) -> None:  # type: ignore[no-untyped-def]
    """Wait for an async condition to become true."""
    async with asyncio.timeout(timeout_s):
        while not await condition():
            await asyncio.sleep(0.05)
