"""Reads unified diffs in git's format, strictly: what is read one way here and another way by git is refused."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from autopatch.contract.errors import ContractError

NO_END = b"\\ No newline at end of file\n"
ESCAPES = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}
_UNESCAPES = {letter: code for code, letter in ESCAPES.items()}
_HUNK = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@.*")


@dataclass(frozen=True)
class Hunk:
    """Lines with their ends, first character ' ', '-' or '+'. A line without a newline is the last of its file."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    lines: tuple[bytes, ...]


@dataclass(frozen=True)
class FileDiff:
    """One file. `old` is None for a new file, `new` is None for a removed one. Modes are git's, '' where none is written."""

    old: str | None
    new: str | None
    old_mode: str
    new_mode: str
    hunks: tuple[Hunk, ...]
    extras: tuple[str, ...] = ()
    """Header lines that we never write: renames, copies, binary data."""

    @property
    def path(self) -> str:
        """The file's path after the change, or before its removal."""
        return self.new if self.new is not None else self.old or ""


def lines_of(content: bytes) -> list[bytes]:
    """Lines with their ends. LF alone ends a line."""
    return re.findall(rb"[^\n]*\n|[^\n]+\Z", content)


def parse_diff(diff: bytes) -> tuple[FileDiff, ...]:
    """The files of a diff. Raises ContractError that names the line for whatever is not exactly such a diff."""
    reader = _Reader(diff)
    files = []
    while not reader.done():
        files.append(reader.file())
    return tuple(files)


class _Reader:
    def __init__(self, diff: bytes) -> None:
        self._lines, self._at = lines_of(diff), 0

    def done(self) -> bool:
        return self._at >= len(self._lines)

    def _fail(self, what: str) -> ContractError:
        return ContractError(f"a diff of files: line {self._at + 1}: {what}")

    def _peek(self) -> bytes:
        return self._lines[self._at] if not self.done() else b""

    def _text(self) -> str:
        line = self._peek()
        if not line.endswith(b"\n"):
            raise self._fail("it is cut off")
        self._at += 1
        try:
            return line[:-1].decode()
        except UnicodeDecodeError as error:
            self._at -= 1
            raise self._fail("a header is not UTF-8") from error

    def file(self) -> FileDiff:
        """From `diff --git` to before the next one."""
        if not self._peek().startswith(b"diff --git "):
            raise self._fail("'diff --git' was expected")
        old, new = self._git_names(self._text().removeprefix("diff --git "))
        modes: dict[str, str] = {}
        extras: list[str] = []
        while not self.done() and not self._peek().startswith((b"diff --git ", b"--- ", b"@@ ")):
            line = self._text()
            found = re.fullmatch(r"(old mode|new mode|new file mode|deleted file mode) (\d{6})", line)
            index = re.fullmatch(r"index ([0-9a-f]{4,64})\.\.([0-9a-f]{4,64})(?: (\d{6}))?", line)
            if found:
                modes[found[1]] = found[2]
            elif index:
                modes["index"] = index[3] or ""
            else:
                extras.append(line)
        if self._peek().startswith(b"--- "):
            self._check_names(old, new, modes)
        hunks = tuple(self._hunks())
        created, removed = "new file mode" in modes, "deleted file mode" in modes
        if created and removed:
            raise self._fail(f"{new!r} is both new and removed")
        kept = modes.get("index", "")
        return FileDiff(
            None if created else old, None if removed else new, modes.get("deleted file mode") or modes.get("old mode") or kept,
            modes.get("new file mode") or modes.get("new mode") or kept, hunks, tuple(extras),
        )

    def _git_names(self, text: str) -> tuple[str, str]:
        """Both names; unquoted ones may hold blanks, so both halves must be the same path then, or have none."""
        if text.startswith('"'):
            first, rest = self._unquote(text)
            second = self._unquote(rest[1:])[0] if rest.startswith(' "') else rest[1:]
        elif text.endswith('"') and ' "' in text:
            first, _, rest = text.partition(' "')
            second = self._unquote('"' + rest)[0]
        else:
            half = len(text) // 2
            first, second = (text[:half], text[half + 1:]) if text[2:half] == text[half + 3:] else text.partition(" ")[::2]
        if not first.startswith("a/") or not second.startswith("b/"):
            raise self._fail(f"{text!r} are not two names with a/ and b/")
        return first[2:], second[2:]

    def _unquote(self, text: str) -> tuple[str, str]:
        """A name in quotes, and what follows it."""
        raw, at = bytearray(), 1
        while at < len(text) and text[at] != '"':
            if text[at] != "\\":
                raw += text[at].encode()
            elif octal := re.compile(r"\\([0-3][0-7]{2})").match(text, at):
                raw.append(int(octal[1], 8))
                at += 3
            elif text[at + 1:at + 2] in _UNESCAPES:
                at += 1
                raw.append(_UNESCAPES[text[at]])
            else:
                raise self._fail("an escape that git does not write")
            at += 1
        if at >= len(text):
            raise self._fail("a quote is not closed")
        try:
            return raw.decode(), text[at + 1:]
        except UnicodeDecodeError as error:
            raise self._fail("a name is not UTF-8") from error

    def _check_names(self, old: str, new: str, modes: Mapping[str, str]) -> None:
        """`---` and `+++` must say what `diff --git` said."""
        first = "/dev/null" if "new file mode" in modes else "a/" + old
        second = "/dev/null" if "deleted file mode" in modes else "b/" + new
        for sign, name in (("--- ", first), ("+++ ", second)):
            line = self._text()
            said = line.removeprefix(sign)
            said = self._unquote(said)[0] if said.startswith('"') else said.removesuffix("\t")
            if not line.startswith(sign) or said != name:
                self._at -= 1
                raise self._fail(f"{sign}{name} was expected")

    def _hunks(self) -> Iterator[Hunk]:
        while self._peek().startswith(b"@@"):
            header = _HUNK.fullmatch(self._peek().rstrip(b"\n"))
            if not header:
                raise self._fail("a damaged hunk header")
            self._at += 1
            old, new = int(header[2] or 1), int(header[4] or 1)
            yield Hunk(int(header[1]), old, int(header[3]), new, tuple(self._body(old, new)))
        if not self.done() and not self._peek().startswith(b"diff --git "):
            raise self._fail("text that belongs to no file")

    def _body(self, old: int, new: int) -> Iterator[bytes]:
        while old > 0 or new > 0:
            line = self._peek()
            if line[:1] not in (b" ", b"-", b"+") or not line.endswith(b"\n"):
                raise self._fail("a hunk is shorter than it says")
            old, new = old - (line[:1] != b"+"), new - (line[:1] != b"-")
            self._at += 1
            if self._peek() == NO_END:
                self._at += 1
                line = line[:-1]
            yield line
        if old < 0 or new < 0:
            raise self._fail("a hunk is longer than it says")
