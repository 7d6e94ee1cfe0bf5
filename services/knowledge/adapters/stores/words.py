"""Names in code as words. Pure."""

import re

_MIXED = re.compile(r"\b(?=\w*[a-z0-9][A-Z]|\w*[A-Z][A-Z][a-z])\w+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def lexical(text: str) -> str:
    """The text and behind it the parts of its mixedCase names; the engine by itself splits names at `_` and `.` only."""
    parts = (part for name in _MIXED.findall(text) for part in _PART.findall(name) if len(part) > 1)
    return " ".join((text, *dict.fromkeys(parts)))
