"""Markdown cut into sections that fit an embedder. Pure."""

import re
from collections.abc import Iterator

CHUNK = 1200  # characters: about the 256 tokens that MiniLM reads
_HEADING = re.compile(r"^#{1,6}\s+(?P<title>.+?)\s*#*$")


def first_heading(body: str) -> str:
    """'' when there is none."""
    return next((found["title"] for line in body.splitlines() if (found := _HEADING.match(line))), "")


def chunks(title: str, body: str) -> Iterator[str]:
    """Sections with the titles above them, long ones cut at paragraphs. An empty text has one chunk: its title."""
    empty = True
    for path, section in _sections(body):
        names = path if path[:1] == [title] else [title, *path]
        for part in _pieces(section):
            empty = False
            yield f"{' > '.join(names)}\n{part}"
    if empty:
        yield title


def _sections(body: str) -> Iterator[tuple[list[str], str]]:
    path: list[tuple[int, str]] = []
    lines: list[str] = []
    fenced = False
    for line in body.splitlines():
        fenced ^= line.lstrip().startswith(("```", "~~~"))
        found = None if fenced else _HEADING.match(line)
        if found is None:
            lines.append(line)
            continue
        yield [name for _, name in path], "\n".join(lines)
        depth = len(line) - len(line.lstrip("#"))
        path = [(level, name) for level, name in path if level < depth] + [(depth, found["title"])]
        lines = []
    yield [name for _, name in path], "\n".join(lines)


def _pieces(section: str) -> Iterator[str]:
    piece = ""
    for paragraph in re.split(r"\n\s*\n", section.strip()):
        for part in (paragraph[i : i + CHUNK] for i in range(0, len(paragraph), CHUNK)):
            if piece and len(piece) + len(part) > CHUNK:
                yield piece
                piece = ""
            piece = f"{piece}\n\n{part}" if piece else part
    if piece.strip():
        yield piece
