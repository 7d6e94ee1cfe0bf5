"""Unified diffs as models write them: line numbers wrong or missing, blanks in front of lines lost."""

import re
from collections.abc import Sequence

from autopatch.repair.answers.words import Names, Replacement

_HUNK = re.compile(r"@@.*")
_FILE = re.compile(r"(?:---|\+\+\+)[ \t]+(\S.*?)(?:\t.*)?")
_GIT = re.compile(r"diff --git (\S+) (\S+)")
_NOISE = re.compile(r"index [0-9a-f]+|(?:new|deleted) file mode|(?:old|new) mode|similarity index|\\ No newline|\*\*\* ")


def is_diff(lines: Sequence[str]) -> bool:
    """Is there a header of a hunk or of a file, and a line that is taken out or put in?"""
    header = any(_HUNK.match(line) for line in lines) or _has_file_header(lines)
    return header and any(re.match(r"[-+](?![-+]{2} )", line) for line in lines)


def _has_file_header(lines: Sequence[str]) -> bool:
    return any(a.startswith("--- ") and b.startswith("+++ ") for a, b in zip(lines, lines[1:], strict=False))


def read_diff(lines: Sequence[str], names: Names, first: int) -> list[Replacement]:
    """Every hunk as a replacement of the lines that it shows. `first` is the number of the first line in the answer."""
    edits: list[Replacement] = []
    paths: list[str] = []
    hunk: list[str] = []
    start = first

    def close() -> None:
        known = [path for path in reversed(paths) if path != "/dev/null"]
        if any(line[:1] in ("-", "+") for line in hunk):
            sides = _side(hunk, "-"), _side(hunk, "+")
            edits.append(Replacement(Names((*known, *names.sure), names.prose), (sides,), start))
        hunk.clear()

    for number, line in enumerate(lines, first):
        header = _GIT.fullmatch(line) or (_FILE.fullmatch(line) if _is_header(lines, number - first) else None)
        if header or _HUNK.match(line):
            close()
            start = number
            if header and (line.startswith(("diff", "---"))):
                paths.clear()
            paths += header.groups() if header else ()
        elif not _NOISE.match(line):
            hunk.append(line)
    close()
    return edits


def _is_header(lines: Sequence[str], at: int) -> bool:
    """`---` and `+++` are a pair, so that a removed line `-- x` is none."""
    if lines[at].startswith("--- "):
        return at + 1 < len(lines) and lines[at + 1].startswith("+++ ")
    return lines[at].startswith("+++ ") and at > 0 and lines[at - 1].startswith("--- ")


def _side(hunk: Sequence[str], sign: str) -> str:
    """The lines of one side; a line without a sign is context that lost its blank."""
    kept = [line for line in hunk if line[:1] == sign or line[:1] not in ("-", "+")]
    while kept and not kept[-1].strip():
        kept.pop()
    return "\n".join(line[1:] if line[:1] in ("-", "+", " ") else line for line in kept)
