"""TOML: tomlkit writes the file back with a marker in a value's place, which shows where that value was; tomllib reads values."""

import re
import tomllib
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from autopatch.contract.actions import Scalar
from services.executor.adapters.editors.formats import Format, Leaf, Malformed, double_quoted, line_at, number


def leaves(text: str) -> list[Leaf]:
    """A value whose place cannot be had exactly is fixed."""
    parse(text)
    marker = "7160917061"
    while marker in text:
        marker += "7"
    found: list[Leaf] = []

    def visit(node: Any, prefix: str) -> None:
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            path, value = f"{prefix}{key}", node[key]
            if isinstance(value, dict | list):
                found.append(Leaf(path, 0, 0, 0, "is a section, not a value"))
                visit(value, f"{path}.")
                continue
            node[key] = int(marker)
            marked = tomlkit.dumps(document)
            node[key] = value
            found.append(_place(text, marked, marker, path))

    try:
        document = tomlkit.parse(text)
        visit(document, "")
    except TOMLKitError as error:
        raise Malformed(str(error), getattr(error, "line", 0)) from None
    return found


def _place(text: str, marked: str, marker: str, path: str) -> Leaf:
    before, _, after = marked.partition(marker)
    start, end = len(before), len(text) - len(after)
    if not (text.startswith(before) and text.endswith(after) and start < end):
        return Leaf(path, 0, 0, 0, "cannot be changed without touching more")
    fixed = "spans several lines" if "\n" in text[start:end] else ""
    return Leaf(path, start, end, line_at(text, start), fixed)


def parse(text: str) -> dict[str, Any]:
    """By the standard library, which refuses a key that is there twice and names its line."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"line (\d+)", str(error))
        raise Malformed(str(error), int(at[1]) if at else line_at(text, len(text))) from None


def render(value: Scalar, old: str) -> str:
    """Literal strings stay literal where they can."""
    if not isinstance(value, str):
        return number(value)
    if old.startswith("'") and "'" not in value and value.isprintable():
        return f"'{value}'"
    return double_quoted(value)


TOML = Format(leaves, parse, render)
