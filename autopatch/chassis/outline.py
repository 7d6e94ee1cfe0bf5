"""Where the functions, methods and classes of a source file are, by tree-sitter. Pure; a grammar is loaded at first use."""

import importlib
import json
import re
import resource
import signal
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Query

Kind = Literal["function", "method", "class"]

LARGEST = 1_000_000
"""Bytes. A larger file has no outline: it is data, or was written by a program."""
LONGEST_NAME = 200


class Definition(NamedTuple):
    """`name` is qualified by what is around it, as in `Book.total`; lines count from 1, decorators and `export` included.

    A struct, an interface, an enum, a record and a Go type are classes too.
    """

    name: str
    kind: Kind
    start: int
    end: int


def outline(path: str, data: bytes) -> tuple[Definition, ...]:
    """In the order of the file, outer before inner. What is broken in it hides only itself.

    Empty when the language is not known by the path's suffix, its grammar is not installed or the file is over LARGEST bytes.
    A few kilobytes written to harm can cost minutes and gigabytes: files that others wrote go through `outlines`.
    """
    suffix = PurePosixPath(path).suffix.lower()
    if len(data) > LARGEST or suffix not in _GRAMMARS:
        return ()
    try:
        return tuple(_named(list(_found(data, *_language(suffix)))))
    except ImportError:
        return ()


def known(path: str) -> bool:
    """Is there an outline of files with this suffix?"""
    return PurePosixPath(path).suffix.lower() in _GRAMMARS


def serve(memory: int, cpu_s: int) -> None:
    """What `outlines` runs in another process: files on standard input, a line of JSON for each on standard output."""
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while head := sys.stdin.buffer.readline():
        path, size = json.loads(head)
        data = sys.stdin.buffer.read(size)
        signal.setitimer(signal.ITIMER_PROF, cpu_s)  # its signal ends the process
        sys.stdout.write(json.dumps(outline(path, data)) + "\n")
        sys.stdout.flush()


class _Match(NamedTuple):
    node: "Node"
    name: str
    what: str  # function, method, class; scope (an object with a name) and namespace only qualify


_PYTHON = """
(function_definition name: (_) @name) @function
(class_definition name: (_) @name) @class
"""
_FUNCTION = "[(arrow_function) (function_expression) (generator_function)]"
_ECMA = f"""
(function_declaration name: (_) @name) @function
(generator_function_declaration name: (_) @name) @function
(class_declaration name: (_) @name) @class
(method_definition name: (_) @name) @method
(pair key: (_) @name value: {_FUNCTION}) @function
(variable_declarator name: (identifier) @name value: {_FUNCTION}) @function
(variable_declarator name: (identifier) @name value: (class)) @class
(variable_declarator name: (identifier) @name value: (object)) @scope
(assignment_expression left: (_) @name right: {_FUNCTION}) @function
(assignment_expression left: (_) @name right: (class)) @class
(export_statement "default" @name value: {_FUNCTION}) @function
(export_statement "default" @name value: (class)) @class
"""
_JAVASCRIPT = f"{_ECMA}(field_definition property: (_) @name value: {_FUNCTION}) @function"
_TYPESCRIPT = f"""{_ECMA}
(public_field_definition name: (_) @name value: {_FUNCTION}) @function
(abstract_class_declaration name: (_) @name) @class
(interface_declaration name: (_) @name) @class
(enum_declaration name: (_) @name) @class
(internal_module name: (_) @name) @namespace
"""
_GO = """
(function_declaration name: (_) @name) @function
(method_declaration receiver: (parameter_list (parameter_declaration type: (_) @owner)) name: (_) @name) @method
(type_spec name: (_) @name) @class
(var_spec name: (_) @name value: (expression_list . (func_literal) .)) @function
(short_var_declaration left: (expression_list . (identifier) @name .) right: (expression_list . (func_literal) .)) @function
"""
_JAVA = """
(class_declaration name: (_) @name) @class
(interface_declaration name: (_) @name) @class
(enum_declaration name: (_) @name) @class
(record_declaration name: (_) @name) @class
(annotation_type_declaration name: (_) @name) @class
(method_declaration name: (_) @name) @method
(constructor_declaration name: (_) @name) @method
(compact_constructor_declaration name: (_) @name) @method
"""
_GRAMMARS = {
    **dict.fromkeys((".py", ".pyi", ".pyw"), ("tree_sitter_python", "language", _PYTHON)),
    **dict.fromkeys((".js", ".jsx", ".mjs", ".cjs"), ("tree_sitter_javascript", "language", _JAVASCRIPT)),
    **dict.fromkeys((".ts", ".mts", ".cts"), ("tree_sitter_typescript", "language_typescript", _TYPESCRIPT)),
    ".tsx": ("tree_sitter_typescript", "language_tsx", _TYPESCRIPT),
    ".go": ("tree_sitter_go", "language", _GO),
    ".java": ("tree_sitter_java", "language", _JAVA),
}
_AROUND = {"decorated_definition", "export_statement", "expression_statement", "ambient_declaration"}
_LISTS = {"lexical_declaration", "variable_declaration", "type_declaration", "var_declaration"}
"""Parents that belong to a definition; those in _LISTS only when it is the only one in them."""
_PREFIX = re.compile(r"^(?:this|exports|module\.exports)\.|^module\.(?=exports$)|(?<=\.)prototype\.")


@cache
def _language(suffix: str) -> "tuple[Language, Query]":
    from tree_sitter import Language, Query

    module, function, patterns = _GRAMMARS[suffix]
    language = Language(getattr(importlib.import_module(module), function)())
    return language, Query(language, patterns)


def _found(data: bytes, language: "Language", query: "Query") -> Iterator[_Match]:
    from tree_sitter import Parser, QueryCursor

    for _, captured in QueryCursor(query).matches(Parser(language).parse(data).root_node):
        name = _text(captured.pop("name")[0])
        owner = captured.pop("owner", None)
        if owner and (receiver := re.search(r"\w+", _text(owner[0]))):
            name = f"{receiver.group()}.{name}"
        [(what, [node, *_])] = captured.items()
        if name:
            yield _Match(node, name, what)


def _named(matches: list[_Match]) -> Iterator[Definition]:
    around: list[_Match] = []
    for match in sorted(matches, key=lambda m: (m.node.start_byte, -m.node.end_byte)):
        while around and around[-1].node.end_byte <= match.node.start_byte:
            around.pop()
        within = around[-1].what if around else ""
        around.append(match)
        name = ".".join(m.name for m in around)
        start, end = _lines(match.node)
        match match.what:
            case "function":
                yield Definition(name, "method" if within in ("class", "scope") else "function", start, end)
            case "method":
                yield Definition(name, "method", start, end)
            case "class":
                yield Definition(name, "class", start, end)


def _lines(node: "Node") -> tuple[int, int]:
    while (outer := node.parent) and (outer.type in _AROUND or (outer.type in _LISTS and outer.named_child_count == 1)):
        node = outer
    first = node
    while (before := first.prev_sibling) and before.type == "decorator":
        first = before
    start, end = first.start_point.row + 1, node.end_point.row + 1
    return start, end - 1 if node.end_point.column == 0 and end > start else end


def _text(node: "Node") -> str:
    text = " ".join((node.text or b"").decode(errors="replace").split())
    return _PREFIX.sub("", text.strip("\"'`"))[:LONGEST_NAME]
