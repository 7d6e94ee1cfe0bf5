"""Exceptions in the log whose traceback leads into the target's own source, of Python and of Node. Pure."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from services.diagnosis.facts import Novelty, Raised

FOREIGN = {"site-packages", "dist-packages", "node_modules", ".."}
SHOWN = 3
_PYTHON_FRAME = re.compile(r'^\s*(?:\| )?File "(?P<path>[^"]+)", line (?P<line>\d{1,7}), in (?P<function>\S+)')
_PYTHON_ERROR = re.compile(r"^(?:\| )?(?:[a-z_]\w*\.)*[A-Z]\w*(?:: .*)?$")
_NODE_FRAME = re.compile(r"^\s+at (?:(?:async )?(?P<function>[^(]+?) \()?(?:file://)?(?P<path>/[^:()]+):(?P<line>\d{1,7}):\d{1,7}\)?$")
_NODE_ERROR = re.compile(r"^(?:Uncaught )?\w*(?:Error|Exception)\b.*$")
Place = tuple[str, int, str]


def raised(red: Sequence[str], calm: Sequence[str], source: str, red_s: float, calm_s: float) -> tuple[Raised, ...]:
    """Those that are new or more frequent than in the calm window, the most frequent first; windows are so many seconds long.

    `source` is the folder that the source lies in where it runs; '' when that is not known, and then nothing is found.
    """
    if not source:
        return ()
    now, before = list(_ends(red, source)), Counter(place for _, place in _ends(calm, source))
    told = {place: error for error, place in reversed(now)}
    counts = Counter(place for _, place in now)
    found = [
        Raised(told[place], *place, count, before[place], _novelty(count / max(red_s, 1), before[place] / max(calm_s, 1)))
        for place, count in counts.most_common()
    ]
    return tuple(one for one in found if one.novelty != "steady")[:SHOWN]


def _novelty(often: float, before: float) -> Novelty:
    return "new" if not before else "grown" if often >= 3 * before else "steady"


def _ends(lines: Sequence[str], source: str) -> Iterator[tuple[str, Place]]:
    """Each exception with the frame of the target's own that is nearest to where it was raised."""
    place: Place | None = None
    inside, head = False, ""
    for line in (text for each in lines for text in _texts(each)):
        if frame := _PYTHON_FRAME.match(line):
            place, inside = _own(frame, source) or place, True
        elif inside and not line.startswith((" ", "\t")):
            if place and _PYTHON_ERROR.match(line):
                yield line.strip(), place
            place, inside = None, False
        elif head and (frame := _NODE_FRAME.match(line)):
            if own := _own(frame, source):
                yield head, own
                head = ""
        elif not inside:
            head = line.strip() if _NODE_ERROR.match(line) else ""


def _texts(line: str) -> Iterator[str]:
    """The line itself; of a JSON line those values that are longer than one line."""
    try:
        parts = json.loads(line) if line.startswith("{") else None
    except (ValueError, RecursionError):
        parts = None
    if not isinstance(parts, dict):
        yield line
        return
    for value in parts.values():
        if isinstance(value, str) and "\n" in value:
            yield from value.splitlines()
    yield ""


def _own(frame: re.Match[str], source: str) -> Place | None:
    path = PurePosixPath(frame["path"])
    if not path.is_relative_to(source) or FOREIGN & set(path.parts):
        return None
    return str(path.relative_to(source)), int(frame["line"]), frame["function"] or "the module"
