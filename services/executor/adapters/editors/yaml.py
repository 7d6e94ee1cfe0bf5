"""YAML 1.2: ruamel composes the places, its safe loader reads the values."""

from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from autopatch.chassis.yaml_text import FAULTS, brief
from autopatch.contract.actions import Scalar
from services.executor.adapters.editors.formats import Format, Leaf, Malformed, double_quoted, line_at, number


def leaves(text: str) -> list[Leaf]:
    """Scalars of all mappings and lists; what an alias or anchor shares is fixed."""
    found: list[Leaf] = []

    def place(node: Node, path: str, inside: tuple[int, ...]) -> None:
        if id(node) in inside:
            raise Malformed("refers to itself", node.start_mark.line + 1)
        start, end = node.start_mark.index, node.end_mark.index
        found.append(Leaf(path, start, end, line_at(text, start), _fixed(node, text[start:end])))
        children: list[tuple[str, Node]] = []
        if isinstance(node, MappingNode):
            children = [(str(key.value), value) for key, value in node.value]
        elif isinstance(node, SequenceNode):
            children = [(str(index), value) for index, value in enumerate(node.value)]
        for name, child in children:
            place(child, f"{path}.{name}" if path else name, (*inside, id(node)))

    root = _guarded(lambda: YAML().compose(text))
    if root is not None:
        place(root, "", ())
    return found[1:]


def _fixed(node: Node, raw: str) -> str:
    if not isinstance(node, ScalarNode):
        return "is a section, not a value"
    if node.anchor or raw.startswith(("!", "*")):
        return "carries an anchor, alias or tag"
    if node.style in ("|", ">") or "\n" in raw:
        return "spans several lines"
    return "is empty" if str(node.tag).endswith(":null") else ""


def parse(text: str) -> dict[str, Any]:
    """The document as plain values; of a key that is there twice the last one counts."""
    yaml = YAML(typ="safe", pure=True)
    yaml.allow_duplicate_keys = True
    tree = _guarded(lambda: yaml.load(text))
    if not isinstance(tree, dict):
        raise Malformed("the file must hold one mapping", 1)
    return tree


def _guarded(read: Any) -> Any:
    try:
        return read()
    except MarkedYAMLError as error:
        raise Malformed(str(error.problem or error.context), error.problem_mark.line + 1 if error.problem_mark else 1) from None
    except FAULTS as error:
        raise Malformed(brief(error), 1) from None


def render(value: Scalar, old: str) -> str:
    """Keeps the quotes of the old text; plain text stays plain only when it reads back as the same text."""
    if not isinstance(value, str):
        return number(value)
    if old.startswith("'") and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    if not old.startswith('"') and value.isprintable() and _is_plain(value):
        return value
    return double_quoted(value)


def _is_plain(value: str) -> bool:
    try:
        return bool(parse(f"k: {value}") == {"k": value} and parse(f"k: [{value}]") == {"k": [value]})
    except Malformed:
        return False


YAML_FORMAT = Format(leaves, parse, render)
