"""Files of KEY=value lines as shells and python-dotenv read them; `export `, quotes and inline comments are kept."""

import io
import re
from typing import Any

from dotenv.parser import parse_stream

from autopatch.contract.actions import Scalar
from services.executor.adapters.editors.formats import Format, Leaf, Malformed, line_at, number

_ASSIGNMENT = re.compile(
    r"""^[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*=[ \t]*"""
    r"""('(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[^\r\n'"#\s][^\r\n]*?|)"""
    r"""(?=[ \t]*(?:[ \t]#[^\r\n]*)?(?:\r|\n|\Z))""",
    re.MULTILINE,
)
_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,-]+")


def leaves(text: str) -> list[Leaf]:
    """One leaf per assignment; values over several lines are fixed."""
    found = []
    for match in _ASSIGNMENT.finditer(text):
        fixed = "spans several lines" if "\n" in match[2] else "is empty" if not match[2] else ""
        found.append(Leaf(match[1], match.start(2), match.end(2), line_at(text, match.start(1)), fixed))
    return found


def parse(text: str) -> dict[str, Any]:
    """By python-dotenv, without interpolation; all values are text."""
    values: dict[str, Any] = {}
    for binding in parse_stream(io.StringIO(text, newline="")):
        if binding.error:
            raise Malformed("neither an assignment nor a comment", binding.original.line)
        if binding.key is not None:
            values[binding.key] = binding.value
    return values


def render(value: Scalar, old: str) -> str:
    """Keeps the old quotes; text that a shell would read otherwise is quoted."""
    text = value if isinstance(value, str) else number(value)
    if old.startswith('"') and not re.search(r'["\\$`\r\n]', text):
        return f'"{text}"'
    if not old.startswith(("'", '"')) and _PLAIN.fullmatch(text):
        return text
    return f"'{text}'"


ENV = Format(leaves, parse, render, typed=False)
