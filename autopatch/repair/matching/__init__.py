"""Where a text to be replaced stands in a file: the strictest reading that fits, and never one of two."""

import re
from collections.abc import Sequence

from autopatch.repair.matching.copied import is_elision, segments, variants
from autopatch.repair.matching.lines import Lines, indent_of, split, word_characters
from autopatch.repair.matching.near import nearest, only_near
from autopatch.repair.matching.readings import READINGS, Alignment, align
from autopatch.repair.matching.rewriting import rewrite
from autopatch.repair.matching.words import AlreadyThere, Ambiguous, Match, Missing

__all__ = ["AlreadyThere", "Ambiguous", "Match", "Missing", "place"]

TELLING = 2
"""A single searched line with fewer letters and digits must be the only such text in the file, not only the only such line."""
TELLING_RESULT = 6
"""A new text with fewer letters and digits may stand in a file by chance."""


def place(text: str, search: str, replace: str) -> Match | Ambiguous | Missing | AlreadyThere:
    """Finds `search` in `text` and what the place would read afterwards.

    Tried in order: exact; line ends and trailing spaces; uniform indent; blank lines and comments; Unicode forms, quotes and
    spacing; copied line numbers, + and -; `...` for left-out lines; part of a line; unique near text. The first reading that
    fits decides: several places are a tie.
    """
    lines, wanted, new = split(text), list(split(search).bodies), list(split(replace).bodies)
    if not search.strip():
        return Missing()
    for sides in variants(wanted, new):
        found = _by_lines(lines, *sides)
        if found is not None:
            return _checked(text, lines, found, *sides)
    if there := _result_stands_there(lines, wanted, new):
        return there
    elided = _elided(text, lines, wanted, new) if any(map(is_elision, wanted)) else None
    return elided or _part_of_line(text, lines, search, replace) or _nearly(lines, wanted, new)


def _by_lines(lines: Lines, search: Sequence[str], replace: Sequence[str]) -> list[Alignment] | None:
    """Where the strictest reading that finds anything finds it."""
    return next((found for reading in READINGS if (found := align(lines, search, replace, reading))), None)


def _checked(
    text: str, lines: Lines, found: Sequence[Alignment], search: Sequence[str], replace: Sequence[str]
) -> Match | Ambiguous | AlreadyThere:
    if len(found) > 1:
        return Ambiguous(tuple(place.first + 1 for place in found))
    only = "\n".join(search).strip()
    if "\n" not in only and word_characters(only) < TELLING and text.count(only) > 1:
        return Ambiguous(tuple(n + 1 for n, body in enumerate(lines.bodies) if only in body))
    if there := _inserted_before(lines, found[0], search, replace):
        return there
    return _match(lines, found[0], search, replace)


def _match(lines: Lines, found: Alignment, search: Sequence[str], replace: Sequence[str]) -> Match:
    notes = () if found.how in ("exact", "trailing blanks") else (f"line {found.first + 1} was matched loosely: {found.how}",)
    new = rewrite(lines, found, search, replace)
    return Match(lines.starts[found.first], lines.stop(found.last), new, found.first + 1, found.last + 1, found.how, notes)


def _inserted_before(lines: Lines, found: Alignment, search: Sequence[str], replace: Sequence[str]) -> AlreadyThere | None:
    """An edit that only adds lines was applied before when the longer text already stands around the searched one."""
    added = len([body for body in replace if body.strip()]) > len([body for body in search if body.strip()])
    if not added or not set(map(str.strip, search)) <= set(map(str.strip, replace)):
        return None
    whole = _by_lines(lines, replace, ()) or []
    around = [place for place in whole if place.first <= found.first and place.last >= found.last]
    return AlreadyThere(around[0].first + 1) if around else None


def _result_stands_there(lines: Lines, search: Sequence[str], replace: Sequence[str]) -> AlreadyThere | None:
    """The searched text is gone and the new one is there once: this was applied before."""
    if word_characters("".join(replace)) < TELLING_RESULT or list(search) == list(replace):
        return None
    found = next((f for reading in READINGS[:3] if (f := align(lines, replace, (), reading))), [])
    return AlreadyThere(found[0].first + 1) if len(found) == 1 else None


def _elided(text: str, lines: Lines, search: Sequence[str], replace: Sequence[str]) -> Match | Ambiguous | None:
    """Each part between `...` is placed behind the one before it; what lies between them stays. None when it does not fit."""
    parts, news = segments(search), segments(replace)
    if len(parts) != len(news):
        return None
    done: list[tuple[Alignment, list[str], list[str]]] = []
    for part, new in zip(parts, news, strict=True):
        if not any(body.strip() for body in part):
            if any(body.strip() for body in new):
                return None
            continue
        found = [place for place in _by_lines(lines, part, new) or [] if not done or place.first > done[-1][0].last]
        if len(found) > 1 and done:
            found = [place for place in found if place.last < _block_end(lines, done[0][0].first)] or found
        if len(found) != 1:
            return Ambiguous(tuple(place.first + 1 for place in found)) if found else None
        done.append((found[0], part, new))
    if not done:
        return None
    first, last = done[0][0].first, done[-1][0].last
    whole, at = "", lines.starts[first]
    for found_one, part, new in done:
        whole += text[at:lines.starts[found_one.first]] + rewrite(lines, found_one, part, new)
        at = lines.stop(found_one.last)
    notes = (f"lines {first + 1}-{last + 1}: what `...` stands for was kept",)
    return Match(lines.starts[first], at, whole, first + 1, last + 1, "left-out lines", notes)


def _block_end(lines: Lines, first: int) -> int:
    """The first line behind `first` that is indented no deeper than it."""
    depth = len(indent_of(lines.bodies[first]))
    for number in range(first + 1, len(lines.bodies)):
        if lines.bodies[number].strip() and len(indent_of(lines.bodies[number])) <= depth:
            return number
    return len(lines.bodies)


def _part_of_line(text: str, lines: Lines, search: str, replace: str) -> Match | Ambiguous | None:
    """A piece of one line becomes another piece, when whole words make it up."""
    wanted, new = search.strip(), replace.strip()
    if len(split(wanted).bodies) != 1 or len(split(new).bodies) > 1:
        return None
    edges = (r"(?<!\w)" if re.match(r"\w", wanted) else "", r"(?!\w)" if re.search(r"\w\Z", wanted) else "")
    found = [m.start() for m in re.finditer(edges[0] + re.escape(wanted) + edges[1], text)]
    numbers = [max(n for n, start in enumerate(lines.starts) if start <= at) + 1 for at in found]
    if len(found) != 1:
        return Ambiguous(tuple(dict.fromkeys(numbers))) if found else None
    notes = (f"line {numbers[0]}: a part of it was matched",)
    return Match(found[0], found[0] + len(wanted), new, numbers[0], numbers[0], "part of a line", notes)


def _nearly(lines: Lines, search: Sequence[str], replace: Sequence[str]) -> Match | Missing | AlreadyThere:
    found = nearest(lines, search)
    only = only_near(lines, found, search, replace)
    if only is None:
        shown = range(found[0].numbers[0], found[0].numbers[-1] + 1) if found else range(0)
        return Missing((shown[0] + 1, "\n".join(lines.bodies[n] for n in shown)) if found else None)
    match = _match(lines, only, search, replace)
    unchanged = "".join(b + e for b, e in zip(lines.bodies[only.first:only.last + 1], lines.ends[only.first:], strict=False))
    return AlreadyThere(only.first + 1) if match.new == unchanged and list(search) != list(replace) else match
