"""A file cut into functions, methods, heads of classes, and blocks of the text around them. Pure."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from autopatch.chassis.outline import Definition
from autopatch.contract.model import digest

CHUNK = 1600  # characters: some 40 lines; MiniLM reads the first half of it
SHOWN = 4 * CHUNK  # characters: one line may be that long
FORMAT = "1"
"""Part of every digest: with another way of cutting it must change."""
_COMMENT = re.compile(r"\s*(?:#|//|/\*|\*|--)")
_WORD = re.compile(r"\w")


@dataclass(frozen=True)
class Chunk:
    """`form` is function, method, class or text; lines count from 1. `key` is the same for the same text under the same name."""

    form: str
    name: str
    start: int
    end: int
    text: str
    key: str


def chunks(path: str, text: str, definitions: Sequence[Definition], redact: Callable[[str], str]) -> list[Chunk]:
    """Every line that says something is in one chunk: of the innermost method or class, of the outermost function.

    A chunk's text begins with a line of its path and name, and is redacted; its key is of the text as it was.
    """
    lines, redacted = text.split("\n"), redact(text)
    shown = _as_many_lines(lines, redacted.split("\n"))
    owners = _owners(lines, _units(definitions))
    made: list[Chunk] = []
    seen: Counter[str] = Counter()
    for unit, numbers in _blocks(owners):
        form, name = (unit.kind, unit.name if redacted == text else redact(unit.name)) if unit else ("text", "")
        head = " ".join(filter(None, (path, name)))
        for start, end, original, kept in _pieces(numbers, lines, shown):
            key = digest("\0".join((FORMAT, form, name, original)).encode())
            seen[key] += 1
            made.append(Chunk(form, name, start, end, f"{head}\n{kept}", f"{key}.{seen[key]}"))
    return made


def _units(definitions: Sequence[Definition]) -> list[tuple[Definition, Definition | None]]:
    """Definitions with chunks of their own, and the class around each: what is inside of a function stays with it."""
    units: list[tuple[Definition, Definition | None]] = []
    around: list[tuple[Definition, bool]] = []
    for one in definitions:
        while around and around[-1][0].end < one.start:
            around.pop()
        outer, own = around[-1] if around else (None, True)
        apart = own and (outer is None or (outer.kind == "class" and one.start > outer.start))
        if apart:
            units.append((one, outer))
        around.append((one, apart))
    return units


def _owners(lines: Sequence[str], units: Sequence[tuple[Definition, Definition | None]]) -> list[Definition | None]:
    """By line; the comment right above a definition belongs to it."""
    owners: list[Definition | None] = [None] * len(lines)
    for unit, outer in units:
        start = unit.start - 1
        while start > 0 and owners[start - 1] is outer and _COMMENT.match(lines[start - 1]):
            start -= 1
        owners[start : unit.end] = [unit] * (min(unit.end, len(lines)) - start)
    return owners


def _blocks(owners: Sequence[Definition | None]) -> Iterator[tuple[Definition | None, list[int]]]:
    """Line indices: of each definition all that are its own, of the text around them each run."""
    own: dict[int, tuple[Definition, list[int]]] = {}
    run: list[int] = []
    for index, owner in enumerate(owners):
        if owner is None:
            run.append(index)
            continue
        if run:
            yield None, run
            run = []
        own.setdefault(id(owner), (owner, []))[1].append(index)
    if run:
        yield None, run
    yield from own.values()


def _pieces(numbers: Sequence[int], lines: Sequence[str], shown: Sequence[str]) -> Iterator[tuple[int, int, str, str]]:
    """First and last line, text and redacted text; cut where it gets too long, after a blank line where one is near."""
    piece: list[int] = []
    size = 0
    for index in numbers:
        size += len(lines[index]) + 1
        if piece and (size > CHUNK or (size > CHUNK * 3 // 4 and not lines[piece[-1]].strip())):
            yield from _piece(piece, lines, shown)
            piece, size = [], len(lines[index]) + 1
        piece.append(index)
    yield from _piece(piece, lines, shown)


def _piece(piece: Sequence[int], lines: Sequence[str], shown: Sequence[str]) -> Iterator[tuple[int, int, str, str]]:
    original = "\n".join(lines[index] for index in piece).strip("\r\n")
    redacted = "\n".join(shown[index].rstrip("\r") for index in piece).strip("\n")
    if _WORD.search(original):
        said = [index for index in piece if lines[index].strip()]
        yield said[0] + 1, said[-1] + 1, original, redacted[:SHOWN]


def _as_many_lines(lines: Sequence[str], shown: list[str]) -> list[str]:
    """A secret over several lines becomes one; blank lines take the place of the others, so that line numbers stay."""
    if len(shown) == len(lines):
        return shown
    kept: list[str] = []
    for _, first, last, shown_first, shown_last in SequenceMatcher(None, lines, shown).get_opcodes():
        kept += shown[shown_first:shown_last]
        kept += [""] * (last - first - (shown_last - shown_first))
    return (kept + [""] * len(lines))[: len(lines)]
