"""Outlines of many files, made by a process of its own: text that was written to harm a parser ends that process, not ours."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence

import structlog

from autopatch.chassis.outline import Definition

log = structlog.get_logger("outline")

MEMORY = 1 << 30
CPU_S = 3  # for one file; source code takes a hundredth of one
MOST_ENDS = 5
_PROGRAM = "import sys; from autopatch.chassis.outline import serve; serve(*map(int, sys.argv[1:]))"


def outlines(files: Sequence[tuple[str, bytes]]) -> list[tuple[Definition, ...]]:
    """Of each (path, content), in their order; empty for a file that needs over MEMORY bytes or CPU_S seconds. Blocks.

    After MOST_ENDS such files all others are empty too: whoever wrote them meant it.
    """
    found: list[tuple[Definition, ...]] = []
    for _ in range(MOST_ENDS):
        found += _made(files[len(found) :])
        if len(found) >= len(files):
            return found
        log.warning("a file has no outline: its parser was ended", path=files[len(found)][0])
        found.append(())
    return found + [()] * (len(files) - len(found))


def _made(files: Sequence[tuple[str, bytes]]) -> Iterator[tuple[Definition, ...]]:
    sent = b"".join(part for path, data in files for part in (json.dumps((path, len(data))).encode(), b"\n", data))
    command = [sys.executable, "-c", _PROGRAM, str(MEMORY), str(CPU_S)]
    done = subprocess.run(command, input=sent, capture_output=True, check=False)  # noqa: S603
    for line in done.stdout.splitlines(keepends=True):
        if line.endswith(b"\n"):
            yield tuple(Definition(*entry) for entry in json.loads(line))
