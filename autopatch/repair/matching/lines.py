"""A text as lines with their ends. Only CR, LF and CR LF end a line, as Python and editors have it."""

import re
from collections import Counter
from dataclasses import dataclass

_LINE = re.compile(r"([^\r\n]*)(\r\n|\n|\r|\Z)")
_INDENT = re.compile(r"[ \t\u00a0\u3000]*")
_COMMENT = re.compile(r"(#(?:[\s#]|$)|//|/\*|\*/|<!--).*")


@dataclass(frozen=True)
class Lines:
    """`bodies` without their `ends`; `starts` are offsets in characters. The last end is '' where the text ends without one."""

    bodies: tuple[str, ...]
    ends: tuple[str, ...]
    starts: tuple[int, ...]

    def stop(self, line: int) -> int:
        """Offset behind a line and its end."""
        return self.starts[line] + len(self.bodies[line]) + len(self.ends[line])


def split(text: str) -> Lines:
    """All lines; an empty text has none, and nothing follows a last line end."""
    found = [m for m in _LINE.finditer(text) if m.group(0)]
    return Lines(
        tuple(m.group(1) for m in found), tuple(m.group(2) for m in found), tuple(m.start() for m in found)
    )


def usual_end(lines: Lines) -> str:
    """The most frequent line end, LF where there is none."""
    counted = Counter(end for end in lines.ends if end)
    return counted.most_common(1)[0][0] if counted else "\n"


def indent_of(body: str) -> str:
    """The blanks, tabs and no-break spaces at the front."""
    found = _INDENT.match(body)
    return found.group(0) if found else ""


def is_comment(body: str) -> bool:
    """Does nothing but a comment stand in this line (#, //, /*, <!--)?"""
    return _COMMENT.fullmatch(body.strip()) is not None


def word_characters(text: str) -> int:
    """How many letters, digits and underscores a text has: how much there is to recognise it by."""
    return len(re.findall(r"\w", text))
