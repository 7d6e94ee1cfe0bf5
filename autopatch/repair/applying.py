"""A model's answer becomes changed files: all of it or nothing, and not a byte outside of it."""

import re
from collections.abc import Iterator, Mapping, Sequence

from autopatch.contract.errors import ContractError
from autopatch.repair.answers import Code, Replacement, parse
from autopatch.repair.edits import Edited, EditError
from autopatch.repair.replacing import Draft, replace_all
from autopatch.repair.syntax import definitions, parse_python, parses
from autopatch.repair.tree import FILE_BYTES, Tree, text_of
from autopatch.repair.whole import put_all, put_function

__all__ = ["EditError", "Edited", "apply_answer"]

_DEFINES = re.compile(r"^\s*(?:export\s+)?(?:async\s+)?(?:class|function|func|fn|interface|struct)\s+(\w+)", re.M)


def apply_answer(
    answer: str, tree: Tree, shown: Sequence[str], *, function: tuple[str, str] | None = None, span: tuple[int, int] | None = None
) -> Edited:
    """Finds the edits in an answer and applies them.

    `shown`: paths that the model was shown, the most likely one first. `function=(path, qualified name)`: the answer is that
    whole function, corrected; it is spliced by its position in the syntax tree (Python), or over `span`, its first and
    last line counted from 1 (any language, needed where it is not Python). Raises EditError.
    """
    texts = _Texts(tree)
    if function and function[0] not in tree:
        raise EditError("path", f"there is no file {function[0]!r}")
    draft = Draft(tree, [function[0]] if function and not shown else shown, texts)
    parsed = parse(answer)
    draft.notes += parsed.notes
    codes = [edit for edit in parsed.edits if isinstance(edit, Code)]
    if blocks := [edit for edit in parsed.edits if isinstance(edit, Replacement)]:
        replace_all(draft, blocks)
    elif function:
        put_function(draft, codes, function[0], function[1], span)
    else:
        put_all(draft, codes)
    return _checked(draft, texts)


class _Texts(Mapping[str, str]):
    """Decoded files of a tree. A file that is no text raises EditError."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def __getitem__(self, path: str) -> str:
        return self.decoded(path)[0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tree)

    def __len__(self) -> int:
        return len(self._tree)

    def decoded(self, path: str) -> tuple[str, str]:
        """Text and codec; those of a new file are '' and UTF-8."""
        try:
            return text_of(self._tree.get(path, b""))
        except ContractError as error:
            raise EditError("forbidden", f"{path}: {error}", feedback=f"{path} cannot be edited. Change another file.") from error


def _checked(draft: Draft, texts: _Texts) -> Edited:
    changes: dict[str, bytes] = {}
    for path, text in draft.changed.items():
        before, codec = texts.decoded(path)
        if text == before and path in draft.tree:
            continue
        changes[path] = _encoded(path, text, codec)
        draft.notes += _lost(path, before, text)
        _refuse_new_syntax_error(path, draft.tree.get(path), changes[path])
    if not changes:
        raise EditError("format", "the answer changes nothing", feedback="The new text is the same as the old one. Change it.")
    return Edited(changes, tuple(dict.fromkeys(draft.notes)))


def _encoded(path: str, text: str, codec: str) -> bytes:
    try:
        data = text.encode(codec)
    except UnicodeEncodeError as error:
        char = text[error.start]
        raise EditError("format", f"{path}: {char!a} cannot be written in {codec}",
        feedback=f"{path} is {codec}: do not use {char!a}.") from error
    if b"\0" in data or len(data) > FILE_BYTES:
        raise EditError("format", f"{path}: the new text is too long or holds a NUL character")
    return data


def _refuse_new_syntax_error(path: str, before: bytes | None, after: bytes) -> None:
    """An old one does not count against an answer, and neither does anything that only a linter minds."""
    if not path.endswith((".py", ".pyi")):
        return
    try:
        parse_python(after)
    except SyntaxError as error:
        if before is not None and not parses(before):
            return
        lines = after.splitlines()
        line = lines[error.lineno - 1].strip()[:80] if error.lineno and error.lineno <= len(lines) else b""
        shown = f" ({line.decode(errors='replace')})" if line else ""
        raise EditError("syntax", f"{path}:{error.lineno or 1}: {error.msg}{shown}") from error


def _lost(path: str, before: str, after: str) -> list[str]:
    """Definitions that are gone: a model often forgets to repeat the line that it searched for."""
    kept = set(_defined(path, after))
    lost = [name for name in dict.fromkeys(_defined(path, before)) if name not in kept]
    return [f"{path}: a definition disappeared: {name}" for name in lost]


def _defined(path: str, text: str) -> list[str]:
    if path.endswith((".py", ".pyi")):
        try:
            return [name for name, _ in definitions(parse_python(text))]
        except SyntaxError:
            return re.findall(r"^\s*(?:async\s+)?(?:def|class)\s+(\w+)", text, re.M)
    return _DEFINES.findall(text)
