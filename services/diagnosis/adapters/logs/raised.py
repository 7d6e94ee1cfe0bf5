"""Exceptions in the log whose traceback leads into the target's own source, of Python and of Node. Pure."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

from services.diagnosis.facts import Novelty, Raised

FOREIGN = {"site-packages", "dist-packages", "node_modules", ".."}
SHOWN, DEEPEST, LONGEST, FRAME = 3, 5, 4000, 500
MESSAGE_LINES = 40
"""An exception's message may have so many lines before its frames, which Node writes after it."""
_HEAD = "Traceback (most recent call last):"
_PYTHON_FRAME = re.compile(r'^\s+File "(?P<path>[^"]+)", line (?P<line>\d{1,7})(?!\d)(?:, in (?P<function>\S+))?')
_PYTHON_ERROR = re.compile(r"^[A-Za-z_][\w.<>]*(?::.*)?$")
_NODE_FRAME = re.compile(
    r"\sat (?:async )?(?:(?P<function>[^(]+) \()?(?:file://)?(?P<path>/[^:()]+):(?P<line>\d{1,7}):\d{1,7}\)?(?: \{)?$"
)
_NODE_PLACE = re.compile(r"(?::\d{1,7}:\d{1,7}|<anonymous>)\)?(?: \{)?$")
_NODE_ERROR = re.compile(r"\b\w*(?:Error|Exception)\b.*$")
Place = tuple[str, int, str, bool]
"""Path, line and function of the own frame nearest to where it was raised, and whether it was raised in foreign code."""


def raised(red: Sequence[str], calm: Sequence[str] | None, source: str, red_s: float, calm_s: float) -> tuple[Raised, ...]:
    """Those that are new or more frequent than in the calm window, the most frequent first; windows are so many seconds long.

    `source` is the folder that the source lies in where it runs; '' when that is not known, and then nothing is found. Without a
    calm window nobody knows what was raised before.
    """
    if not source:
        return ()
    now, before = list(_ends(red, source)), Counter(place for _, place in _ends(calm or (), source))
    told = {place: error for error, place in reversed(now)}
    found = [
        Raised(told[place], *place, count, None if calm is None else before[place],
               _novelty(count / max(red_s, 1), before[place] / max(calm_s, 1)))
        for place, count in Counter(place for _, place in now).most_common()
    ]
    return tuple(one for one in found if one.novelty != "steady")[:SHOWN]


def _novelty(often: float, before: float) -> Novelty:
    return "new" if not before else "grown" if often >= 3 * before else "steady"


def _ends(lines: Sequence[str], source: str) -> Iterator[tuple[str, Place]]:
    """Each exception with its place; of a log line that holds several, the last one."""
    python, node = _Python(source), _Node(source)
    for line in lines:
        found = None
        for text in _texts(line):
            found = python.end(text[:LONGEST]) or node.end(text[:LONGEST]) or found
        if found:
            yield found


def _texts(line: str) -> list[str]:
    """The line itself; of a JSON line the lines of its texts, also of one whose middle was left out."""
    if not line.startswith("{"):
        return [line]
    try:
        return [*_lines(json.loads(line), DEEPEST), ""]
    except (ValueError, RecursionError):
        return [*line.replace('\\"', '"').replace("\\n", "\n").splitlines(), ""] if "\\n" in line else [line]


def _lines(value: Any, deep: int) -> Iterator[str]:
    if isinstance(value, str):
        yield from value.splitlines()
    elif deep:
        for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from _lines(part, deep - 1)


class _Python:
    """Frames, innermost last, then the exception. All lines begin as the head does, or the head alone begins so."""

    def __init__(self, source: str) -> None:
        self._source, self._column = source, -1
        self._place: Place | None = None
        self._framed = False

    def end(self, text: str) -> tuple[str, Place] | None:
        """When the line ends a traceback with a frame of its own."""
        if (at := text.find(_HEAD)) >= 0:
            self._column, self._place, self._framed = at, None, False
        elif self._column >= 0:
            if not self._framed and not _PYTHON_FRAME.match(text[self._column :]):
                self._column = 0
            self._framed = True
            return self._line(text[self._column :])
        return None

    def _line(self, text: str) -> tuple[str, Place] | None:
        if text.startswith((" ", "\t")):
            if frame := _PYTHON_FRAME.match(text):
                own = _own(frame, self._source)
                self._place = (*own, False) if own else (*self._place[:3], True) if self._place else None
            return None
        place, self._column = self._place, -1
        return (text.strip(), place) if place and _PYTHON_ERROR.match(text) else None


class _Node:
    """The exception, then frames, innermost first."""

    def __init__(self, source: str) -> None:
        self._source, self._head, self._since, self._foreign = source, "", 0, False

    def end(self, text: str) -> tuple[str, Place] | None:
        """At the first frame of its own below an exception."""
        if len(text) <= FRAME and " at " in f" {text}" and _NODE_PLACE.search(text.rstrip()):
            return self._frame(f" {text.rstrip()}") if self._head else None
        self._since += 1
        if found := _NODE_ERROR.search(text):
            self._head, self._since, self._foreign = found[0].strip(), 0, False
        elif self._since > MESSAGE_LINES:
            self._head = ""
        return None

    def _frame(self, text: str) -> tuple[str, Place] | None:
        frame = _NODE_FRAME.search(text)
        own = _own(frame, self._source) if frame else None
        if own is None:
            self._foreign = self._foreign or bool(frame)  # what Node itself raises, the own code asked for
            return None
        head, self._head = self._head, ""
        return head, (*own, self._foreign)


def _own(frame: re.Match[str], source: str) -> tuple[str, int, str] | None:
    path = PurePosixPath(frame["path"])
    if not path.is_relative_to(source) or FOREIGN & set(path.parts):
        return None
    return str(path.relative_to(source)), int(frame["line"]), frame["function"] or "the module"
