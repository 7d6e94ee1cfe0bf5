"""Edits that belong together: one misunderstanding, written down in several places."""

import ast
from collections.abc import Iterator, Sequence

from autopatch.repair.templates.calls import WRAPS
from autopatch.repair.templates.constants import reformed
from autopatch.repair.templates.mutant import Edit, Site, Template
from autopatch.repair.templates.source import Function, inside

def _all(site: Site, changed: Sequence[tuple[ast.expr, str]], weight: float = 1.0) -> Edit:
    """One edit, from the first of the nodes to the last."""
    source = site.source
    ordered = sorted((source.span(node), text) for node, text in changed)
    start, at = ordered[0][0][0], ordered[0][0][0]
    whole = ""
    for (first, last), text in ordered:
        whole += source.text[at:first] + text
        at = last
    return Edit(start, at, whole, weight)


def answers(site: Site, node: ast.AST) -> Iterator[Edit]:
    """All True and False that a function gives back, the wrong way round."""
    if isinstance(node, Function):
        found = []
        for inner in inside(site.source, node):
            match inner:
                case ast.Return(value=ast.Constant(value=bool(value)) as constant):
                    found.append((constant, str(not value)))
                case _:
                    pass
        if len(found) > 1:
            yield _all(site, found)


def strings(site: Site, node: ast.AST) -> Iterator[Edit]:
    """The same string in several places of a function: in another form in each of them."""
    if not isinstance(node, Function):
        return
    places: dict[str, list[ast.expr]] = {}
    for inner in inside(site.source, node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str) and "\n" not in inner.value:
            places.setdefault(inner.value, []).append(inner)
    for value, nodes in places.items():
        if len(nodes) > 1:
            for new in reformed(value):
                yield _all(site, [(one, repr(new)) for one in nodes])


def compared(site: Site, node: ast.AST) -> Iterator[Edit]:
    """Two values compared as they are, where order, case, sign or repetition should not count."""
    match node:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq()], comparators=[right]):
            pass
        case _:
            return
    if isinstance(left, ast.Constant) or isinstance(right, ast.Constant):
        return
    kind = site.scope.kind(left) or site.scope.kind(right)
    for form in WRAPS[kind]:
        yield _all(site, [(one, form.format(site.source.inner(one))) for one in (left, right)], 1.0 if kind else 0.6)


TEMPLATES = (
    Template("answers the wrong way round", 0.35, answers),
    Template("string in another form everywhere", 0.3, strings),
    Template("compared as they are", 0.25, compared),
)
