"""Edits in a model's answer: search/replace blocks, fenced code, unified diffs."""

import re
from collections.abc import Sequence

from autopatch.repair.answers.blocks import read_block
from autopatch.repair.answers.marks import DIVIDER, FENCE, HEAD, NO_EDIT, TURN, TURN_MARK, lines_of, unindented
from autopatch.repair.answers.names import before, is_name_line, language
from autopatch.repair.answers.unified import is_diff, read_diff
from autopatch.repair.answers.words import Code, Names, Parsed, Replacement
from autopatch.repair.edits import EditError

__all__ = ["Code", "Names", "Parsed", "Replacement", "parse"]

_CODE = re.compile(
    r"\s*(?:(?:async\s+)?def \w+\s*\(|class \w+\s*[:({]|@\w+[\w.]*(?:\(.*)?\s*$|"
    r"import [\w.]+(?:\s*$|\s+as\b|,)|from [\w.]+ import\b|"
    r"(?:export |async |default )*function\b\s*\*?\s*\w*\s*\(|(?:const|let) \w+\s*=|export (?:const|class)\b|func \w*\(|#!)"
)
_IN_DIFF = re.compile(r"[ +@\\-]|diff --git |index |(?:new|deleted) file mode |(?:old|new) mode ")
_HOW = (
    "Answer with the change itself: search/replace blocks, or the whole corrected function in one fenced block. "
    "Do not only explain."
)


def parse(answer: str) -> Parsed:
    """Every edit up to an invented next turn of the user. Raises EditError("format") when there is none.

    Blocks and diffs are taken before other fenced code, which then only illustrates.
    """
    reader = _Reader(lines_of(answer))
    reader.read()
    edits: list[Replacement | Code] = [edit for edit in reader.edits if isinstance(edit, Replacement)]
    edits = edits or [edit for edit in reader.edits if isinstance(edit, Code)]
    if not edits:
        raise EditError("format", "the answer holds no edit" + "".join(f"; {note}" for note in reader.notes), feedback=_HOW)
    return Parsed(tuple(dict.fromkeys(edits)), tuple(reader.notes))


class _Reader:
    """Walks over the answer once."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.edits: list[Replacement | Code] = []
        self.notes: list[str] = []
        self._lines, self._at = lines, 0
        self._last_divider = max((n for n, line in enumerate(lines) if DIVIDER.fullmatch(line)), default=-1)

    def read(self) -> None:
        self._unfenced_code()
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if TURN.fullmatch(line):
                self.notes.append(f"what follows an invented turn at line {self._at + 1} was ignored")
                return
            if HEAD.fullmatch(line) and self._at < self._last_divider:
                self._block(before(self._lines, self._at))
            elif fence := FENCE.fullmatch(line):
                self._fence(len(fence["indent"]), fence["mark"], fence["info"])
            elif re.match(r"--- |diff --git |@@ ", line) and is_diff(self._lines[self._at:self._at + 60]):
                self._bare_diff()
            else:
                self._at += 1

    def _block(self, names: Names, info: str = "", inside: Sequence[str] = ()) -> None:
        block = read_block(self._lines, self._at)
        if block.name or inside or info:
            near = before(self._lines, self._at, info, inside, block.name)
            names = Names((*near.sure, *names.sure), (*near.prose, *names.prose))
        if block.splits:
            self.edits.append(Replacement(names, block.splits, block.start + 1))
        else:
            self.notes.append(f"the block at line {block.start + 1} has no =======")
        self._at = max(block.end, self._at + 1)

    def _fence(self, width: int, mark: str, info: str) -> None:
        """Code, a diff, or blocks: those are found in it as they are found outside."""
        start, close = self._at, self._close(mark, info)
        content = [unindented(line, width) for line in self._lines[start + 1:close]]
        names = before(self._lines, start, info)
        head = next((n for n in range(start + 1, close) if HEAD.fullmatch(self._lines[n])), None)
        if head is not None and head < self._last_divider:
            self._blocks_in_fence(start, names, info)
        elif language(info) in ("diff", "patch") or is_diff(content):
            self.edits += read_diff(content, names, start + 2)
            self._at = close + 1
        else:
            self._code(content, names, info, start + 1)
            self._at = close + 1

    def _close(self, mark: str, info: str) -> int:
        """The line of the closing fence; a Markdown file has fences of its own, so there the last one counts."""
        last, to_the_last = None, language(info) in ("md", "markdown")
        for at in range(self._at + 1, len(self._lines)):
            fence = FENCE.fullmatch(self._lines[at])
            if fence and fence["mark"].startswith(mark) and not fence["info"].strip():
                last = at
                if not to_the_last:
                    return at
            if TURN_MARK.fullmatch(self._lines[at]):
                return at if last is None else last
        if last is None:
            self.notes.append(f"the fence at line {self._at + 1} is not closed")
        return len(self._lines) if last is None else last

    def _blocks_in_fence(self, start: int, names: Names, info: str) -> None:
        self._at = start + 1
        inside: list[str] = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if HEAD.fullmatch(line):
                self._block(names, info, inside)
                inside = []
            elif FENCE.fullmatch(line) or TURN_MARK.fullmatch(line):
                self._at += FENCE.fullmatch(line) is not None
                return
            else:
                inside.append(line)
                self._at += 1

    def _code(self, content: list[str], names: Names, info: str, line: int) -> None:
        while content and not content[0].strip():
            content.pop(0)
        named: list[str] = []
        while content and is_name_line(content[0]):
            named.append(content.pop(0).strip())
        sure = before(content, 1).sure if content and len(content) > 1 else ()
        if not any(text.strip() for text in content):
            return
        if language(info) in NO_EDIT and not (named or names.sure):
            self.notes.append(f"the block at line {line} is no code")
            return
        every = Names((*(name for name in named if "." in name), *sure, *names.sure), names.prose)
        self.edits.append(Code(every, "\n".join(content).rstrip() + "\n", language(info), line))

    def _bare_diff(self) -> None:
        """Up to the first line that cannot belong to it."""
        start, lines = self._at, [*self._lines, "."]
        while _IN_DIFF.match(lines[self._at] or lines[self._at + 1]):
            self._at += 1
        self.edits += read_diff(self._lines[start:self._at], before(self._lines, start), start + 1)

    def _unfenced_code(self) -> None:
        """An answer that begins with code, as it does when the prompt ended in an opened fence."""
        first = next((n for n, line in enumerate(self._lines) if line.strip()), None)
        stop = self._next(FENCE, HEAD, TURN)
        if first is None or not _CODE.match(self._lines[first]) or (stop is not None and HEAD.fullmatch(self._lines[stop])):
            return
        self._code(list(self._lines[first:stop]), Names(), "", first + 1)
        fence = FENCE.fullmatch(self._lines[stop]) if stop is not None else None
        self._at = len(self._lines) if stop is None else stop + (fence is not None and not fence["info"].strip())

    def _next(self, *marks: re.Pattern[str], after: int = -1) -> int | None:
        found = (n for n, line in enumerate(self._lines) if n > after and any(mark.fullmatch(line) for mark in marks))
        return next(found, None)
