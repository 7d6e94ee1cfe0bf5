"""Wrong constants and bounds that are off by one."""

import ast
import re
from collections.abc import Iterator

from autopatch.repair.templates.mutant import Edit, Site, Template
from autopatch.repair.templates.source import inside, is_docstring

WORDS = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])|'[^'\n]{1,20}'|\"[^\"\n]{1,20}\"|\b(?:True|False|None)\b")


def number(site: Site, node: ast.AST) -> Iterator[Edit]:
    """A number that is one too large or small, 0 for 1, or of the wrong sign."""
    match node:
        case ast.Constant(value=bool()):
            return
        case ast.Constant(value=int(value)):
            near = [value - 1, value + 1] if value else [1, -1]
            for new in near:
                yield site.replace(node, _signed(new))
            if abs(value) > 1:
                yield site.replace(node, f"(-{value})", 0.4)
                for new in (0, 1, value * 2, value // 2, value * 10, value // 10, value + 2, value - 2):
                    if new not in (value, *near):
                        yield site.replace(node, _signed(new), 0.25)
            elif value == 1:
                yield site.replace(node, "(-1)", 0.5)
        case ast.Constant(value=float(value)):
            for new_float in (value + 1, value - 1, value * 10, value / 10, value / 2, value * 2, -value):
                yield site.replace(node, f"({new_float!r})" if new_float < 0 else repr(new_float), 0.5)
        case _:
            pass


def _signed(value: int) -> str:
    return f"({value})" if value < 0 else str(value)


def truth(site: Site, node: ast.AST) -> Iterator[Edit]:
    """True for False."""
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield site.replace(node, str(not node.value))


def text(site: Site, node: ast.AST) -> Iterator[Edit]:
    """A string in the wrong case, with or without a space, or empty for a space."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value:
        for new in reformed(node.value):
            yield site.replace(node, repr(new))


def reformed(value: str) -> Iterator[str]:
    """Other forms of a string, each once."""
    new = [value.lower(), value.upper(), value.strip(), value.capitalize(), value[::-1]]
    new += [" "] if value == "" else ["", value + " ", " " + value] if value == " " or len(value) < 3 else []
    if value.isalpha() and len(value) > 1:
        new.append(value + value.swapcase())
    seen = {value}
    for candidate in new:
        if candidate not in seen:
            seen.add(candidate)
            yield candidate


def elsewhere(site: Site, node: ast.AST) -> Iterator[Edit]:
    """A constant that stands elsewhere in the same function, or in what its documentation says."""
    if not isinstance(node, ast.Constant) or node.value is None or site.scope.function is None:
        return
    for literal, weight in _literals(site):
        if literal != ast.unparse(node) and _same_kind(literal, node.value):
            yield site.replace(node, f"({literal})" if literal.startswith("-") else literal, weight)


def _literals(site: Site) -> Iterator[tuple[str, float]]:
    seen: set[str] = set()
    function = site.scope.function
    assert function is not None
    for node in inside(site.source, function):
        if isinstance(node, ast.Constant) and not isinstance(node.value, bool):
            literal = ast.unparse(node)
            if literal not in seen:
                seen.add(literal)
                yield literal, 1.0
    for literal in WORDS.findall(_without_examples(ast.get_docstring(function) or "")):
        if literal not in seen:
            seen.add(literal)
            yield literal, 0.7


def _without_examples(documentation: str) -> str:
    lines, example = [], False
    for line in documentation.splitlines():
        example = line.lstrip().startswith((">>>", "...")) or (example and bool(line.strip()))
        if not example:
            lines.append(line)
    return "\n".join(lines)


def _same_kind(literal: str, value: object) -> bool:
    if isinstance(value, bool):
        return literal in ("True", "False", "None")
    if isinstance(value, int | float):
        return literal[0].isdigit()
    return isinstance(value, str) and literal[0] in "'\""


def shifted(site: Site, node: ast.AST) -> Iterator[Edit]:
    """`i` where `i + 1` or `i - 1` was meant: in an index, a bound, a comparison, a result."""
    source, parent = site.source, site.parent(node)
    if not isinstance(node, ast.Name | ast.Call | ast.BinOp | ast.Attribute | ast.Subscript):
        return
    if site.scope.kind(node) not in ("number", ""):
        return
    if isinstance(getattr(node, "ctx", ast.Load()), ast.Store | ast.Del):
        return
    weight = _shift_weight(site, node, parent)
    if weight:
        for sign in ("+ 1", "- 1"):
            yield site.replace(node, f"{source.inner(node)} {sign}" if weight > 0.4 else f"({source.inner(node)} {sign})", weight)


def _shift_weight(site: Site, node: ast.AST, parent: ast.AST | None) -> float:
    match parent:
        case ast.Call(func=ast.Name(id="range")):
            return 1.0
        case ast.Subscript(slice=index) if index is node:
            return 0.8
        case ast.Slice():
            return 0.9
        case ast.Return() if site.scope.kind(node) == "number":
            return 0.6
        case ast.Compare() if site.scope.kind(node) == "number":
            return 0.5
        case ast.Assign(value=value) | ast.AugAssign(value=value) if value is node and site.scope.kind(node) == "number":
            return 0.45
        case ast.BinOp() | ast.Call() if site.scope.kind(node) == "number":
            return 0.25
        case _:
            return 0.0


def bounds(site: Site, node: ast.AST) -> Iterator[Edit]:
    """Bounds of ranges and slices that are missing or too many."""
    source = site.source
    match node:
        case ast.Call(func=ast.Name(id="range"), args=[stop]):
            yield site.replace(stop, f"1, {source.of(stop)}")
            yield site.replace(stop, f"1, {source.inner(stop)} + 1", 0.9)
            yield site.replace(stop, f"2, {source.of(stop)}", 0.4)
            yield site.replace(stop, f"{source.inner(stop)} - 1, -1, -1", 0.5)
        case ast.Call(func=ast.Name(id="range"), args=[start, stop]):
            yield site.replace(start, "0", 0.6)
            yield site.replace(start, "1", 0.6)
            yield Edit(source.span(start)[0], source.span(stop)[0], "", 0.6)
            yield site.replace(stop, f"{source.of(stop)}, 2", 0.4)
            yield site.replace(stop, f"{source.of(stop)}, -1", 0.4)
        case ast.Call(func=ast.Name(id="range"), args=[_, stop, step]):
            yield Edit(source.span(stop)[1], source.span(step)[1], "", 0.5)
        case ast.Slice(lower=lower, upper=upper, step=step):
            yield from _slice(site, node, lower, upper, step)
        case _:
            pass


def _slice(site: Site, node: ast.Slice, lower: ast.expr | None, upper: ast.expr | None, step: ast.expr | None) -> Iterator[Edit]:
    source, (start, end) = site.source, site.source.span(node)
    low, high = source.of(lower) if lower else "", source.of(upper) if upper else ""
    tail = f":{source.of(step)}" if step else ""
    for new_low, new_high, new_tail, weight in (
        ("", high, tail, 0.6), (low, "", tail, 0.6), (low, high, "", 0.6), (low or "1", high, tail, 0.6),
        (low, high or "-1", tail, 0.6),
        (high, low, tail, 0.5), (low, high, ":-1", 0.4), (low, high, ":2", 0.3),
    ):
        new = f"{new_low}:{new_high}{new_tail}"
        if new.replace(" ", "") != source.text[start:end].replace(" ", ""):
            yield Edit(start, end, new, weight)


def ends(site: Site, node: ast.AST) -> Iterator[Edit]:
    """The first or last elements are gone through, or given back, that should not be."""
    match node:
        case ast.For(iter=whole) | ast.comprehension(iter=whole) if not isinstance(whole, ast.Call):
            names = [n for n in site.scope.parameters if site.scope.kinds.get(n, "number") == "number"]
            cuts = [("[1:]", 1.0), ("[:-1]", 1.0), *((cut, 0.6) for n in names for cut in (f"[:{n}]", f"[{n}:]"))]
        case ast.Return(value=ast.Name() | ast.ListComp() as whole) if site.scope.kind(whole) in ("list", "text", "container"):
            cuts = [("[1:]", 0.7), ("[:-1]", 0.7)]
        case _:
            return
    for cut, weight in cuts:
        if cut[1:-1].strip(":") != site.source.of(whole):
            yield site.replace(whole, site.source.inner(whole) + cut, weight)


def start_value(site: Site, node: ast.AST) -> Iterator[Edit]:
    """The value that a result begins with: 0 for 1, infinity, empty, or the first element of what is gone through."""
    match node:
        case ast.Assign(targets=[ast.Name()], value=ast.Constant(value=value) as first) if not isinstance(value, str):
            for new in ("0", "1", "-1", "None", "float('inf')", "float('-inf')", "''", "[]", "True", "False"):
                if new != ast.unparse(first):
                    yield site.replace(first, new, 0.5)
            for name in site.scope.parameters:
                if site.scope.kinds.get(name) in ("list", "text", "container"):
                    yield site.replace(first, f"{name}[0]", 0.8)
                    yield site.replace(first, f"len({name})", 0.4)
        case ast.Assign(targets=[ast.Name()], value=ast.List(elts=[]) | ast.Dict(keys=[]) | ast.Constant(value="") as first):
            for new in ("[]", "{}", "set()", "''", "0", "None", "['']", "[[]]"):
                if new != ast.unparse(first):
                    yield site.replace(first, new, 0.4)
        case _:
            pass


def named(site: Site, node: ast.AST) -> Iterator[Edit]:
    """A constant where a name was meant."""
    parent = site.parent(node)
    if not isinstance(node, ast.Constant) or isinstance(parent, ast.Expr) or is_docstring(site.source, node):
        return
    kind = site.scope.kind(node)
    for name in site.scope.names:
        fit = site.scope.fit(kind, name) if kind else 0.3
        if fit > 0.5:
            yield site.replace(node, name, fit)
        if kind == "number" and site.scope.kinds.get(name) in ("list", "text", "container"):
            yield site.replace(node, f"len({name})", 0.5)


TEMPLATES = (
    Template("number off by one", 0.6, number),
    Template("true for false", 0.6, truth),
    Template("index or bound off by one", 0.55, shifted),
    Template("bound of a range or slice", 0.45, bounds),
    Template("constant from elsewhere", 0.35, elsewhere),
    Template("string in another form", 0.35, text),
    Template("end of a sequence", 0.3, ends),
    Template("start value", 0.3, start_value),
    Template("constant for a name", 0.25, named),
)
