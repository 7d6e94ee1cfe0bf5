"""JSON with comments and trailing commas."""

import json
import re
from typing import Any

import tree_sitter_json
from tree_sitter import Language, Node, Parser

from autopatch.contract.actions import Scalar
from services.executor.adapters.editors.formats import Format, Leaf, Malformed, double_quoted, line_at, number

_STRING_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING_COMMA = re.compile(r'"(?:\\.|[^"\\\n])*"|,(?=\s*[}\]])')


def leaves(text: str) -> list[Leaf]:
    """Places by tree-sitter, which also sees them between comments."""
    data = text.encode()
    root = Parser(Language(tree_sitter_json.language())).parse(data).root_node
    found: list[Leaf] = []

    def place(node: Node, path: str) -> None:
        start, end = (len(data[:b].decode()) for b in (node.start_byte, node.end_byte))
        compound = node.type in ("object", "array")
        fixed = "is a section, not a value" if compound else "is null" if node.type == "null" else ""
        found.append(Leaf(path, start, end, line_at(text, start), fixed))
        if compound:
            visit(node, f"{path}.")

    def visit(node: Node, prefix: str) -> None:
        items = [child for child in node.named_children if child.type not in ("comment", "ERROR") and not child.is_missing]
        for index, child in enumerate(items):
            key, value = child.child_by_field_name("key"), child.child_by_field_name("value")
            if node.type == "array":
                place(child, f"{prefix}{index}")
            elif key and value and key.text:
                place(value, f"{prefix}{json.loads(key.text)}")

    for top in root.named_children:
        if top.type in ("object", "array"):
            visit(top, "")
    return found


def parse(text: str) -> dict[str, Any]:
    """Values by the standard library, once comments and trailing commas are blanked."""
    plain = _STRING_OR_COMMENT.sub(lambda m: m[0] if m[0].startswith('"') else re.sub(r"[^\n]", " ", m[0]), text)
    plain = _TRAILING_COMMA.sub(lambda m: m[0] if m[0].startswith('"') else " ", plain)
    try:
        tree = json.loads(plain)
    except json.JSONDecodeError as error:
        raise Malformed(f"column {error.colno}: {error.msg}", error.lineno) from None
    except RecursionError:
        raise Malformed("nested too deeply", 1) from None
    if not isinstance(tree, dict):
        raise Malformed("the file must hold one object", 1)
    return tree


def render(value: Scalar, _: str) -> str:
    """JSON's own spelling."""
    return double_quoted(value) if isinstance(value, str) else number(value)


JSON = Format(leaves, parse, render)
