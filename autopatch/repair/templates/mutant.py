"""One candidate edit, and what a template is."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from autopatch.repair.templates.scope import Scope
from autopatch.repair.templates.source import Source


@dataclass(frozen=True)
class Mutant:
    """Bytes `before_span` (start, end) of a file replaced by `after`. `prior`, 0 to 1: how common the fault is that it heals."""

    path: str
    description: str
    before_span: tuple[int, int]
    after: bytes
    prior: float
    template: str
    line: int

    def applied(self, source: bytes) -> bytes:
        """The file with the edit; every other byte as it was."""
        return source[: self.before_span[0]] + self.after + source[self.before_span[1]:]


@dataclass(frozen=True)
class Edit:
    """Characters `start` to `end` of a text become `text`. `weight`, 0 to 1, is how plausible this one is within its template."""

    start: int
    end: int
    text: str
    weight: float = 1.0


@dataclass(frozen=True)
class Site:
    """Where a template is asked for edits."""

    source: Source
    scope: Scope

    def replace(self, node: ast.AST, text: str, weight: float = 1.0) -> Edit:
        """A node's own text becomes another."""
        start, end = self.source.span(node)
        return Edit(start, end, text, weight)

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node above."""
        return self.source.parents.get(node)


Write = Callable[[Site, ast.AST], Iterator[Edit]]


@dataclass(frozen=True)
class Template:
    """A kind of fault. `prior`: its share among one-edit repairs, as an order of magnitude and by general experience."""

    name: str
    prior: float
    edits: Write
