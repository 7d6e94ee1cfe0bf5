"""What the steps share: saying what is done and how long it takes, commands with a log, stamps, doing two things at once."""

import hashlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache"
LOGS = CACHE / "setup"


class Failed(Exception):
    """A step could not be done; the message says why and what to do. Exit code 2: it is for a person to do."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Report:
    """Lines on standard error with the seconds since the start."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._lock = threading.Lock()

    def say(self, step: str, text: str) -> None:
        """One line."""
        with self._lock:
            print(f"[{time.monotonic() - self._start:6.1f} s] {step}: {text}", file=sys.stderr, flush=True)

    @contextmanager
    def doing(self, step: str, text: str) -> Iterator[None]:
        """Says what begins, and when it is done how long it took."""
        self.say(step, text)
        begun = time.monotonic()
        yield
        self.say(step, f"done in {time.monotonic() - begun:.0f} s")


def run(step: str, command: Sequence[str | Path], env: Mapping[str, str] | None = None) -> str:
    """Standard output of the command; all it says goes to the step's log. Raises Failed with the end of that log."""
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{step}.log"
    with log.open("ab") as errors:
        errors.write(f"\n$ {' '.join(map(str, command))}\n".encode())
        errors.flush()
        try:
            done = subprocess.run(
                list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, cwd=ROOT, env=env,
                check=False,
            )
        except OSError as error:
            raise Failed(f"{step}: cannot run {command[0]}: {error.strerror}") from error
        errors.write(done.stdout)
    if done.returncode:
        last = [line for line in log.read_text(errors="replace").splitlines() if line.strip()][-6:]
        told = f"{step}: `{' '.join(map(str, command))}` failed with exit code {done.returncode}; the end of {log}:"
        raise Failed("\n  ".join((told, *last)))
    return done.stdout.decode(errors="replace")


class Stamp:
    """Remembers that a step was done with these inputs: files (their content) and texts."""

    def __init__(self, name: str, *inputs: Path | str) -> None:
        self._file = CACHE / "stamps" / name
        mixed = hashlib.sha256()
        for each in inputs:
            mixed.update(each.read_bytes() if isinstance(each, Path) else each.encode())
            mixed.update(b"\0")
        self._digest = mixed.hexdigest()

    @property
    def fresh(self) -> bool:
        """Was it done with the same inputs?"""
        return self._file.exists() and self._file.read_text() == self._digest

    def set(self) -> None:
        """It is done."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(self._digest)


def together(*jobs: Callable[[], object]) -> None:
    """Runs the jobs at the same time; when all have ended, raises the first failure in their order."""
    failures: dict[int, Failed] = {}

    def guarded(number: int, job: Callable[[], object]) -> None:
        try:
            job()
        except Failed as failure:
            failures[number] = failure

    threads = [threading.Thread(target=guarded, args=item) for item in enumerate(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[min(failures)]
