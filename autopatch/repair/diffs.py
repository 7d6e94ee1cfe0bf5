"""Unified diffs in git's format, byte by byte."""

import difflib
import hashlib
from collections.abc import Iterator, Mapping, Sequence

from autopatch.contract.errors import ContractError
from autopatch.repair.diff_reader import ESCAPES, NO_END, FileDiff, Hunk, lines_of, parse_diff
from autopatch.repair.tree import Tree, executables, unfit_path

__all__ = ["FileDiff", "Hunk", "apply_diff", "make_diff", "parse_diff"]

CONTEXT = 3
"""Unchanged lines around a change."""
_GRIND = 1000
"""Lines from which difflib may take frequent lines for noise: a diff need not be the shortest then."""


def make_diff(before: Tree, after: Tree) -> bytes:
    """What `git apply` turns `before` into `after` with; b'' when they are equal.

    Modes stay as `before` has them and new files have 100644. Raises ContractError for a path that git would not take.
    """
    executable = executables(before)
    parts = []
    for path in sorted({*before, *after}, key=lambda path: path.encode("utf-8", "surrogatepass")):
        old, new = before.get(path), after.get(path)
        if old == new:
            continue
        if why := unfit_path(path):
            raise ContractError(f"a diff of files: the path {path!r} {why}")
        parts.append(_file(path, old, new, "100755" if path in executable else "100644"))
    return b"".join(parts)


def _file(path: str, old: bytes | None, new: bytes | None, mode: str) -> bytes:
    a, b = quoted("a/" + path), quoted("b/" + path)
    head = f"diff --git {a} {b}\n"
    head += f"new file mode {mode}\n" if old is None else f"deleted file mode {mode}\n" if new is None else ""
    head += f"index {_blob(old)}..{_blob(new)}" + (f" {mode}\n" if old is not None and new is not None else "\n")
    if hunks := b"".join(_hunks(lines_of(old or b""), lines_of(new or b""))):
        head += f"--- {_named(a) if old is not None else '/dev/null'}\n+++ {_named(b) if new is not None else '/dev/null'}\n"
    return head.encode() + hunks


def _blob(content: bytes | None) -> str:
    """git's name of a content."""
    if content is None:
        return "0" * 40
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def quoted(path: str) -> str:
    """As git writes it: in quotes and with escapes when a byte is not plain ASCII."""
    raw = path.encode()
    if all(32 <= byte < 127 and byte not in (34, 92) for byte in raw):
        return path
    return '"' + "".join(
        "\\" + ESCAPES[byte] if byte in ESCAPES else chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}" for byte in raw
    ) + '"'


def _named(path: str) -> str:
    """git ends a bare name that holds a blank with a tab."""
    return path + "\t" if " " in path and not path.startswith('"') else path


def _hunks(old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[bytes]:
    for group in _groups(_changes(old, new), len(old)):
        start, stop = max(group[0][0] - CONTEXT, 0), min(group[-1][1] + CONTEXT, len(old))
        offset, out, at = group[0][2] - group[0][0], [], start
        for i, until, j, end in group:
            for sign, lines in ((b" ", old[at:i]), (b"-", old[i:until]), (b"+", new[j:end])):
                out += [sign + line for line in lines]
            at = until
        out += [b" " + line for line in old[at:stop]]
        grown = sum((end - j) - (until - i) for i, until, j, end in group)
        head = b"@@ -%s +%s @@\n" % (_range(start, stop - start), _range(start + offset, stop - start + grown))
        yield head + b"".join(line if line.endswith(b"\n") else line + b"\n" + NO_END for line in out)


def _range(start: int, count: int) -> bytes:
    first = start + 1 if count else start
    return b"%d" % first if count == 1 else b"%d,%d" % (first, count)


Change = tuple[int, int, int, int]
"""Old lines from, to, new lines from, to."""


def _changes(old: Sequence[bytes], new: Sequence[bytes]) -> list[Change]:
    """Equal lines at both ends are set aside first, which keeps difflib fast on large files."""
    short = min(len(old), len(new))
    head = next((n for n in range(short) if old[n] != new[n]), short)
    tail = next((n for n in range(short - head) if old[-1 - n] != new[-1 - n]), short - head)
    ours, theirs = old[head:len(old) - tail], new[head:len(new) - tail]
    matcher = difflib.SequenceMatcher(None, ours, theirs, autojunk=max(len(ours), len(theirs)) > _GRIND)
    return [(i + head, until + head, j + head, end + head) for what, i, until, j, end in matcher.get_opcodes() if what != "equal"]


def _groups(changes: Sequence[Change], count: int) -> Iterator[list[Change]]:
    """Changes whose context would touch share a hunk."""
    group: list[Change] = []
    for change in changes:
        if group and change[0] - group[-1][1] > 2 * CONTEXT:
            yield group
            group = []
        group.append(change)
    if group:
        yield group


def apply_diff(diff: bytes, tree: Tree) -> Mapping[str, bytes | None]:
    """New contents by path, None for removed files. Exact: no offset, no fuzz. Raises ContractError where it does not fit."""
    changes: dict[str, bytes | None] = {}
    for file in parse_diff(diff):
        if file.extras or (file.old and file.new and (file.old != file.new or file.old_mode != file.new_mode)):
            raise ContractError(f"a diff of files: {file.path!r}: more than its content would change")
        if file.path in changes:
            raise ContractError(f"a diff of files: {file.path!r} is there twice")
        if (file.old in tree) != (file.old is not None) or (file.old is None and file.new in tree):
            raise ContractError(f"a diff of files: {file.path!r} is {'there already' if file.old is None else 'not there'}")
        new = _applied(file, lines_of(tree[file.old]) if file.old is not None else [])
        if file.new is None and new:
            raise ContractError(f"a diff of files: {file.path!r} is removed, but not all of it")
        changes[file.path] = new if file.new is not None else None
    return changes


def _applied(file: FileDiff, old: Sequence[bytes]) -> bytes:
    out: list[bytes] = []
    at = 0
    for hunk in file.hunks:
        start = hunk.old_start - (1 if hunk.old_count else 0)
        theirs = [line[1:] for line in hunk.lines if line[:1] != b"+"]
        out += old[at:start]
        placed = start >= at and len(out) == hunk.new_start - (1 if hunk.new_count else 0)
        if not placed or list(old[start:start + len(theirs)]) != theirs:
            raise ContractError(f"a diff of files: {file.path!r}: the hunk at line {hunk.old_start} does not fit")
        out += [line[1:] for line in hunk.lines if line[:1] != b"-"]
        at = start + len(theirs)
    out += old[at:]
    if any(not line.endswith(b"\n") for line in out[:-1]):
        raise ContractError(f"a diff of files: {file.path!r}: a line in the middle has no end")
    return b"".join(out)
