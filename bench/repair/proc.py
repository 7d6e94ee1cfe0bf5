"""Run a program to its end or to its limit, and leave nothing of it behind."""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_KEPT = 200_000


@dataclass(frozen=True)
class Ran:
    """`code` is None when it was stopped at its limit. Texts are what was printed, at most the last 200 kB."""

    code: int | None
    stdout: str
    stderr: str
    seconds: float


def run(
    command: Sequence[str], folder: Path, env: Mapping[str, str], limit_s: float, stdin: bytes = b"",
    linger_s: float = 0, grace_s: float = 0,
) -> Ran:
    """The program in a session of its own; at the limit the whole session is killed. Raises OSError when it cannot start.

    Not counted: `linger_s` for what it left running in the background when it ended by itself, and `grace_s` between an
    interrupt at the limit and the kill.
    """
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin)
        given.seek(0)
        began = time.monotonic()
        child = subprocess.Popen(
            list(command), cwd=folder, env=dict(env), stdin=given, stdout=out, stderr=err, start_new_session=True
        )
        try:
            code = _ended(child, limit_s)
            seconds = time.monotonic() - began
            if code is None and grace_s:
                os.killpg(child.pid, signal.SIGINT)
                _ended(child, grace_s)
            _linger(child.pid, linger_s if code is not None else 0)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        return Ran(code, _text(out), _text(err), seconds)


def _ended(child: "subprocess.Popen[bytes]", limit_s: float) -> int | None:
    try:
        return child.wait(limit_s)
    except subprocess.TimeoutExpired:
        return None


def _linger(group: int, limit_s: float) -> None:
    until = time.monotonic() + limit_s
    with suppress(ProcessLookupError):
        while time.monotonic() < until:
            os.killpg(group, 0)
            time.sleep(0.1)


def _text(file: IO[bytes]) -> str:
    file.seek(0, os.SEEK_END)
    file.seek(max(0, file.tell() - _KEPT))
    return file.read().decode("utf-8", "replace")
