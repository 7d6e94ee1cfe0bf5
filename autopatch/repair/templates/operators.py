"""Wrong operator, operands the wrong way round, an operand too many."""

import ast
import re
from collections.abc import Iterator

from autopatch.repair.templates.mutant import Edit, Site, Template

SYMBOL: dict[type[ast.AST], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.In: "in", ast.NotIn: "not in",
    ast.Is: "is", ast.IsNot: "is not", ast.And: "and", ast.Or: "or", ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/",
    ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<",
    ast.RShift: ">>", ast.MatMult: "@",
}
BOUNDARY = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
OPPOSITE = {
    "<": (">=", ">"), "<=": (">", ">="), ">": ("<=", "<"), ">=": ("<", "<="), "==": ("!=",), "!=": ("==",), "in": ("not in",),
    "not in": ("in",), "is": ("is not",), "is not": ("is",),
}
OTHER = {
    "<": ("!=",), "<=": ("==",), ">": ("!=",), ">=": ("==",), "==": ("<=", ">=", "<", ">", "in"), "!=": ("<", ">", "not in"),
    "in": ("==",), "not in": ("!=",),
}
IDENTITY = {"is": "==", "is not": "!=", "==": "is", "!=": "is not"}
NEIGHBOUR = {
    "+": ("-", "*"), "-": ("+",), "*": ("/", "+", "**", "//"), "/": ("//", "*", "%"), "//": ("/", "%"), "%": ("//", "/"),
    "**": ("*",), "&": ("|", "^"), "|": ("&", "^"), "^": ("&", "|", "**"), "<<": (">>",), ">>": ("<<",),
}
FAR = {"+": ("//", "%"), "-": ("*", "%", "//"), "*": ("-", "%"), "/": ("-",), "%": ("-", "*"), "**": ("+",)}


def _pattern(symbol: str) -> str:
    if symbol[0].isalpha():
        return r"\b" + symbol.replace(" ", r"\s+") + r"\b"
    return re.escape(symbol)


def _swap(site: Site, left: ast.AST, right: ast.AST, old: str, new: str, weight: float = 1.0) -> Iterator[Edit]:
    at = site.source.gap(left, right, _pattern(old))
    if at:
        yield Edit(*at, new, weight)


def _comparisons(node: ast.AST) -> Iterator[tuple[ast.expr, str, ast.expr]]:
    if isinstance(node, ast.Compare):
        lefts = [node.left, *node.comparators]
        for left, op, right in zip(lefts, node.ops, node.comparators, strict=False):
            yield left, SYMBOL[type(op)], right


def boundary(site: Site, node: ast.AST) -> Iterator[Edit]:
    """`<` for `<=` and their like: whether the limit itself belongs."""
    for left, symbol, right in _comparisons(node):
        if symbol in BOUNDARY:
            yield from _swap(site, left, right, symbol, BOUNDARY[symbol])


def opposite(site: Site, node: ast.AST) -> Iterator[Edit]:
    """A comparison the wrong way round."""
    for left, symbol, right in _comparisons(node):
        for place, new in enumerate(OPPOSITE[symbol]):
            yield from _swap(site, left, right, symbol, new, 0.9 if place else 1.0)


def other_comparison(site: Site, node: ast.AST) -> Iterator[Edit]:
    """Equality where an order was meant, and the reverse."""
    for left, symbol, right in _comparisons(node):
        for new in OTHER.get(symbol, ()):
            yield from _swap(site, left, right, symbol, new)


def identity(site: Site, node: ast.AST) -> Iterator[Edit]:
    """`is` for values, `==` for None."""
    for left, symbol, right in _comparisons(node):
        if symbol in IDENTITY:
            none = isinstance(right, ast.Constant) and right.value is None
            yield from _swap(site, left, right, symbol, IDENTITY[symbol], 1.0 if none == (symbol in ("==", "!=")) else 0.05)


def boolean(site: Site, node: ast.AST) -> Iterator[Edit]:
    """`and` for `or`."""
    if isinstance(node, ast.BoolOp):
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        pairs = list(zip(node.values, node.values[1:], strict=False))
        if len(pairs) > 1:
            gaps = [site.source.gap(left, right, _pattern(old)) for left, right in pairs]
            start, end = site.source.span(node)
            text = site.source.text[start:end]
            for gap in reversed(gaps):
                text = text[:gap[0] - start] + new + text[gap[1] - start:] if gap else text
            yield site.replace(node, text)
        for left, right in pairs:
            yield from _swap(site, left, right, old, new, 1.0 if len(pairs) == 1 else 0.6)


def drop_clause(site: Site, node: ast.AST) -> Iterator[Edit]:
    """A condition with one clause too many."""
    if isinstance(node, ast.BoolOp):
        for index, (left, right) in enumerate(zip(node.values, node.values[1:], strict=False)):
            if len(node.values) == 2:
                yield site.replace(node, site.source.inner(left))
                yield site.replace(node, site.source.inner(right))
            else:
                yield Edit(site.source.span(left)[1], site.source.span(right)[1], "")
                if index == 0:
                    yield Edit(site.source.span(left)[0], site.source.span(right)[0], "")


def arithmetic(site: Site, node: ast.AST) -> Iterator[Edit]:
    """An operator beside the one that was meant."""
    if isinstance(node, ast.BinOp) and not _formats(node):
        symbol = SYMBOL[type(node.op)]
        for new in NEIGHBOUR.get(symbol, ()):
            yield from _swap(site, node.left, node.right, symbol, new)


def far_arithmetic(site: Site, node: ast.AST) -> Iterator[Edit]:
    """An operator far from the one that was meant."""
    if isinstance(node, ast.BinOp) and not _formats(node):
        symbol = SYMBOL[type(node.op)]
        for new in FAR.get(symbol, ()):
            yield from _swap(site, node.left, node.right, symbol, new)


def _formats(node: ast.BinOp) -> bool:
    return isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)


def augmented(site: Site, node: ast.AST) -> Iterator[Edit]:
    """`+=` for `-=`, and `=` where a value was to be gathered."""
    if isinstance(node, ast.AugAssign):
        symbol = SYMBOL[type(node.op)]
        for new in NEIGHBOUR.get(symbol, ()):
            yield from _swap(site, node.target, node.value, symbol + "=", new + "=")
        for new in FAR.get(symbol, ()):
            yield from _swap(site, node.target, node.value, symbol + "=", new + "=", 0.25)
        yield from _swap(site, node.target, node.value, symbol + "=", "=", 0.6)
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and not isinstance(node.targets[0], ast.Tuple | ast.List):
        kind = site.scope.kind(node.targets[0]) or site.scope.kind(node.value)
        for new in ("+=", "-=", "*=") if kind == "number" else ("+=",):
            yield from _swap(site, node.targets[0], node.value, "=", new, 0.5 if new == "+=" else 0.2)


def drop_operand(site: Site, node: ast.AST) -> Iterator[Edit]:
    """A term too many: `a + b` becomes `a` or `b`."""
    if isinstance(node, ast.BinOp) and not _formats(node):
        yield site.replace(node, site.source.inner(node.left))
        yield site.replace(node, site.source.inner(node.right), 0.6)


def swap_operands(site: Site, node: ast.AST) -> Iterator[Edit]:
    """`a - b` for `b - a`."""
    ordered = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub | ast.Div | ast.FloorDiv | ast.Mod | ast.Pow | ast.Add)
    if ordered and isinstance(node, ast.BinOp) and not _formats(node):
        add = isinstance(node.op, ast.Add)
        if add and "number" in (site.scope.kind(node.left), site.scope.kind(node.right)):
            return
        source = site.source
        between = source.text[source.span(node.left)[1]:source.span(node.right)[0]]
        if "(" not in between and ")" not in between:
            yield site.replace(node, source.inner(node.right) + between + source.inner(node.left))


def membership(site: Site, node: ast.AST) -> Iterator[Edit]:
    """`a in b` for `b in a`."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.In | ast.NotIn):
        of = site.source.inner
        yield site.replace(node, f"{of(node.comparators[0])} {SYMBOL[type(node.ops[0])]} {of(node.left)}")


def term_missing(site: Site, node: ast.AST) -> Iterator[Edit]:
    """A term that was left out of a result, an assignment or a comparison: `a` for `a + b`."""
    if not isinstance(node, ast.expr) or isinstance(node, ast.Constant | ast.Tuple | ast.Compare | ast.BoolOp):
        return
    match site.parent(node), getattr(node, "ctx", ast.Load()):
        case (ast.Return() | ast.Assign() | ast.AugAssign() | ast.Compare()), ast.Load():
            kind, own = site.scope.kind(node), site.source.inner(node)
        case _:
            return
    symbols = {"number": ("+", "-", "*", "//", "%"), "text": ("+",), "list": ("+",), "": ("+",)}.get(kind, ())
    for name in site.scope.names:
        if site.scope.fit(kind, name) == (1.0 if kind else 0.6) and name != own:
            for symbol in symbols:
                yield site.replace(node, f"({own} {symbol} {name})", 0.5 if symbol in "//%" else 1.0)
            if kind == "text":
                yield site.replace(node, f"({name} + {own})")


def sign(site: Site, node: ast.AST) -> Iterator[Edit]:
    """A minus too many or missing, also of what is sorted by."""
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            yield site.replace(node, site.source.inner(operand))
        case ast.Name(ctx=ast.Load()) | ast.Subscript(ctx=ast.Load()) if site.scope.kind(node) == "number":
            if not isinstance(site.parent(node), ast.UnaryOp):
                yield site.replace(node, f"(-{site.source.of(node)})", 0.3)
        case ast.Call() | ast.Attribute(ctx=ast.Load()) if _orders(site, node):
            yield site.replace(node, f"-{site.source.of(node)}", 0.6)
        case _:
            pass


def _orders(site: Site, node: ast.AST) -> bool:
    """By what is sorted, least first: the value of a key function, or the front of a tuple that is handed over."""
    match site.parent(node):
        case ast.Lambda(body=body):
            return body is node
        case ast.Tuple(elts=[first, _, *_]) as pair:
            return first is node and isinstance(site.parent(pair), ast.Call | ast.Lambda)
        case _:
            return False


def regroup(site: Site, node: ast.AST) -> Iterator[Edit]:
    """`a + b * c` where `(a + b) * c` was meant, and parentheses that are too many."""
    match node:
        case ast.BinOp(op=ast.Mult() | ast.Div() | ast.FloorDiv() | ast.Mod(), left=left, right=right):
            source, parent = site.source, site.parent(node)
            match parent:
                case ast.BinOp(left=first, right=second, op=ast.Add() | ast.Sub()) if second is node:
                    middle = source.text[source.span(first)[1]:source.span(node)[0]]
                    rest = source.text[source.span(left)[1]:source.span(node)[1]]
                    if "(" not in middle + rest and ")" not in middle:
                        yield site.replace(parent, f"({source.of(first)}{middle}{source.of(left)}){rest}")
                case _:
                    pass
            for part in (left, right):
                if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Add | ast.Sub):
                    start, end = source.span(part)
                    if source.text[start - 1:start] == "(" and source.text[end:end + 1] == ")":
                        yield Edit(start - 1, end + 1, source.of(part))
        case _:
            pass


TEMPLATES = (
    Template("boundary of a comparison", 0.9, boundary),
    Template("comparison the wrong way round", 0.75, opposite),
    Template("and for or", 0.7, boolean),
    Template("wrong arithmetic operator", 0.65, arithmetic),
    Template("wrong augmented operator", 0.6, augmented),
    Template("clause too many", 0.45, drop_clause),
    Template("term too many", 0.4, drop_operand),
    Template("operands the wrong way round", 0.4, swap_operands),
    Template("membership the wrong way round", 0.4, membership),
    Template("sign", 0.35, sign),
    Template("equality for order", 0.3, other_comparison),
    Template("identity for equality", 0.3, identity),
    Template("grouping", 0.25, regroup),
    Template("term missing", 0.2, term_missing),
    Template("far arithmetic operator", 0.15, far_arithmetic),
)
