"""A Python file with its syntax tree, and where in its text each node lies."""

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

NEWLINE = re.compile(r"\r\n|\r|\n")
Function = ast.FunctionDef | ast.AsyncFunctionDef
Simple = (
    ast.Return, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Raise, ast.Assert, ast.Delete, ast.Pass, ast.Break,
    ast.Continue,
)
"""Statements without a block of their own."""
LOOSE = (ast.BinOp, ast.BoolOp, ast.Compare, ast.UnaryOp, ast.IfExp, ast.Lambda, ast.Await, ast.NamedExpr)
"""Expressions that an operator beside them could tear apart."""


@dataclass(frozen=True)
class Source:
    """Text and tree of one file. Spans are character offsets into `text`, a byte order mark not counted."""

    text: str
    encoding: str
    tree: ast.Module
    starts: tuple[int, ...]
    parents: dict[ast.AST, ast.AST] = field(repr=False)
    spans: dict[ast.AST, tuple[int, int]] = field(default_factory=dict, repr=False)
    below: dict[ast.AST, tuple[ast.AST, ...]] = field(default_factory=dict, repr=False)

    def offset(self, line: int, column: int) -> int:
        """Of a line (from 1) and a column in UTF-8 bytes, as the syntax tree tells them."""
        start = self.starts[line - 1]
        if self.text.isascii():
            return start + column
        end = self.starts[line] if line < len(self.starts) else len(self.text)
        return start + len(self.text[start:end].encode()[:column].decode(errors="ignore"))

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Where an expression or statement begins and ends, parentheses around it not counted."""
        found = self.spans.get(node)
        if found is None:
            assert isinstance(node, ast.expr | ast.stmt | ast.excepthandler | ast.arg | ast.keyword)
            assert node.end_lineno is not None and node.end_col_offset is not None
            found = self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)
            self.spans[node] = found
        return found

    def of(self, node: ast.AST) -> str:
        """Its text."""
        start, end = self.span(node)
        return self.text[start:end]

    def inner(self, node: ast.expr) -> str:
        """Its text, in parentheses where another operator beside it could tear it apart."""
        text = self.of(node)
        return f"({text})" if isinstance(node, LOOSE) or (isinstance(node, ast.Tuple) and text[:1] != "(") else text

    def line_span(self, node: ast.stmt) -> tuple[int, int] | None:
        """The whole lines of a statement, line end included; None when it shares a line with something else."""
        (start, after), (_, end) = self.lines(node), self.span(node)
        rest = self.text[end:after].strip()
        return None if self.indent(node).strip() or (rest and not rest.startswith("#")) else (start, after)

    def indent(self, node: ast.stmt) -> str:
        """The white space before a statement."""
        return self.text[self.starts[node.lineno - 1]:self.span(node)[0]]

    def newline(self) -> str:
        """How lines end, by the first that does."""
        found = NEWLINE.search(self.text)
        return found.group() if found else "\n"

    def step(self) -> str:
        """One level of indentation, by the first indented statement of a block."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.stmt) and isinstance(getattr(node, "body", None), list):
                inner, outer = self.indent(node.body[0]), self.indent(node)  # type: ignore[attr-defined]
                if inner.isspace() and inner.startswith(outer) and len(inner) > len(outer):
                    return inner[len(outer):]
        return "    "

    def statement(self, node: ast.AST) -> ast.stmt | None:
        """The innermost statement that holds a node."""
        current: ast.AST | None = node
        while current is not None and not isinstance(current, ast.stmt):
            current = self.parents.get(current)
        return current

    def gap(self, left: ast.AST, right: ast.AST, wanted: str) -> tuple[int, int] | None:
        """Where an operator, given as a pattern, stands between two nodes; comments between them are passed over."""
        start, end = self.span(left)[1], self.span(right)[0]
        between = re.sub(r"#[^\r\n]*", lambda m: " " * len(m.group()), self.text[start:end])
        found = re.search(wanted, between)
        return (start + found.start(), start + found.end()) if found else None

    def unit(self, node: ast.AST) -> ast.stmt | None:
        """The outermost function that holds a node, else the outermost statement."""
        best: ast.stmt | None = None
        current: ast.AST | None = node
        while current is not None:
            if isinstance(current, Function) or (best is None and isinstance(current, ast.stmt) and self._is_top(current)):
                best = current
            current = self.parents.get(current)
        return best

    def holder(self, node: ast.AST, start: int, end: int) -> ast.stmt | None:
        """The smallest statement around a node whose own lines hold all characters from `start` to `end`."""
        current = self.statement(node)
        while current is not None:
            first, last = self.lines(current)
            if first <= start and end <= last and not self.is_elif(current) and (end < last or start < end):
                return current
            above = self.parents.get(current)
            current = self.statement(above) if above is not None else None
        return None

    def lines(self, node: ast.stmt) -> tuple[int, int]:
        """From the start of a statement's first line (decorators included) to the end of its last."""
        assert node.end_lineno is not None
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        return self.starts[first - 1], self.starts[node.end_lineno] if node.end_lineno < len(self.starts) else len(self.text)

    def is_elif(self, node: ast.stmt) -> bool:
        """Is it the `elif` of the statement above it?"""
        return self.text.startswith("elif", self.span(node)[0])

    def _is_top(self, node: ast.AST) -> bool:
        return isinstance(self.parents.get(node), ast.Module)


def read(source: bytes) -> Source | None:
    """None for what is not Python of this version, or does not come back byte by byte from its text."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        text = source.decode(encoding)
        if text.encode(encoding) != source:
            return None
        tree = parse(text)
    except (SyntaxError, ValueError, LookupError):
        return None
    if tree is None:
        return None
    starts = (0, *(m.end() for m in NEWLINE.finditer(text)))
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    return Source(text, encoding, tree, starts, parents)


def parse(text: str, *, whole: bool = True) -> ast.Module | None:
    """The tree of text that parses, and compiles where it is a `whole` function; None for what does not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(text)
            if whole:
                compile(tree, "candidate", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    return tree


def inside(source: Source, root: ast.AST) -> tuple[ast.AST, ...]:
    """Nodes below a root that may be edited: no documentation strings, annotations, decorators or format strings."""
    if root not in source.below:
        source.below[root] = tuple(_inside(source, root))
    return source.below[root]


def _inside(source: Source, root: ast.AST) -> Iterator[ast.AST]:
    for name, value in ast.iter_fields(root):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr) or is_docstring(source, child):
                continue
            yield child
            yield from _inside(source, child)


def is_docstring(source: Source, node: ast.AST) -> bool:
    """A string that stands alone as a statement."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
