"""Which edits are tried, and in which order."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autopatch.contract.code import Place
from autopatch.contract.errors import ContractError
from autopatch.repair.templates import calls, conditions, constants, guards, javascript, names, operators, statements, together
from autopatch.repair.templates.mutant import Edit, Mutant, Site, Template
from autopatch.repair.templates.scope import scope_of
from autopatch.repair.templates.source import Function, Source, inside, parse, read
from autopatch.repair.tree import Tree, text_of

TEMPLATES: tuple[Template, ...] = (
    *operators.TEMPLATES, *constants.TEMPLATES, *names.TEMPLATES, *calls.TEMPLATES, *conditions.TEMPLATES, *statements.TEMPLATES,
    *guards.TEMPLATES, *together.TEMPLATES,
)
QUIET = 0.1
"""Share of a place's score that a line has which no failing test ran."""
SPREAD = 150
"""After so many edits of one place the next ones count half, so that other places get their turn."""
ENOUGH = 2
"""Times the limit: with so many edits that are likelier than all of a place, that place is not looked at."""
FLOOR = 0.07
"""Edits with a smaller prior are not tried: that one of them passes says more about the tests than about the edit."""


@dataclass(frozen=True)
class Proposed:
    """An edit that was not yet checked. `source` and `node` are None where no syntax tree is at hand."""

    path: str
    text: str
    encoding: str
    edit: Edit
    template: str
    prior: float
    score: float
    source: Source | None = None
    node: ast.AST | None = None


def mutants(path: str, source: bytes, place: Place) -> Iterator[Mutant]:
    """Edits inside a place, likely ones first, each of which parses (Python), no two with the same syntax tree.

    None for a file that is neither Python that parses nor JavaScript.
    """
    yield from _checked(sorted(_proposed(path, source, place, {}), key=lambda p: -p.score))


def search_order(tree: Tree, places: Sequence[Place], limit: int) -> tuple[Mutant, ...]:
    """At most `limit` edits over all places, by suspicion of the line x prior of the template, spread over places."""
    ordered: list[tuple[float, Proposed]] = []
    known: dict[str, Source | None] = {}
    for place in sorted(places, key=lambda p: -p.score):
        if sum(score >= place.score for score, _ in ordered) > ENOUGH * limit:
            break
        own = sorted(_proposed(place.path, tree.get(place.path, b""), place, known), key=lambda p: -p.score)
        ordered += [(p.score / (1 + index / SPREAD), p) for index, p in enumerate(own)]
    ordered.sort(key=lambda pair: -pair[0])
    found: list[Mutant] = []
    for mutant in _checked([p for _, p in ordered]):
        if len(found) >= limit:
            break
        found.append(mutant)
    return tuple(found)


def _proposed(path: str, source: bytes, place: Place, known: dict[str, Source | None]) -> Iterator[Proposed]:
    if path.endswith(javascript.SUFFIXES):
        return _script(path, source, place)
    if path not in known:
        known[path] = read(source) if path.endswith(".py") else None
    python = known[path]
    return _python(path, python, place) if python else iter(())


def _python(path: str, source: Source, place: Place) -> Iterator[Proposed]:
    sites: dict[ast.AST | None, Site] = {}
    for node in _nodes(source, place):
        function = node if isinstance(node, Function) else _function(source, node)
        site = sites.get(function) or sites.setdefault(function, Site(source, scope_of(source, function)))
        suspicion = _suspicion(source, node, place)
        for template in TEMPLATES:
            for edit in template.edits(site, node):
                prior = template.prior * edit.weight
                if prior >= FLOOR:
                    score = suspicion * prior
                    yield Proposed(path, source.text, source.encoding, edit, template.name, prior, score, source, node)


def _script(path: str, source: bytes, place: Place) -> Iterator[Proposed]:
    try:
        text, encoding = text_of(source)
    except ContractError:
        return
    lines = text.splitlines(keepends=True)
    start, end = (sum(map(len, lines[:count])) for count in (place.start - 1, place.end))
    for change in javascript.changes(text, start, end, typed="ts" in path.rpartition(".")[2]):
        line = text.count("\n", 0, change.start) + 1
        suspicion = place.lines.get(line, place.score * QUIET) if place.lines else place.score
        edit = Edit(change.start, change.end, change.text)
        yield Proposed(path, text, encoding, edit, change.template, change.prior, suspicion * change.prior)


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
    for item in proposed:
        source, edit = item.source, item.edit
        if source is None or item.node is None:
            place, shape = 0, item.text[:edit.start] + edit.text + item.text[edit.end:]
        else:
            place, shape = _told(source, item.node, edit)
        if shape and (item.path, place, shape) not in seen and _compiles(item):
            seen.add((item.path, place, shape))
            yield _mutant(item)


def _told(source: Source, node: ast.AST, edit: Edit) -> tuple[int, str]:
    """Line and shape, after the edit, of the smallest statement that still parses by itself; '' where nothing changes."""
    for holder in (source.holder(node, edit.start, edit.end), source.unit(node)):
        shape = _shape(source, holder, edit) if holder else ""
        if holder and shape:
            return holder.lineno, "" if shape == _shape(source, holder, None) else shape
    return 0, ""


def _shape(source: Source, holder: ast.stmt, edit: Edit | None) -> str:
    """The syntax tree of a statement after an edit, as text; '' when it does not parse."""
    tree = parse(_edited(source, holder, edit), whole=False)
    return ast.dump(tree) if tree is not None else ""


def _edited(source: Source, holder: ast.stmt, edit: Edit | None) -> str:
    start, end = source.lines(holder)
    text = source.text[start:end]
    if edit is not None:
        text = source.text[start:edit.start] + edit.text + source.text[edit.end:end]
    return f"if 1:\n{text}" if text[:1].isspace() else text


def _compiles(item: Proposed) -> bool:
    """Statements that were moved or made may stand where they must not: `break` outside of a loop."""
    if item.source is None or not isinstance(item.node, ast.stmt):
        return True
    unit = item.source.unit(item.node)
    return unit is not None and parse(_edited(item.source, unit, item.edit)) is not None


def _mutant(item: Proposed) -> Mutant:
    text, edit = item.text, item.edit
    old, new = " ".join(text[edit.start:edit.end].split()), " ".join(edit.text.split())
    what = f"`{old[:60]}` becomes `{new[:60]}`" if old and new else f"`{new[:60]}` added" if new else f"`{old[:60]}` removed"
    span = (len(text[:edit.start].encode(item.encoding)), len(text[:edit.end].encode(item.encoding)))
    after = edit.text.encode(item.encoding.removesuffix("-sig"), errors="backslashreplace")
    line = text.count("\n", 0, edit.start) + 1
    return Mutant(item.path, f"{item.template}: {what}", span, after, item.prior, item.template, line)
