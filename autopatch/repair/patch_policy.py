"""Which diffs are refused before git sees them."""

import re
from collections.abc import Iterator

from autopatch.contract.errors import ContractError
from autopatch.repair.diffs import FileDiff, apply_diff, parse_diff
from autopatch.repair.paths import fold, untouchable
from autopatch.repair.tree import Tree, executables

DIFF_BYTES = 256 * 1024
FILES = 20
LINES = 2000
"""Lines taken out and put in, over all files."""
LINE_BYTES = 20_000
MODES = ("100644", "100755")
_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069]")


def refusals(diff: bytes, tree: Tree) -> tuple[str, ...]:
    """Why this diff may not be applied to the snapshot `tree`, one line a reason; empty when it may."""
    if not diff:
        return ("the diff is empty: it changes nothing",)
    if len(diff) > DIFF_BYTES:
        return (f"the diff has {len(diff)} bytes, more than {DIFF_BYTES}",)
    try:
        files = parse_diff(diff)
    except ContractError as error:
        return (str(error),)
    reasons = [f"{file.path!r} {why}" for file in files for why in _of_file(file, tree)] + list(_of_all(files))
    if not reasons:
        try:
            apply_diff(diff, tree)
        except ContractError as error:
            return (str(error),)
    return tuple(dict.fromkeys(reasons))


def _of_file(file: FileDiff, tree: Tree) -> Iterator[str]:
    for path in dict.fromkeys(path for path in (file.old, file.new) if path is not None):
        if why := untouchable(path, tree):
            yield why
        if not path.isprintable():
            yield "holds control characters in its name"
    if file.old is not None and file.new is not None and file.old != file.new:
        yield f"was {file.old!r}: files are not renamed"
    yield from _of_modes(file, tree)
    if file.extras:
        yield f"comes with {file.extras[0][:60]!r}: only contents may change"
    if not file.hunks and not _empty(file, tree):
        yield "has no hunk: nothing of its content changes"
    yield from _of_lines(file)


def _of_modes(file: FileDiff, tree: Tree) -> Iterator[str]:
    is_mode = "100644" if file.old is None or file.old not in executables(tree) else "100755"
    for mode in dict.fromkeys((file.old_mode, file.new_mode)):
        if mode and mode not in MODES:
            yield "is " + {"120000": "a symbolic link", "160000": "a submodule"}.get(mode, f"a file of mode {mode}")
        elif mode and mode != is_mode:
            yield f"would have the mode {mode}, not {is_mode}"


def _empty(file: FileDiff, tree: Tree) -> bool:
    """A new or a removed empty file has no hunk."""
    return file.old is None or (file.new is None and tree.get(file.old) == b"")


def _of_lines(file: FileDiff) -> Iterator[str]:
    lines = [line for hunk in file.hunks for line in hunk.lines]
    if any(b"\0" in line for line in lines):
        yield "is binary"
    added = [line for line in lines if line[:1] == b"+"]
    if any(len(line) > LINE_BYTES for line in added):
        yield f"would get a line of more than {LINE_BYTES} bytes"
    if any(_BIDI.search(line.decode("utf-8", "replace")) for line in added):
        yield "would get characters that turn the direction of text, which hide code from a reader"


def _of_all(files: tuple[FileDiff, ...]) -> Iterator[str]:
    if len(files) > FILES:
        yield f"the diff changes {len(files)} files, more than {FILES}"
    changed = sum(line[:1] != b" " for file in files for hunk in file.hunks for line in hunk.lines)
    if changed > LINES:
        yield f"the diff changes {changed} lines, more than {LINES}"
    seen: dict[str, str] = {}
    for file in files:
        other = seen.setdefault(fold(file.path), file.path)
        if other != file.path:
            yield f"{file.path!r} and {other!r} differ by case or Unicode form only"
    paths = [file.path for file in files]
    for path in dict.fromkeys(path for path in paths if paths.count(path) > 1):
        yield f"{path!r} is there twice"
