"""Conditions that are negated, missing, too many, or that stand elsewhere in the same function."""

import ast
import re
from collections.abc import Iterator

from autopatch.repair.templates.mutant import Edit, Site, Template
from autopatch.repair.templates.source import inside

FEW = 8
"""Names of a function that are compared with one another."""


def _test(node: ast.AST) -> ast.expr | None:
    return node.test if isinstance(node, ast.If | ast.While | ast.IfExp) else None


def _tests(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.comprehension):
        return list(node.ifs)
    test = _test(node)
    return [test] if test is not None else []


def negated(site: Site, node: ast.AST) -> Iterator[Edit]:
    """A `not` too many or missing."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield site.replace(node, site.source.inner(node.operand))
        return
    parent = site.parent(node)
    compared = isinstance(node, ast.Compare) and len(node.ops) == 1
    if isinstance(node, ast.expr) and not compared and (node in _tests(parent) if parent else False):
        yield site.replace(node, f"not {site.source.inner(node)}")
    elif isinstance(node, ast.Call | ast.Name) and isinstance(parent, ast.BoolOp | ast.Return) and _boolean(site, node):
        yield site.replace(node, f"not {site.source.of(node)}", 0.8)


def _boolean(site: Site, node: ast.AST) -> bool:
    return site.scope.kind(node) == "bool"


def always(site: Site, node: ast.AST) -> Iterator[Edit]:
    """A condition that should not be there: what it guards always, or never, happens."""
    for test in _tests(node):
        if isinstance(test, ast.Constant):
            continue
        if isinstance(node, ast.IfExp):
            yield site.replace(node, site.source.inner(node.body), 0.7)
            yield site.replace(node, site.source.inner(node.orelse), 0.7)
        elif not isinstance(node, ast.comprehension):
            yield site.replace(test, "True", 0.6)
            yield site.replace(test, "False", 0.3)


def drop_filter(site: Site, node: ast.AST) -> Iterator[Edit]:
    """A filter of a comprehension that is too many."""
    if isinstance(node, ast.comprehension):
        before: ast.expr = node.iter
        for test in node.ifs:
            end = site.source.span(before)[1]
            word = site.source.gap(before, test, r"\s*\bif\b\s*")
            if word and word[1] == site.source.span(test)[0]:
                yield Edit(word[0] if word[0] >= end else end, site.source.span(test)[1], "")
            before = test


def borrowed(site: Site, node: ast.AST) -> Iterator[Edit]:
    """A condition of the same function in place of this one, or beside it. Ingredients of a repair are often in the program
    already (Barr et al., The Plastic Surgery Hypothesis, FSE 2014)."""
    own = {site.source.of(t) for t in _tests(node)}
    for test in _tests(node):
        text = site.source.inner(test)
        for other, weight in _conditions(site):
            if site.source.of(test) != other and other not in own:
                bare = re.fullmatch(r"[\w.]+", other)
                wrapped = other if bare else f"({other})"
                yield site.replace(test, other, 0.5 * weight)
                yield site.replace(test, f"{text} and {wrapped}", weight)
                yield site.replace(test, f"{text} or {wrapped}", 0.9 * weight)


def _conditions(site: Site) -> Iterator[tuple[str, float]]:
    """Conditions that stand in the function, then plain ones about its names."""
    seen: set[str] = set()
    if site.scope.function is None:
        return
    for node in inside(site.source, site.scope.function):
        clauses = [c for t in _tests(node) for c in (t.values if isinstance(t, ast.BoolOp) else [t])]
        for clause in clauses:
            text = site.source.of(clause)
            if text not in seen and "\n" not in text:
                seen.add(text)
                yield text, 1.0
                yield f"not ({text})", 0.5
    names = [n for n in site.scope.names if n != "self"]
    for name in names:
        if site.scope.kinds.get(name) in ("list", "text", "dict", "set", "container", "bool", ""):
            yield name, 0.4
            yield f"not {name}", 0.4
    for index, left in enumerate(names[:FEW]):
        for right in names[index + 1:FEW]:
            if site.scope.fit(site.scope.kinds.get(left, ""), right) >= 0.6:
                for symbol in ("!=", "==", "<", ">"):
                    yield f"{left} {symbol} {right}", 0.36
            if site.scope.kinds.get(right) in ("list", "set", "dict", "container"):
                yield f"{left} not in {right}", 0.4
                yield f"{left} in {right}", 0.36


def add_filter(site: Site, node: ast.AST) -> Iterator[Edit]:
    """A comprehension without the filter it needs."""
    if not isinstance(node, ast.comprehension) or node.ifs or not isinstance(node.target, ast.Name):
        return
    end = site.source.span(node.iter)[1]
    name = node.target.id
    conditions = [(name, 0.8), (f"{name} is not None", 0.6)]
    if site.scope.kinds.get(name) in ("number", ""):
        signs = (("> 0", 0.6), (">= 0", 0.4), ("< 0", 0.35), ("% 2 == 0", 0.35), ("% 2", 0.35))
        conditions += [(f"{name} {sign}", weight) for sign, weight in signs]
    conditions += [(f"{name} != {other}", 0.4) for other in site.scope.names if other != name]
    holding = [o for o in site.scope.names if site.scope.kinds.get(o) in ("list", "set", "dict", "container")]
    conditions += [(f"{name} in {other}", 0.4) for other in holding]
    for text, weight in conditions:
        if site.source.text[end:end + 1] != ")" or site.parent(node.iter) is node:
            yield Edit(end, end, f" if {text}", weight)


def keyword(site: Site, node: ast.AST) -> Iterator[Edit]:
    """`elif` for `if`, `if` for `elif`, `if` for `while`, and the reverse."""
    text = site.source.text
    if not isinstance(node, ast.If | ast.While):
        return
    start = site.source.span(node)[0]
    if text.startswith("elif", start):
        yield Edit(start, start + 4, "if")
    elif text.startswith("while", start) and not node.orelse:
        yield Edit(start, start + 5, "if", 0.6)
    elif text.startswith("if", start):
        if not node.orelse:
            yield Edit(start, start + 2, "while", 0.6)
        if _follows_if(site, node):
            yield Edit(start, start + 2, "elif")


def _follows_if(site: Site, node: ast.stmt) -> bool:
    parent = site.parent(node)
    bodies = [getattr(parent, name, None) for name in ("body", "orelse")]
    body = next((b for b in bodies if isinstance(b, list) and node in b), [])
    index = body.index(node) if node in body else 0
    return index > 0 and isinstance(body[index - 1], ast.If)


def branches(site: Site, node: ast.AST) -> Iterator[Edit]:
    """The two values of a conditional expression the wrong way round."""
    if isinstance(node, ast.IfExp):
        of = site.source.inner
        yield site.replace(node, f"{of(node.orelse)} if {site.source.of(node.test)} else {of(node.body)}")


TEMPLATES = (
    Template("negated condition", 0.55, negated),
    Template("branches the wrong way round", 0.4, branches),
    Template("filter too many", 0.35, drop_filter),
    Template("elif for if", 0.3, keyword),
    Template("condition too many", 0.25, always),
    Template("condition of the same function", 0.2, borrowed),
    Template("filter missing", 0.2, add_filter),
)
