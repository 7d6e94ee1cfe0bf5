"""A wrong name: variable, attribute, function, method."""

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from autopatch.repair.templates.mutant import Edit, Site, Template

FAMILIES = (
    ("min", "max"), ("any", "all"), ("floor", "ceil", "round", "int"), ("sorted", "reversed", "list"), ("int", "float"),
    ("list", "set", "tuple"), ("range", "enumerate"), ("sum", "max", "len", "min"), ("str", "repr"), ("chr", "ord"),
    ("filter", "map"),
    ("sin", "cos"), ("sqrt", "log"), ("log", "log2", "log10"), ("zip", "zip_longest"), ("print", "str"), ("isfinite", "isnan"),
    ("deepcopy", "copy"), ("gcd", "lcm"), ("abs", "int"), ("bin", "hex", "oct"), ("len", "sum"), ("permutations", "combinations"),
)
METHODS = (
    ("append", "extend", "add", "insert"), ("lower", "upper", "swapcase", "title", "capitalize"), ("startswith", "endswith"),
    ("keys", "values", "items"), ("add", "update", "discard", "remove"), ("strip", "lstrip", "rstrip"),
    ("find", "rfind", "index"),
    ("split", "rsplit", "splitlines"), ("isdigit", "isalpha", "isalnum", "isnumeric"), ("islower", "isupper"),
    ("union", "intersection"),
    ("difference", "symmetric_difference", "union"), ("issubset", "issuperset"), ("pop", "popleft", "get"),
    ("append", "appendleft"),
    ("removeprefix", "removesuffix"), ("ljust", "rjust", "center", "zfill"), ("read", "readlines"), ("partition", "rpartition"),
    ("count", "index"), ("put", "put_nowait"), ("isspace", "isalnum"), ("acquire", "release"), ("get", "setdefault", "pop"),
    ("seconds", "total_seconds()"),
)
ERRORS = (
    "ValueError", "TypeError", "KeyError", "IndexError", "LookupError", "AttributeError", "ZeroDivisionError",
    "RuntimeError", "OSError",
    "FileNotFoundError", "StopIteration", "NotImplementedError", "OverflowError", "PermissionError", "TimeoutError", "Exception",
)


def variable(site: Site, node: ast.AST) -> Iterator[Edit]:
    """Another name of the same scope."""
    match node:
        case ast.Name(id=old, ctx=context):
            pass
        case _:
            return
    parent = site.parent(node)
    if (isinstance(parent, ast.Call) and parent.func is node) or isinstance(context, ast.Del):
        return
    if old not in site.scope.names:
        return
    kind = site.scope.kinds.get(old, "")
    stored = 0.5 if isinstance(context, ast.Store) else 1.0
    for name in site.scope.names:
        if name != old and name != "self":
            yield site.replace(node, name, stored * site.scope.fit(kind, name))
    if isinstance(context, ast.Load):
        for name in site.scope.globals:
            yield site.replace(node, name, 0.3 * site.scope.fit(kind, name))
        for attribute in site.scope.attributes:
            yield site.replace(node, f"self.{attribute}", 0.9 if attribute == old else 0.3)


def attribute(site: Site, node: ast.AST) -> Iterator[Edit]:
    """Another attribute of the same object; an object's attribute for a local name."""
    match node:
        case ast.Attribute(value=ast.Name(id="self"), attr=old):
            start, end = site.source.span(node)
            for other in site.scope.attributes:
                if other != old:
                    yield Edit(end - len(old), end, other)
            if old in site.scope.names:
                yield Edit(start, end, old)
        case ast.Attribute(attr=old) if old in site.scope.members:
            end = site.source.span(node)[1]
            for other in site.scope.members:
                if other != old:
                    yield Edit(end - len(old), end, other, 0.5)
        case ast.Name(id=old, ctx=ast.Store()) if old in site.scope.attributes:
            yield site.replace(node, f"self.{old}")
        case _:
            pass


def formatted(site: Site, node: ast.AST) -> Iterator[Edit]:
    """Another name in a field of a format string; by its text, since older syntax trees do not say where fields lie."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.JoinedStr):
            start = site.source.span(child)[0]
            for found in re.finditer(r"(?<!\{)\{([A-Za-z_]\w*)\b", site.source.of(child)):
                old = found.group(1)
                for new in site.scope.names if old in site.scope.names else ():
                    if new not in (old, "self"):
                        weight = site.scope.fit(site.scope.kinds.get(old, ""), new)
                        yield Edit(start + found.start(1), start + found.end(1), new, weight)


def function(site: Site, node: ast.AST) -> Iterator[Edit]:
    """A sibling of a called or passed function: min and max, any and all, floor and ceil, another function of the file."""
    match node:
        case ast.Name(id=old, ctx=ast.Load()) | ast.Attribute(attr=old, value=ast.Name(id="math" | "itertools" | "copy")):
            pass
        case _:
            return
    end = site.source.span(node)[1]
    for family in FAMILIES:
        for new in family if old in family else ():
            if new != old:
                yield Edit(end - len(old), end, new, 1.0 if len(family) == 2 else 0.6)
    parent = site.parent(node)
    if old in site.scope.functions and isinstance(parent, ast.Call) and parent.func is node:
        for new in site.scope.functions:
            if new != old:
                yield Edit(end - len(old), end, new, 0.4)


def method(site: Site, node: ast.AST) -> Iterator[Edit]:
    """A sibling of a method: append and extend, lower and upper, strip and lstrip; the whole of a time span for its seconds."""
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        end = site.source.span(node)[1]
        for family in METHODS:
            for new in family if node.attr in family else ():
                if new != node.attr:
                    yield Edit(end - len(node.attr), end, new, 1.0 if len(family) == 2 else 0.6)


def error(site: Site, node: ast.AST) -> Iterator[Edit]:
    """Another kind of error, raised or caught: of the file's own kinds, or of the usual ones."""
    if isinstance(node, ast.Name):
        own = _raised(site.source.tree)
        for new in dict.fromkeys([*own, *ERRORS]) if node.id in ERRORS or node.id in own else ():
            if new != node.id:
                yield site.replace(node, new, 0.3 if new == "Exception" else 1.0)


@lru_cache(maxsize=4)
def _raised(tree: ast.AST) -> tuple[str, ...]:
    """Names of what a file raises; asked once for each name in it."""
    found: dict[str, None] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Raise(exc=ast.Name(id=name) | ast.Call(func=ast.Name(id=name))):
                found[name] = None
            case _:
                pass
    return tuple(found)


TEMPLATES = (
    Template("sibling function", 0.55, function),
    Template("sibling method", 0.5, method),
    Template("another variable", 0.5, variable),
    Template("another attribute", 0.45, attribute),
    Template("another variable in a format string", 0.4, formatted),
    Template("another kind of error", 0.35, error),
)
