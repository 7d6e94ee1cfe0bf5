"""INI: sections, `key = value` or `key: value`, whole-line and inline comments; keys are `section.key`."""

import configparser
import re
from typing import Any

from autopatch.contract.actions import Scalar
from services.executor.adapters.editors.formats import Format, Leaf, Malformed, number

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r|$)")
_SECTION = re.compile(r"\s*\[([^\]]+)\]")
_OPTION = re.compile(r"([^\s=:#;\[][^=:\r\n]*?)[ \t]*[=:][ \t]*([^\r\n]*?)(?=[ \t]*(?:$|[\r\n])|[ \t]+[;#])")
_TOP = "\0"


def leaves(text: str) -> list[Leaf]:
    """One scan by line; a value with continuation lines is fixed."""
    found: list[Leaf] = []
    section = ""
    for number_, line in enumerate(_LINE.finditer(text), 1):
        raw = line.group()
        if match := _SECTION.match(raw):
            section = match[1]
        elif match := _OPTION.match(raw):
            path = f"{section}.{match[1]}" if section else match[1]
            start = line.start() + match.start(2)
            found.append(Leaf(path, start, line.start() + match.end(2), number_, "" if match[2] else "is empty"))
        elif raw[:1] in (" ", "\t") and raw.strip() and raw.strip()[0] not in "#;" and found:
            last = found.pop()
            found.append(Leaf(last.path, last.start, last.end, last.line, "spans several lines"))
    return found


def parse(text: str) -> dict[str, Any]:
    """By the standard library; all values are text. A key that is there twice is kept once: the finder of places names both."""
    reader = configparser.RawConfigParser(
        strict=False, inline_comment_prefixes=("#", ";"), default_section="\0\0", empty_lines_in_values=False,
        allow_no_value=True,
    )
    reader.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        reader.read_string(f"[{_TOP}]\n{text}")
    except configparser.ParsingError as error:
        raise Malformed("neither a section, a key nor a comment", error.errors[0][0] - 1) from None
    except configparser.Error as error:
        raise Malformed(str(error).splitlines()[0]) from None
    tree: dict[str, Any] = {name: dict(reader.items(name)) for name in reader.sections() if name != _TOP}
    return {**dict(reader.items(_TOP)), **tree}


def render(value: Scalar, _: str) -> str:
    """As it is: INI has neither quotes nor types."""
    return value if isinstance(value, str) else number(value)


INI = Format(leaves, parse, render, typed=False)
