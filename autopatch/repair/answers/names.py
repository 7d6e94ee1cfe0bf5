"""File names near an edit."""

import re
from collections.abc import Sequence

from autopatch.repair.answers.marks import DIVIDER, FENCE, HEAD, LANGUAGES, NO_EDIT, TAIL
from autopatch.repair.answers.words import Names

_LABEL = re.compile(r"(?i)\s*(?:(?:in|the|file(?:\s?name)?|path|update[d]?|modified|edit|fix(?:ed)?)\b\s*:?\s*)*")
_WORD = re.compile(r"`([^`\n]{1,200})`|\*\*([^*\n]{1,200})\*\*|\"([^\"\n]{1,200})\"|([\w@.+~()\[\]/\\:-]*\w\.\w{1,8})(?!\w)")
_QUOTED = re.compile(r"(?:title|file|filename|path)\s*=\s*[\"']?([^\"'}\s]+)")
_LIKE_A_NAME = re.compile(
    r"(?!@)[^\s<>|\"*?]*[\w)\]]\.\w{1,8}|(?!@)[^\s<>|\"*?]+[/\\][^\s<>|\"*?]+|(?:Makefile|Dockerfile|Jenkinsfile)"
)
_COMMENT = re.compile(r"\s*(?:#|//|--|/\*|<!--)\s*(.*?)\s*(?:\*/|-->)?\s*")
_BULLET = re.compile(r"(?:(?:[#>*-]+|\d+[.)])[ \t]+)*")
_BACK = 3
_LONGEST = 300
"""Characters of a line that is looked at for names."""


def before(lines: Sequence[str], at: int, info: str = "", inside: Sequence[str] = (), marker: str = "") -> Names:
    """Names for the edit that begins at a line: beside its marker, inside its fence, on the fence, on the lines above."""
    sure = [*_line_names(marker), *(name for line in reversed(inside) for name in _line_names(line)), *info_names(info)]
    prose: list[str] = []
    for line in _above(lines, at):
        own = _line_names(line)
        sure += own
        prose += [word for found in _WORD.finditer(line) for word in found.groups() if word]
        if not own and (whole := _LABEL.sub("", line.strip(" \t#*>`-"), count=1).rstrip(" :`*")):
            prose.insert(0, whole)
    return Names(tuple(dict.fromkeys(sure)), tuple(dict.fromkeys(word.rstrip(".,:;") for word in prose)))


def _above(lines: Sequence[str], at: int) -> list[str]:
    """The nearest non-blank lines above, up to another edit."""
    found: list[str] = []
    for line in reversed([line[:_LONGEST] for line in lines[max(at - 8, 0):at]]):
        if TAIL.fullmatch(line) or HEAD.fullmatch(line) or DIVIDER.fullmatch(line) or FENCE.fullmatch(line):
            break
        if line.strip():
            found.append(line)
        if len(found) == _BACK:
            break
    return found


def _line_names(line: str) -> list[str]:
    """The name that makes up a whole line, but for Markdown, a label and a comment sign."""
    comment = _COMMENT.fullmatch(line[:_LONGEST])
    plain = (comment.group(1) if comment else line[:_LONGEST]).strip().rstrip(" :*")
    plain = _BULLET.sub("", plain, count=1)
    plain = _LABEL.sub("", plain.strip("*` ") if plain.count("`") <= 2 else plain, count=1).strip("*`'\" :")
    return [plain] if _LIKE_A_NAME.fullmatch(plain) and plain.lower() not in LANGUAGES else []


def info_names(info: str) -> list[str]:
    """Names in a fence's info string: `python src/x.py`, `python:src/x.py`, `src/x.py`, `title="src/x.py"`."""
    words = _QUOTED.findall(info) + [part for word in info.split() for part in (word.partition(":")[2] or word,)]
    return [word.strip("{}\"'") for word in words if _LIKE_A_NAME.fullmatch(word.strip("{}\"'")) and "=" not in word]


def language(info: str) -> str:
    """The fence's tag in lower case, '' when it is none that is known."""
    first = re.split(r"[\s:,{]", info.strip().strip("{}.").lower(), maxsplit=1)[0]
    return first if first in LANGUAGES or first in NO_EDIT else ""


def is_name_line(line: str) -> bool:
    """Is the line nothing but a file's name (bare, not in a comment) or a language's?"""
    name = line[:_LONGEST].strip()
    return name.lower() in LANGUAGES or _LIKE_A_NAME.fullmatch(name) is not None
