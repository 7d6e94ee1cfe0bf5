"""A lab in a process of its own, as its starter sees it."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from autopatch.cli import locks
from autopatch.cli.lab import docker
from autopatch.cli.lab.lab import LOCK, Places, empty
from autopatch.cli.lab.programs import ROOT
from autopatch.contract.errors import Unavailable

BASE = ROOT / ".autopatch"
"""Where labs keep their files."""
STOP_S = 40


class Hosted:
    """Start it, give commands, stop it. When this process dies the lab ends by itself, unless `keep` was said."""

    def __init__(self, *, autonomy: str = "auto", model: str = "", base: Path = BASE) -> None:
        options = ["--state", str(base), "--autonomy", autonomy, "--model", model]
        self._command = [sys.executable, "-m", "autopatch.cli.lab", *options]
        self._base = base
        self._child: subprocess.Popen[str] | None = None
        self._said: queue.Queue[dict[str, Any]] = queue.Queue()
        self.log = base / "lab-host.log"
        self.places = Places("", str(base))
        """As far as they are known."""

    def start(self, progress: Callable[[str, str, float], None], deadline_s: float = 180) -> Places:
        """Returns when all of it is ready. Raises Unavailable with what failed."""
        self._base.mkdir(parents=True, exist_ok=True)
        with self.log.open("w") as errors:
            self._child = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT,
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, args=(self._child,), daemon=True)
        self._reader.start()
        deadline = time.monotonic() + deadline_s
        while True:
            said = self._next(deadline - time.monotonic())
            match said:
                case {"folder": folder, "lab": lab}:
                    self.places = Places(lab, folder)
                case {"step": what, "where": where, "seconds": seconds}:
                    if what == "docker":
                        self.places.engine = where
                    progress(what, where, seconds)
                case {"ready": places}:
                    self.places = Places(**places)
                    return self.places

    @property
    def folder(self) -> Path:
        """Of its files."""
        return Path(self.places.folder)

    def tell(self, command: str, within_s: float = 60) -> None:
        """Give a command and wait until it is done. Raises Unavailable."""
        assert self._child and self._child.stdin
        try:
            self._child.stdin.write(command + "\n")
            self._child.stdin.flush()
        except OSError:
            self.check()
            raise Unavailable("lab", "its process ended") from None
        deadline = time.monotonic() + within_s
        while self._next(deadline - time.monotonic()).get("done") != command:
            pass

    def check(self) -> None:
        """Raises Unavailable when something in the lab failed."""
        with suppress(queue.Empty):
            while True:
                self._judge(self._said.get_nowait())

    def keep(self) -> None:
        """Leave it running when we go."""
        self.tell("keep")
        self._child = None

    def stop(self) -> None:
        """End it and wait until nothing is left. Safe to repeat. Raises Unavailable when it does not end."""
        if self._child is None:
            return
        if self._child.stdin:
            with suppress(OSError):
                self._child.stdin.close()
        with suppress(ProcessLookupError):
            self._child.terminate()
        try:
            self._child.wait(STOP_S)
        except subprocess.TimeoutExpired:
            raise Unavailable("lab", f"process {self._child.pid} does not end; its files are in {self.folder}") from None
        self._reader.join()
        self._child = None

    def discard(self) -> None:
        """Remove its files, which nobody needs who watched it end well. Not those of a lab that has begun there since."""
        if self._child is None and self.folder != self._base:
            with locks.held(self.folder / LOCK) as ours:
                if ours:
                    empty(self.folder)

    def _next(self, within_s: float) -> dict[str, Any]:
        try:
            return self._judge(self._said.get(timeout=max(within_s, 0.01)))
        except queue.Empty:
            raise Unavailable("lab", f"took too long; its files are in {self.folder}") from None

    def _judge(self, said: dict[str, Any]) -> dict[str, Any]:
        if "failed" in said:
            service, _, reason = said["failed"].partition(": ")
            raise Unavailable(service, reason or "failed", tip=said.get("tip", ""))
        return said

    def _read(self, child: "subprocess.Popen[str]") -> None:
        assert child.stdout
        with child.stdout:
            for line in child.stdout:
                with suppress(ValueError):
                    self._said.put(json.loads(line))
        child.wait()
        self._said.put({"failed": f"lab: its process ended with exit code {child.returncode}, see {self.log}"})


def left(places: Places) -> list[str]:
    """What a lab that has ended left: processes, containers, a private engine that nobody uses. Raises Unavailable."""
    running = [f"{name} (process {pid})" for name, pid in places.pids.items() if Path(f"/proc/{pid}").exists()]
    return running + docker.left(places.engine, places.lab)


def kept(base: Path = BASE) -> list[tuple[Places, int]]:
    """Labs that run, and the process that holds each."""
    found = []
    for record in sorted(base.glob("lab-*/lab.json")):
        with suppress(OSError, ValueError, KeyError, TypeError):
            told = json.loads(record.read_text())
            pid = int(told.pop("pid"))
            if b"autopatch.cli.lab" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append((Places(**told), pid))
    return found


def end(pid: int) -> None:
    """Terminate the process that holds a lab and wait. Raises Unavailable when it does not end."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_S
    while Path(f"/proc/{pid}").exists():
        if time.monotonic() > deadline:
            raise Unavailable("lab", f"process {pid} does not end")
        time.sleep(0.1)
