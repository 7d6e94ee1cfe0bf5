"""Search/replace blocks, in the many ways in which models write their markers."""

from collections.abc import Sequence
from dataclasses import dataclass

from autopatch.repair.answers.marks import DIVIDER, FENCE, HEAD, TAIL, TURN_MARK, unindented

USUAL = 7
"""Characters of a marker."""
_MOST = 8
"""Lines of one block that are tried as its divider."""


@dataclass(frozen=True)
class Block:
    """Lines `start` to before `end` of the answer. No splits: there is no divider in it."""

    start: int
    end: int
    splits: tuple[tuple[str, str], ...]
    name: str


def read_block(lines: Sequence[str], start: int) -> Block:
    """The block whose head is at `start`. Without an end marker it goes to the next fence, the next head or the answer's end."""
    head = HEAD.match(lines[start])
    assert head is not None
    width = len(head["indent"])
    stop, end = _ends(lines, start)
    body = [unindented(line, width) for line in lines[start + 1:stop]]
    return Block(start, end, tuple(_splits(body, len(head["mark"]), closed=end > stop)), head["name"].strip())


def _ends(lines: Sequence[str], start: int) -> tuple[int, int]:
    """Where the content stops, and where the answer goes on."""
    fence = len(lines)
    for at in range(start + 1, len(lines)):
        if TAIL.fullmatch(lines[at]):
            return at, at + 1
        if HEAD.fullmatch(lines[at]) or TURN_MARK.fullmatch(lines[at]):
            return min(fence, at), min(fence, at)
        if FENCE.fullmatch(lines[at]) and fence == len(lines):
            fence = at
    return fence, fence


def _splits(body: Sequence[str], length: int, *, closed: bool) -> list[tuple[str, str]]:
    """Every reading of the lines as searched and new ones. A divider is as long as the head where there is such a one."""
    found = [(at, len(m["mark"])) for at, line in enumerate(body) if (m := DIVIDER.fullmatch(line))]
    marks = [at for at, mark in found if mark == length] or [at for at, mark in found if abs(mark - USUAL) <= 1]
    marks = marks or [at for at, _ in found]
    until = len(body)
    if not closed and len(marks) > 1 and not any(line.strip() for line in body[marks[-1] + 1:]):
        until = marks.pop()
    while not closed and until and not body[until - 1].strip():
        until -= 1
    splits = [(_text(body[:at]), _text(body[at + 1:until])) for at in marks[:_MOST]]
    unfenced = [(_unfenced(search), _unfenced(replace)) for search, replace in splits]
    return list(dict.fromkeys(splits + unfenced))


def _text(body: Sequence[str]) -> str:
    return "".join(line + "\n" for line in body)


def _unfenced(text: str) -> str:
    """Without a fence that was put around one side of a block."""
    lines = text.strip("\n").split("\n")
    return "\n".join(lines[1:-1]) if len(lines) > 1 and FENCE.fullmatch(lines[0]) and FENCE.fullmatch(lines[-1]) else text
