"""Statements that are too many, missing, in the wrong order, or in the wrong block."""

import ast
from collections.abc import Iterator

from autopatch.repair.templates.mutant import Edit, Site, Template
from autopatch.repair.templates.source import Function, Simple, Source, inside, is_docstring

Loop = ast.For | ast.While | ast.AsyncFor


def blocks(node: ast.AST) -> list[list[ast.stmt]]:
    """The lists of statements right below a node."""
    found = [getattr(node, name, None) for name in ("body", "orelse", "finalbody")]
    return [block for block in found if isinstance(block, list) and block and isinstance(block[0], ast.stmt)]


def block_of(site: Site, node: ast.AST) -> list[ast.stmt]:
    """The block that a statement stands in."""
    parent = site.parent(node)
    return next((block for block in blocks(parent) if node in block), []) if parent is not None else []


def moved(source: Source, node: ast.stmt, indent: str) -> str | None:
    """A statement's lines at another indentation; None when a string of several lines would change with them."""
    span = source.line_span(node)
    texts = [n for n in ast.walk(node) if isinstance(n, ast.Constant | ast.JoinedStr)]
    if span is None or any((n.end_lineno or 0) > n.lineno for n in texts):
        return None
    old, lines = source.indent(node), source.text[span[0]:span[1]].splitlines(keepends=True)
    if any(line.strip() and not line.startswith(old) for line in lines):
        return None
    text = "".join(indent + line[len(old):] if line.strip() else line for line in lines)
    return text if text.endswith(("\n", "\r")) else text + source.newline()


def drop(site: Site, node: ast.AST) -> Iterator[Edit]:
    """A statement too many."""
    kept = Function | ast.ClassDef | ast.Import | ast.ImportFrom
    if not isinstance(node, ast.stmt) or isinstance(node, kept) or is_docstring(site.source, node):
        return
    span = site.source.line_span(node)
    if span is None or site.source.is_elif(node):
        return
    weight = 1.0 if isinstance(node, Simple) else 0.7
    if isinstance(node, ast.Return):
        weight = 0.6
    if len(block_of(site, node)) > 1:
        yield Edit(*span, "", weight)
    elif not isinstance(node, ast.Pass):
        yield site.replace(node, "pass", weight * 0.5)


def move_out(site: Site, node: ast.AST) -> Iterator[Edit]:
    """The last statement of a block belongs after the block, the first one before it."""
    source = site.source
    if not isinstance(node, ast.For | ast.While | ast.If | ast.With):
        return
    span, indent = source.line_span(node), source.indent(node)
    if span is None or source.is_elif(node):
        return
    for block in blocks(node):
        if len(block) < 2:
            continue
        last, first = block[-1], block[0]
        own, text = source.line_span(last), moved(source, last, indent)
        if own and text and own[1] <= span[1]:
            yield Edit(own[0], span[1], source.text[own[1]:span[1]] + text, 1.0 if isinstance(last, ast.Return) else 0.7)
        own, text = source.line_span(first), moved(source, first, indent)
        if own and text and block is node.body:
            yield Edit(span[0], own[1], text + source.text[span[0]:own[0]], 0.6)


def move_in(site: Site, node: ast.AST) -> Iterator[Edit]:
    """A statement beside a block belongs into it: as its last one, or as its first."""
    source, block = site.source, block_of(site, node)
    if not isinstance(node, ast.For | ast.While | ast.If | ast.With) or source.is_elif(node):
        return
    index, span = block.index(node), source.line_span(node)
    if span is None:
        return
    if index + 1 < len(block):
        after = block[index + 1]
        own = source.line_span(after)
        for inner in blocks(node):
            text, end = moved(source, after, source.indent(inner[-1])), source.line_span(inner[-1])
            if own and text and end and not is_docstring(source, after):
                yield Edit(end[1], own[1], text + source.text[end[1]:own[0]], 0.8)
    if index and (index > 1 or not is_docstring(source, block[0])):
        own, first = source.line_span(block[index - 1]), source.line_span(node.body[0])
        text = moved(source, block[index - 1], source.indent(node.body[0]))
        if own and first and text:
            yield Edit(own[0], first[0], source.text[own[1]:first[0]] + text, 0.7)


def swap(site: Site, node: ast.AST) -> Iterator[Edit]:
    """Two statements in the wrong order."""
    block = block_of(site, node)
    index = block.index(node) if isinstance(node, ast.stmt) and node in block else len(block)
    if index + 1 < len(block) and not is_docstring(site.source, block[index]):
        first, second = site.source.line_span(block[index]), site.source.line_span(block[index + 1])
        if first and second and site.source.text[:second[1]].endswith(("\n", "\r")):
            text = site.source.text
            yield Edit(first[0], second[1], text[slice(*second)] + text[first[1]:second[0]] + text[slice(*first)])


def jump(site: Site, node: ast.AST) -> Iterator[Edit]:
    """`break` for `continue`, a loop that ends too early or too late."""
    if isinstance(node, ast.Break):
        yield site.replace(node, "continue")
        yield site.replace(node, "return", 0.2)
    elif isinstance(node, ast.Continue):
        yield site.replace(node, "break")
    elif isinstance(node, ast.Pass):
        for text in ("continue", "break", "return"):
            yield site.replace(node, text, 0.4)
    elif isinstance(node, ast.If) and any(isinstance(p, Loop) for p in _above(site, node)):
        for block in blocks(node):
            if not isinstance(block[-1], ast.Return | ast.Break | ast.Continue | ast.Raise):
                yield from insert_after(site, block[-1], ("break", "continue"), 0.4)


def _above(site: Site, node: ast.AST) -> Iterator[ast.AST]:
    current = site.parent(node)
    while current is not None and not isinstance(current, Function):
        yield current
        current = site.parent(current)


def insert_after(site: Site, node: ast.stmt, texts: tuple[str, ...], weight: float) -> Iterator[Edit]:
    """New statements below one, at its indentation."""
    span = site.source.line_span(node)
    if span:
        newline = site.source.newline()
        missing = "" if site.source.text[:span[1]].endswith(("\n", "\r")) else newline
        for text in texts:
            yield Edit(span[1], span[1], f"{missing}{site.source.indent(node)}{text}{newline}", weight)


def give_back(site: Site, node: ast.AST) -> Iterator[Edit]:
    """A result that is computed but not given back."""
    source = site.source
    if isinstance(node, ast.Expr) and not isinstance(node.value, ast.Yield | ast.YieldFrom | ast.Await | ast.Constant):
        last = block_of(site, node)[-1:] == [node]
        yield site.replace(node, f"return {source.of(node)}", 1.0 if last else 0.3)
    if isinstance(node, Function) and not isinstance(node.body[-1], ast.Return | ast.Raise):
        stored = [n for n in site.scope.names if n not in site.scope.parameters]
        texts = [*(f"return {name}" for name in [*stored, *site.scope.parameters]), "return False", "return True"]
        yield from insert_after(site, node.body[-1], tuple(texts), 0.7)
    if isinstance(node, ast.Return) and node.value is None:
        for name in (*site.scope.names, "True", "False", "[]", "0"):
            yield Edit(*site.source.span(node), f"return {name}", 0.5)


def advance(site: Site, node: ast.AST) -> Iterator[Edit]:
    """A loop, or a counter, that does not move on."""
    if isinstance(node, ast.While):
        tested = [n.id for n in ast.walk(node.test) if isinstance(n, ast.Name)]
        names = [n for n in tested if site.scope.kinds.get(n, "number") == "number"]
        texts = [f"{name} {sign} 1" for name in dict.fromkeys(names) for sign in ("+=", "-=")]
        yield from insert_after(site, node.body[-1], tuple(texts), 1.0)
    elif isinstance(node, ast.For | ast.If):
        names = [n for n in site.scope.names if site.scope.kinds.get(n) == "number" and n not in site.scope.parameters]
        yield from insert_after(site, node.body[-1], tuple(f"{name} += 1" for name in names), 0.4)


def gather(site: Site, node: ast.AST) -> Iterator[Edit]:
    """Something that is not added to a result: inside a loop, or what is left over after it."""
    if not isinstance(node, ast.For | ast.While | ast.If):
        return
    results = [n for n in site.scope.names if site.scope.kinds.get(n) in ("list", "set") and n not in site.scope.parameters]
    for result in results:
        verb = "add" if site.scope.kinds[result] == "set" else "append"
        texts = tuple(f"{result}.{verb}({name})" for name in site.scope.names if name not in (result, "self"))
        yield from insert_after(site, node, texts, 0.5)
        yield from insert_after(site, node.body[-1], texts, 0.4)


def value(site: Site, node: ast.AST) -> Iterator[Edit]:
    """A value that the same function computes elsewhere, given back or assigned here."""
    if not isinstance(node, ast.Return | ast.Assign | ast.AugAssign) or node.value is None or site.scope.function is None:
        return
    kind, own = site.scope.kind(node.value), site.source.of(node.value)
    texts: dict[str, float] = {}
    for other in inside(site.source, site.scope.function):
        if isinstance(other, ast.Return | ast.Assign | ast.AugAssign) and other.value is not None:
            found = site.scope.kind(other.value)
            texts.setdefault(site.source.of(other.value), 1.0 if found == kind else 0.5 if not (found and kind) else 0.2)
    for text, weight in texts.items():
        if text != own and "\n" not in text:
            yield site.replace(node.value, text, weight)


TEMPLATES = (
    Template("result not given back", 0.5, give_back),
    Template("statement too many", 0.35, drop),
    Template("statement inside that belongs outside", 0.35, move_out),
    Template("statement outside that belongs inside", 0.3, move_in),
    Template("wrong jump", 0.3, jump),
    Template("value from elsewhere", 0.25, value),
    Template("statements in the wrong order", 0.25, swap),
    Template("no advance", 0.2, advance),
    Template("not gathered", 0.2, gather),
)
