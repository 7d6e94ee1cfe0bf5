"""Arguments and calls that are swapped, missing or too many; a value that should be converted, or copied."""

import ast
from collections.abc import Iterator

from autopatch.repair.templates.mutant import Edit, Site, Template
from autopatch.repair.templates.source import inside

WRAPS = {
    "number": ("abs({})", "int({})", "str({})", "round({})", "float({})", "bool({})"),
    "text": ("{}.lower()", "{}.upper()", "{}.strip()", "len({})", "{}[::-1]", "int({})", "list({})", "set({})", "sorted({})"),
    "list": ("sorted({})", "set({})", "len({})", "sum({})", "list({})", "{}[::-1]", "max({})", "min({})", "tuple({})",
    "list(set({}))"),
    "dict": ("dict({})", "list({})", "len({})", "sorted({})", "{}.items()", "{}.values()", "{}.keys()"),
    "set": ("sorted({})", "list({})", "len({})"), "bool": ("int({})",),
    "container": ("len({})", "sorted({})", "set({})", "{}[::-1]", "list({})", "max({})", "min({})", "sum({})"),
    "": ("abs({})", "len({})", "int({})", "str({})", "sorted({})", "list({})", "{}.lower()", "set({})", "{}[0]"),
}
COPIES = {"list": ("list({})", "{}[:]", "[list(row) for row in {}]"), "dict": ("dict({})", "{}.copy()"), "set": ("set({})",)}
UNWRAPPED = frozenset({
    "abs", "int", "str", "len", "sorted", "reversed", "set", "list", "tuple", "sum", "float", "round", "bool", "max",
    "min", "enumerate",
    "floor", "ceil", "any", "all",
})
REMOVED = frozenset({
    "strip", "lstrip", "rstrip", "lower", "upper", "copy", "keys", "values", "items", "title", "swapcase", "capitalize",
})
KEYS = ("len", "abs", "str", "lambda item: item[1]", "str.lower")
FALLBACKS = {"get": ("0", "[]", "''"), "round": ("2",), "sum": ("[]",), "pop": ("None",)}


def swap_arguments(site: Site, node: ast.AST) -> Iterator[Edit]:
    """Two arguments the wrong way round."""
    if isinstance(node, ast.Call):
        source = site.source
        for first in range(len(node.args) - 1):
            left, right = node.args[first], node.args[first + 1]
            between = source.text[source.span(left)[1]:source.span(right)[0]]
            if between.strip() == ",":
                yield Edit(source.span(left)[0], source.span(right)[1], source.of(right) + between + source.of(left))
    if isinstance(node, ast.Return | ast.Assign) and isinstance(node.value, ast.Tuple) and len(node.value.elts) == 2:
        left, right = node.value.elts
        yield Edit(site.source.span(left)[0], site.source.span(right)[1], f"{site.source.of(right)}, {site.source.of(left)}", 0.7)


def drop_argument(site: Site, node: ast.AST) -> Iterator[Edit]:
    """An argument too many."""
    if isinstance(node, ast.Call):
        items: list[ast.expr | ast.keyword] = [*node.args, *node.keywords]
        items.sort(key=lambda item: (item.lineno, item.col_offset))
        for index, item in enumerate(items):
            start, end = site.source.span(item)
            if len(items) == 1:
                if site.source.text[end:end + 1] == ")":
                    yield Edit(start, end, "", 0.4)
            elif index:
                yield Edit(site.source.span(items[index - 1])[1], end, "", 0.8)
            else:
                yield Edit(start, site.source.span(items[1])[0], "", 0.5)


def add_argument(site: Site, node: ast.AST) -> Iterator[Edit]:
    """An argument that was left out: the order or key of sorting, a fall-back, a parameter of the caller."""
    if not isinstance(node, ast.Call):
        return
    name = _called(node.func)
    given = {k.arg for k in node.keywords}
    new: list[tuple[str, float]] = []
    if name in ("sorted", "sort", "max", "min"):
        new += [("reverse=True", 1.0)] if name[0] == "s" and "reverse" not in given else []
        new += [(f"key={key}", 0.5) for key in KEYS if "key" not in given]
    if len(node.args) == 1:
        new += [(fallback, 0.7) for fallback in FALLBACKS.get(name, ())]
    if name == "pop" and not node.args:
        new.append(("0", 0.9))
    if name in site.scope.functions:
        used = {site.source.of(a) for a in node.args}
        new += [(parameter, 0.8) for parameter in site.scope.parameters if parameter not in used]
    end = site.source.span(node)[1] - 1
    for text, weight in new:
        yield Edit(end, end, f", {text}" if node.args or node.keywords else text, weight)


def lookup(site: Site, node: ast.AST) -> Iterator[Edit]:
    """`x[key]` for `x.get(key)`, and the reverse."""
    source = site.source
    match node:
        case ast.Subscript(value=value, slice=index, ctx=ast.Load()) if not isinstance(index, ast.Slice | ast.Tuple):
            if site.scope.kind(value) in ("dict", ""):
                for fallback in ("", ", 0", ", []", ", ''"):
                    yield site.replace(node, f"{source.inner(value)}.get({source.of(index)}{fallback})", 0.8)
        case ast.Call(func=ast.Attribute(value=value, attr="get"), args=[key, *_]):
            yield site.replace(node, f"{source.inner(value)}[{source.of(key)}]")
        case _:
            pass


def unwrap(site: Site, node: ast.AST) -> Iterator[Edit]:
    """A conversion or method call too many."""
    source = site.source
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name, value=ast.Name(id="math")), args=[only], keywords=[]):
            if not isinstance(only, ast.Starred | ast.GeneratorExp):
                yield site.replace(node, source.inner(only), 1.0 if name in UNWRAPPED else 0.3)
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in REMOVED or not isinstance(value, ast.Name):
            yield site.replace(node, source.inner(value), 1.0 if name in REMOVED else 0.5)
        case ast.Subscript(value=value, ctx=ast.Load()):
            yield site.replace(node, source.inner(value), 0.6)
        case _:
            pass


def wrap(site: Site, node: ast.AST) -> Iterator[Edit]:
    """A conversion that is missing."""
    if not isinstance(node, ast.expr) or isinstance(getattr(node, "ctx", ast.Load()), ast.Store | ast.Del):
        return
    weight = _wrap_weight(node, site.parent(node))
    if not weight or isinstance(node, ast.Constant | ast.Starred | ast.Compare | ast.BoolOp):
        return
    kind, text = site.scope.kind(node), site.source.inner(node)
    own = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    for form in WRAPS[kind]:
        if not own or not form.startswith(own):
            yield site.replace(node, form.format(text), weight if kind else weight * 0.6)


def _wrap_weight(node: ast.expr, parent: ast.AST | None) -> float:
    match parent:
        case ast.Return():
            return 1.0
        case ast.Compare():
            return 0.9
        case ast.Assign() | ast.AugAssign() | ast.For() | ast.comprehension():
            return 0.8
        case ast.Call(func=func) if func is not node:
            return 0.7
        case ast.ListComp() | ast.GeneratorExp() | ast.SetComp() | ast.IfExp():
            return 0.6
        case ast.BinOp() | ast.Subscript():
            return 0.5
        case ast.Attribute() if not isinstance(node, ast.Name):
            return 0.2
        case _:
            return 0.0


def repeated(site: Site, node: ast.AST) -> Iterator[Edit]:
    """A call of the same function or method that stands elsewhere in this one, with other arguments."""
    called = _called(node.func) if isinstance(node, ast.Call) else ""
    if not called or site.scope.function is None:
        return
    own = site.source.of(node)
    texts = dict.fromkeys(
        site.source.of(other) for other in inside(site.source, site.scope.function)
        if isinstance(other, ast.Call) and _called(other.func) == called
    )
    for text in texts:
        if text != own and "\n" not in text and own not in text:
            yield site.replace(node, text)


def _called(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def copy(site: Site, node: ast.AST) -> Iterator[Edit]:
    """The same object where a copy was meant."""
    if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(node.ctx, ast.Load):
        return
    match site.parent(node):
        case ast.Assign(value=value) if value is node:
            weight = 0.9
        case ast.Return():
            weight = 0.6
        case ast.Call(func=ast.Attribute(attr="append" | "put" | "add" | "insert")):
            weight = 1.0
        case _:
            return
    for form in COPIES.get(site.scope.kind(node), ("list({})", "dict({})", "{}.copy()")):
        yield site.replace(node, form.format(site.source.of(node)), weight)


def in_place(site: Site, node: ast.AST) -> Iterator[Edit]:
    """A result that is thrown away, or None kept for it: `x.strip()` for `x = x.strip()`, `y = x.sort()` for `y = sorted(x)`."""
    source = site.source
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            yield site.replace(node, f"{name} = {source.of(node)}")
        case ast.Expr(value=ast.Call(func=ast.Name(id="sorted" | "reversed" as called), args=[ast.Name(id=name)])):
            yield site.replace(node, f"{name} = list({source.of(node)})")
            yield site.replace(node, f"{name}.{'sort' if called == 'sorted' else 'reverse'}()")
        case ast.Call(func=ast.Attribute(value=value, attr="sort" | "reverse" as called)):
            if not isinstance(site.parent(node), ast.Expr):
                yield site.replace(node, f"sorted({source.of(value)})" if called == "sort" else f"{source.inner(value)}[::-1]")
        case _:
            pass


TEMPLATES = (
    Template("result thrown away", 0.55, in_place),
    Template("conversion too many", 0.45, unwrap),
    Template("arguments the wrong way round", 0.45, swap_arguments),
    Template("look-up of a key", 0.35, lookup),
    Template("conversion missing", 0.3, wrap),
    Template("argument too many", 0.3, drop_argument),
    Template("argument left out", 0.3, add_argument),
    Template("copy for an alias", 0.3, copy),
    Template("call from elsewhere", 0.3, repeated),
)
