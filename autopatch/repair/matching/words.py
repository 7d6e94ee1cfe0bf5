"""What comes of looking for a text."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Match:
    """`text[start:end]` (characters) becomes `new`. `first` and `last` are its lines, from 1; `how` names the reading."""

    start: int
    end: int
    new: str
    first: int
    last: int
    how: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ambiguous:
    """It fits at each of these lines (from 1)."""

    lines: tuple[int, ...]


@dataclass(frozen=True)
class Missing:
    """It fits nowhere. `nearest` is the most similar place as (first line, text), None when nothing is similar."""

    nearest: tuple[int, str] | None = None


@dataclass(frozen=True)
class AlreadyThere:
    """The file already reads as it should, at this line (from 1)."""

    line: int
