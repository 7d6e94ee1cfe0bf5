"""What an editor must know of a file format, and the five formats that there are."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, assert_never

from autopatch.contract.actions import Scalar

Name = Literal["json", "yaml", "toml", "ini", "env"]


class Malformed(Exception):
    """The text is not of this format; `line` counts from 1, 0 when unknown."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.line = line


@dataclass(frozen=True)
class Leaf:
    """Characters [start, end) of a text hold the value of a dotted path. `fixed`: why they can't be replaced, else ''."""

    path: str
    start: int
    end: int
    line: int
    fixed: str = ""


@dataclass(frozen=True)
class Format:
    """`leaves` finds places, `parse` reads values by another parser than the one that found the places; both raise Malformed.

    `render` writes a value in the style of the old text, `typed` says that the format itself tells 10 from "10".
    """

    leaves: Callable[[str], list[Leaf]]
    parse: Callable[[str], dict[str, Any]]
    render: Callable[[Scalar, str], str]
    typed: bool = True


def format_of(name: Name) -> Format:
    """The format of that name; its parser is imported on first use."""
    match name:
        case "json":
            from services.executor.adapters.editors.json_comments import JSON

            return JSON
        case "yaml":
            from services.executor.adapters.editors.yaml import YAML_FORMAT

            return YAML_FORMAT
        case "toml":
            from services.executor.adapters.editors.toml import TOML

            return TOML
        case "ini":
            from services.executor.adapters.editors.ini import INI

            return INI
        case "env":
            from services.executor.adapters.editors.env import ENV

            return ENV
        case _:
            assert_never(name)


def flatten(tree: Any, prefix: str = "") -> dict[str, Any]:
    """Nested mappings and lists as dotted path -> scalar; empty ones stand for themselves."""
    if not isinstance(tree, dict | list) or (prefix and not tree):
        return {prefix: tree}
    flat: dict[str, Any] = {}
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        flat |= flatten(value, f"{prefix}.{key}" if prefix else str(key))
    return flat


def line_at(text: str, index: int) -> int:
    """The line of a character, counted from 1."""
    return text.count("\n", 0, index) + 1


def number(value: Scalar) -> str:
    """A boolean or number as all five formats write it."""
    return json.dumps(value)


def double_quoted(value: str) -> str:
    """Text in double quotes with escapes that JSON, YAML and TOML share."""
    return '"' + _UNSAFE.sub(lambda m: _SHORT.get(m[0], f"\\u{ord(m[0]):04x}"), value) + '"'


_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\"\\\\]")
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
