"""One child process that serves: started in a group of its own, waited for, ended by its own id, with its owner at the latest."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from autopatch.cli.lab.probes import Probe, is_free
from autopatch.contract.errors import Unavailable

PORT_TAKEN = ("address already in use", "bind: ", "cannot assign requested address")


class PortTaken(Unavailable):
    """Somebody else took the port between choosing and using it."""


class Server:
    """A program that serves until it is stopped; `log` gets its output.

    When the owner dies, in whatever way, the kernel terminates it: more exactly, when the thread that started it ends.
    """

    def __init__(
        self, name: str, command: Sequence[object], *, log: Path, ready: Probe, ports: Sequence[int] = (),
        cwd: Path | None = None, env: Mapping[str, str] | None = None, deadline_s: float = 20, stop_within_s: float = 8,
    ) -> None:
        self.name = name
        self.command = [str(part) for part in command]
        self.log = log
        self.ready = ready
        self.ports = ports
        self.cwd = cwd
        self.env = env
        self.deadline_s = deadline_s
        self.stop_within_s = stop_within_s
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Its process id; 0 when it does not run."""
        return self._child.pid if self._child and self._child.poll() is None else 0

    def spawn(self) -> None:
        """Start it without waiting. Raises PortTaken, Unavailable when the program cannot be run.

        The ports are looked at first: else whoever holds one of them could be taken for the server.
        """
        if taken := [port for port in self.ports if not is_free(port)]:
            raise PortTaken(self.name, f"port {taken[0]}: address already in use")
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output:
            try:
                self._child = subprocess.Popen(
                    [*self._tied(), *self.command], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                    cwd=self.cwd, env=self.env, start_new_session=True,
                )
            except OSError as error:
                raise Unavailable(self.name, f"cannot run {self.command[0]}: {error.strerror}") from error

    def wait_ready(self) -> None:
        """Returns when it answers. Raises PortTaken, or Unavailable with the tail of its log when it ended or is too slow."""
        deadline, lacks = time.monotonic() + self.deadline_s, "not asked yet"
        while time.monotonic() < deadline:
            self.check()
            if not (lacks := self.ready()):
                self.check()
                return
            time.sleep(0.05)
        self.stop()
        raise Unavailable(self.name, f"not ready after {self.deadline_s:.0f} s: {lacks}; {self.tail()}")

    def start(self) -> None:
        """Spawn and wait."""
        self.spawn()
        self.wait_ready()

    def check(self) -> None:
        """Raises PortTaken or Unavailable when it has ended."""
        if self._child is None:
            raise Unavailable(self.name, "was not started")
        if (code := self._child.poll()) is not None:
            tail = self.tail()
            kind = PortTaken if any(sign in tail.lower() for sign in PORT_TAKEN) else Unavailable
            raise kind(self.name, f"ended with exit code {code}; {tail}")

    def kill(self) -> None:
        """As a crash would: SIGKILL, at once."""
        if self.pid and self._child:
            self._child.kill()
            self._child.wait()

    def pause(self) -> None:
        """As a stopped machine would: SIGSTOP, until `resume`."""
        if self.pid:
            os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Undoes `pause`."""
        if self.pid:
            os.kill(self.pid, signal.SIGCONT)

    def stop(self) -> None:
        """Ask it to end, after `stop_within_s` make it. Safe to repeat."""
        if self._child is None:
            return
        if self._child.poll() is None:
            self._child.terminate()
            try:
                self._child.wait(self.stop_within_s)
            except subprocess.TimeoutExpired:
                self._child.kill()
        self._child.wait()

    def tail(self, lines: int = 8) -> str:
        """Where its log is, and its last lines."""
        with suppress(OSError):
            last = self.log.read_text(errors="replace").splitlines()[-lines:]
            return f"log {self.log} ends: " + " | ".join(line.strip() for line in last)
        return f"log {self.log} cannot be read"

    def _tied(self) -> list[str]:
        setpriv = shutil.which("setpriv")
        return [setpriv, "--pdeathsig", "TERM", "--"] if setpriv else []


def wait_until(ready: Probe, deadline_s: float, name: str) -> None:
    """Returns when the probe is content. Raises Unavailable with what it still lacks."""
    deadline = time.monotonic() + deadline_s
    while lacks := ready():
        if time.monotonic() > deadline:
            raise Unavailable(name, f"not ready after {deadline_s:.0f} s: {lacks}")
        time.sleep(0.05)


S = TypeVar("S", bound=Server)


def on_free_port(build: Callable[[], S], tries: int = 4) -> S:
    """Start what `build` makes with a newly chosen port; again with another one when somebody was quicker. Raises Unavailable."""
    while True:
        server = build()
        try:
            server.start()
            return server
        except PortTaken:
            tries -= 1
            if not tries:
                raise
