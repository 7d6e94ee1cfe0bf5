"""Functions of a file and the lines that they take: Python by its syntax tree, other languages by an outline that is given."""

import ast
from collections.abc import Iterator, Mapping, Sequence

Span = tuple[str, int, int]
Outline = Mapping[str, Sequence[Span]]
"""Functions by path: qualified name, first line, last line."""


def outline_of(path: str, source: bytes, outline: Outline) -> Sequence[Span]:
    """Functions and methods, decorators included; empty for what is neither readable Python nor in the outline."""
    if path in outline:
        return outline[path]
    tree = parsed(source) if path.endswith(".py") else None
    return list(_functions(tree, "")) if tree is not None else []


def parsed(source: bytes) -> ast.Module | None:
    """None for what is not Python of this version."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def innermost(spans: Sequence[Span], line: int) -> Span | None:
    """The outermost function that holds a line, so that what is defined inside a function stays with it; classes give way."""
    holding = [s for s in spans if s[1] <= line <= s[2]]
    return max(holding, key=lambda s: s[2] - s[1]) if holding else None


def _functions(node: ast.AST, prefix: str) -> Iterator[Span]:
    """Methods by themselves, functions inside of functions not."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.FunctionDef(name=name, end_lineno=end) | ast.AsyncFunctionDef(name=name, end_lineno=end):
                yield f"{prefix}{name}", min([child.lineno, *(d.lineno for d in child.decorator_list)]), end or child.lineno
            case ast.ClassDef(name=name):
                yield from _functions(child, f"{prefix}{name}.")
            case ast.stmt() | ast.excepthandler():
                yield from _functions(child, prefix)
            case _:
                pass
