"""Which edits are tried, and in which order."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autopatch.contract.code import Place
from autopatch.repair.templates import calls, conditions, constants, guards, names, operators, statements
from autopatch.repair.templates.mutant import Edit, Mutant, Site, Template
from autopatch.repair.templates.scope import scope_of
from autopatch.repair.templates.source import Function, Source, inside, parse, read
from autopatch.repair.tree import Tree

TEMPLATES: tuple[Template, ...] = (
    *operators.TEMPLATES, *constants.TEMPLATES, *names.TEMPLATES, *calls.TEMPLATES, *conditions.TEMPLATES, *statements.TEMPLATES,
    *guards.TEMPLATES,
)
QUIET = 0.1
"""Share of a place's score that a line has which no failing test ran."""
SPREAD = 150
"""After so many edits of one place the next ones count half, so that other places get their turn."""


@dataclass(frozen=True)
class Proposed:
    """An edit that was not yet checked."""

    path: str
    source: Source
    node: ast.AST
    edit: Edit
    template: Template
    prior: float
    score: float


def mutants(path: str, source: bytes, place: Place) -> Iterator[Mutant]:
    """Edits inside a place, each of which parses, no two with the same syntax tree. None for a file that does not parse."""
    yield from _checked(sorted(_proposed(path, read(source), place), key=lambda p: -p.score))


def search_order(tree: Tree, places: Sequence[Place], limit: int) -> tuple[Mutant, ...]:
    """At most `limit` edits over all places, by suspicion of the line x prior of the template, spread over places."""
    sources = {place.path: read(tree[place.path]) for place in places if place.path in tree and place.path.endswith(".py")}
    ordered: list[tuple[float, Proposed]] = []
    for place in places:
        own = sorted(_proposed(place.path, sources.get(place.path), place), key=lambda p: -p.score)
        ordered += [(p.score / (1 + index / SPREAD), p) for index, p in enumerate(own)]
    ordered.sort(key=lambda pair: -pair[0])
    found: list[Mutant] = []
    for mutant in _checked([p for _, p in ordered]):
        if len(found) >= limit:
            break
        found.append(mutant)
    return tuple(found)


def _proposed(path: str, source: Source | None, place: Place) -> Iterator[Proposed]:
    if source is None:
        return
    sites: dict[ast.AST | None, Site] = {}
    for node in _nodes(source, place):
        function = node if isinstance(node, Function) else _function(source, node)
        site = sites.get(function) or sites.setdefault(function, Site(source, scope_of(source, function)))
        suspicion = _suspicion(source, node, place)
        for template in TEMPLATES:
            for edit in template.edits(site, node):
                prior = template.prior * edit.weight
                yield Proposed(path, source, node, edit, template, prior, suspicion * prior)


def _nodes(source: Source, place: Place) -> Iterator[ast.AST]:
    for node in inside(source, source.tree):
        first = getattr(node, "lineno", None)
        if isinstance(node, ast.comprehension):
            first = node.target.lineno
        if isinstance(node, ast.Slice):
            first = getattr(source.parents[node], "lineno", None)
        if first is not None and place.start <= first <= place.end:
            yield node


def _function(source: Source, node: ast.AST) -> Function | None:
    current = source.parents.get(node)
    while current is not None and not isinstance(current, Function):
        current = source.parents.get(current)
    return current


def _suspicion(source: Source, node: ast.AST, place: Place) -> float:
    """Of the node's lines or of its statement's first line, whichever is greater. A function has that of its place."""
    if isinstance(node, Function) or not place.lines:
        return place.score
    statement = source.statement(node)
    first = getattr(node, "lineno", statement.lineno if statement else place.start)
    lines = {first, statement.lineno if statement else first}
    return max((place.lines.get(line, 0.0) for line in lines), default=0.0) or place.score * QUIET


def _checked(proposed: Sequence[Proposed]) -> Iterator[Mutant]:
    seen: set[tuple[str, int, str]] = set()
    known: set[tuple[str, int]] = set()
    for item in proposed:
        unit = item.source.unit(item.node)
        if unit is None:
            continue
        if (item.path, id(unit)) not in known:
            known.add((item.path, id(unit)))
            seen.add((item.path, id(unit), _shape(item.source, unit, None) or ""))
        shape = _shape(item.source, unit, item.edit)
        if shape is None or (item.path, id(unit), shape) in seen:
            continue
        seen.add((item.path, id(unit), shape))
        yield _mutant(item)


def _shape(source: Source, unit: ast.stmt, edit: Edit | None) -> str | None:
    """The syntax tree of a unit after an edit, as text. None when it does not parse, or when the edit reaches out of the unit."""
    assert unit.end_lineno is not None
    first = min([unit.lineno, *(d.lineno for d in getattr(unit, "decorator_list", ()))])
    start = source.starts[first - 1]
    end = source.starts[unit.end_lineno] if unit.end_lineno < len(source.starts) else len(source.text)
    text = source.text[start:end]
    if edit is not None:
        if edit.start < start or edit.end > end:
            return None
        text = source.text[start:edit.start] + edit.text + source.text[edit.end:end]
    tree = parse(f"if 1:\n{text}" if text[:1].isspace() else text)
    return ast.dump(tree) if tree is not None else None


def _mutant(item: Proposed) -> Mutant:
    source, edit = item.source, item.edit
    old, new = " ".join(source.text[edit.start:edit.end].split()), " ".join(edit.text.split())
    line = source.text.count("\n", 0, edit.start) + 1
    what = f"`{old[:60]}` becomes `{new[:60]}`" if old and new else f"`{new[:60]}` added" if new else f"`{old[:60]}` removed"
    span = (source.bytes_before(edit.start), source.bytes_before(edit.end))
    after = edit.text.encode(source.encoding.removesuffix("-sig").removesuffix("_sig"), errors="backslashreplace")
    return Mutant(item.path, f"{item.template.name}: {what}", span, after, item.prior, item.template.name, line)
