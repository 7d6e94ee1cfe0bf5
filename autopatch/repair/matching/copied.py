"""Things that a model copies along with the code: line numbers, + and -, a lost indent. And lines that it leaves out."""

import re
from collections.abc import Sequence

from autopatch.repair.matching.lines import indent_of

Sides = tuple[list[str], list[str]]
"""The searched and the new lines."""

_NUMBERED = re.compile(r"\s*(\d+)(?:\t|\s*[|:\u2502\u2192] ?)(.*)", re.S)
_ELISION = re.compile(r"\s*(?:(?:#|//|--|/\*|<!--)\s*(?:\.{3}|\u2026).*|(?:\.{3}|\u2026)\s*)")
_SAID_ELISION = re.compile(r"\s*(?:#|//|--|/\*|<!--)\s*(?:\.{3}|\u2026).*")
_TOP_LEVEL = re.compile(r"(?:async\s|def\s|class\s|@|import\s|from\s|if __name__|#|[})\]])")


def variants(search: Sequence[str], replace: Sequence[str]) -> list[Sides]:
    """The lines as they are, then without line numbers and without + and -, where all of them have such."""
    sides = [(list(search), _without_plus(search, replace))]
    for strip in (_without_numbers, _without_signs):
        stripped = strip(search, replace)
        if stripped:
            sides.append(stripped)
    return [(s, _indented_again(s, r)) for s, r in sides]


def _without_plus(search: Sequence[str], replace: Sequence[str]) -> list[str]:
    """A + in front of every new line, and of no searched one, is a diff's."""
    filled = [body for body in replace if body.strip()]
    if filled and all(body.startswith("+") for body in filled) and not any(body.lstrip().startswith("+") for body in search):
        return [body.removeprefix("+") for body in replace]
    return list(replace)


def _without_numbers(search: Sequence[str], replace: Sequence[str]) -> Sides | None:
    found = [_NUMBERED.fullmatch(body) for body in search if body.strip()]
    numbers = [int(m.group(1)) for m in found if m]
    if not found or not all(found) or any(b <= a for a, b in zip(numbers, numbers[1:], strict=False)):
        return None
    return [_unnumbered(body) for body in search], [_unnumbered(body) for body in replace]


def _unnumbered(body: str) -> str:
    found = _NUMBERED.fullmatch(body)
    return found.group(2) if found else body


def _without_signs(search: Sequence[str], replace: Sequence[str]) -> Sides | None:
    """Lines of a diff: '-' or ' ' in front of each searched line, '+' or ' ' in front of each new one."""
    if not _all_start(search, "- ") or not any(body.startswith("-") for body in search):
        return None
    plus = _all_start(replace, "+ ") and any(body.startswith("+") for body in replace)
    return [body[1:] for body in search], [body[1:] for body in replace] if plus else list(replace)


def _all_start(bodies: Sequence[str], signs: str) -> bool:
    return all(body[0] in signs for body in bodies if body.strip())


def _indented_again(search: Sequence[str], replace: Sequence[str]) -> list[str]:
    """New lines at the margin for searched lines that are all indented: the indent was forgotten, unless a block begins there."""
    filled = [body for body in replace if body.strip()]
    wanted = [indent_of(body) for body in search if body.strip()]
    if not filled or not wanted or indent_of(filled[0]) or not all(wanted) or _TOP_LEVEL.match(filled[0]):
        return list(replace)
    return [wanted[0] + body if body.strip() else body for body in replace]


def is_elision(body: str) -> bool:
    """`...` alone, or in a comment, stands for lines that were left out."""
    return _ELISION.fullmatch(body) is not None


def says_elision(body: str) -> bool:
    """A comment such as `# ... rest unchanged`: never code, unlike `...` alone."""
    return _SAID_ELISION.fullmatch(body) is not None


def segments(bodies: Sequence[str]) -> list[list[str]]:
    """What stands between elisions: one more than there are of them."""
    parts: list[list[str]] = [[]]
    for body in bodies:
        if is_elision(body):
            parts.append([])
        else:
            parts[-1].append(body)
    return parts
