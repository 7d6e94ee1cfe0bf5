"""The time of a log line, where it carries one."""

import json
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,6})?(?:Z|[+-]\d\d:?\d\d)?")
_FIELDS = ("time", "ts", "timestamp", "@timestamp", "at", "datetime")


def in_window(lines: Iterable[str], start: datetime, end: datetime) -> Iterator[str]:
    """Lines between start and end; one without a time belongs to the line before, and before any time was seen it is kept."""
    inside = True
    for line in lines:
        at = time_of(line)
        if at is not None:
            inside = start <= at <= end
        if inside:
            yield line


def time_of(line: str) -> datetime | None:
    """From a JSON field or the first ISO time; seconds since 1970 count too. A time without a zone is UTC."""
    if line.startswith("{"):
        try:
            entry = json.loads(line)
        except ValueError:
            entry = {}
        for field in _FIELDS:
            value = entry.get(field)
            if isinstance(value, int | float) and not isinstance(value, bool) and 1e9 < value < 1e11:
                return datetime.fromtimestamp(value, UTC)
            if isinstance(value, str) and (found := _iso(value)):
                return found
    return _iso(line[:80])


def _iso(text: str) -> datetime | None:
    match = _ISO.search(text)
    if match is None:
        return None
    try:
        at = datetime.fromisoformat(match[0].replace(",", ".").replace("Z", "+00:00"))
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
