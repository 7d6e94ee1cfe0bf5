"""Cases that were not thought of: nothing given, the smallest input, a default that is shared, a lock that is not held."""

import ast
from collections.abc import Iterator

from autopatch.repair.templates.mutant import Edit, Site, Template
from autopatch.repair.templates.scope import ANNOTATED
from autopatch.repair.templates.source import Function, inside, is_docstring
from autopatch.repair.templates.statements import moved

EMPTY = {
    "list": ("[]", "None", "False", "0"), "text": ("''", "None", "[]", "0", "False"), "dict": ("{}", "None", "False"),
    "set": ("set()", "None"),
    "container": ("[]", "0", "None", "''", "False", "True"), "number": ("0", "1", "None", "False", "[]"),
    "bool": ("False", "True"),
    "": ("None", "0", "[]", "''", "False", "True"),
}


def _first(site: Site, function: Function) -> ast.stmt | None:
    body = [s for s in function.body if not is_docstring(site.source, s)]
    return body[0] if body else None


def _insert_before(site: Site, node: ast.stmt, head: str, inner: str, weight: float) -> Iterator[Edit]:
    span = site.source.line_span(node)
    if span:
        indent, newline = site.source.indent(node), site.source.newline()
        yield Edit(span[0], span[0], f"{indent}{head}{newline}{indent}{site.source.step()}{inner}{newline}", weight)


def _returned(site: Site, function: Function) -> list[str]:
    values = [n.value for n in inside(site.source, function) if isinstance(n, ast.Return) and n.value is not None]
    plain = (ast.Constant, ast.List, ast.Dict, ast.Name)
    return list(dict.fromkeys(site.source.of(v) for v in values if isinstance(v, plain) and "\n" not in site.source.of(v)))


def _kind_returned(site: Site, function: Function) -> str:
    annotation = function.returns
    kinds = [site.scope.kind(n.value) for n in inside(site.source, function) if isinstance(n, ast.Return)]
    if isinstance(annotation, ast.Name | ast.Subscript):
        name = annotation.value if isinstance(annotation, ast.Subscript) else annotation
        kinds.insert(0, ANNOTATED.get(name.id, "") if isinstance(name, ast.Name) else "")
    return next((k for k in kinds if k), "")


def nothing_given(site: Site, node: ast.AST) -> Iterator[Edit]:
    """An empty or missing argument needs an answer of its own."""
    first = _first(site, node) if isinstance(node, Function) else None
    if first is None or not isinstance(node, Function):
        return
    kind = _kind_returned(site, node)
    values = [v for v in _returned(site, node) if v.isidentifier() is False or v in ("True", "False", "None")]
    answers = list(dict.fromkeys([*EMPTY[kind], *values]))
    for parameter in site.scope.parameters:
        own = site.scope.kinds.get(parameter, "")
        if parameter in ("self", "cls"):
            continue
        if own != "number":
            for place, answer in enumerate([*answers, parameter]):
                yield from _insert_before(site, first, f"if not {parameter}:", f"return {answer}", 1.0 / (1 + place / 3))
        yield from _insert_before(site, first, f"if {parameter} is None:", f"return {answers[0]}", 0.5)
        for empty in EMPTY.get(own, ("[]", "{}", "0"))[:2]:
            yield from _insert_before(site, first, f"if {parameter} is None:", f"{parameter} = {empty}", 0.5)


def base_case(site: Site, node: ast.AST) -> Iterator[Edit]:
    """The smallest inputs of a function over numbers or of one that calls itself."""
    first = _first(site, node) if isinstance(node, Function) else None
    if first is None or not isinstance(node, Function):
        return
    calls = any(isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == node.name for n in ast.walk(node))
    weight, kind = 1.0 if calls else 0.5, _kind_returned(site, node)
    for parameter in site.scope.parameters:
        if site.scope.kinds.get(parameter) == "number":
            answers = ("0", "1", parameter, "[]") if kind in ("number", "") else EMPTY[kind][:2]
            for limit in ("== 0", "== 1", "<= 1", "< 2", "<= 0", "== 2"):
                for answer in answers:
                    yield from _insert_before(site, first, f"if {parameter} {limit}:", f"return {answer}", weight)
        elif site.scope.kinds.get(parameter) in ("list", "text", "container"):
            yield from _insert_before(site, first, f"if len({parameter}) < 2:", f"return {parameter}", weight)


def skipped(site: Site, node: ast.AST) -> Iterator[Edit]:
    """An element of a loop that should be passed over."""
    if not isinstance(node, ast.For) or not isinstance(node.target, ast.Name):
        return
    name, kinds = node.target.id, site.scope.kinds
    heads = [(f"if {name} is None:", 0.7), (f"if not {name}:", 0.9)]
    heads += [(f"if {name} in {o}:", 0.6) for o in site.scope.names if kinds.get(o) in ("list", "set", "dict") and o != name]
    heads += [(f"if {name} not in {o}:", 0.5) for o in site.scope.names if kinds.get(o) in ("list", "set", "dict") and o != name]
    alike = [o for o in site.scope.names if o != name and site.scope.fit(kinds.get(name, ""), o) >= 0.6]
    heads += [(f"if {name} == {other}:", 0.5) for other in alike]
    for head, weight in heads:
        yield from _insert_before(site, node.body[0], head, "continue", weight)


def divisor(site: Site, node: ast.AST) -> Iterator[Edit]:
    """A division by what may be zero."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div | ast.FloorDiv | ast.Mod):
        return
    if not isinstance(node.right, ast.Constant) and site.scope.kind(node.left) != "text":
        for zero in ("0", "0.0", "None"):
            text = f"({site.source.of(node)} if {site.source.inner(node.right)} else {zero})"
            yield site.replace(node, text, 1.0 if zero == "0" else 0.5)


def shared_default(site: Site, node: ast.AST) -> Iterator[Edit]:
    """A default that all calls share, such as `[]`: made anew in each call instead."""
    if not isinstance(node, Function) or not (first := _first(site, node)):
        return
    named = node.args.args[len(node.args.args) - len(node.args.defaults):]
    pairs = [*zip(named, node.args.defaults, strict=True), *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)]
    span, source = site.source.line_span(first), site.source
    for argument, default in pairs:
        if span and isinstance(default, ast.List | ast.Dict | ast.Set | ast.Call):
            start, end = source.span(default)
            indent, newline = source.indent(first), source.newline()
            inner = f"{indent}{source.step()}{argument.arg} = {source.of(default)}{newline}"
            guard = f"{indent}if {argument.arg} is None:{newline}{inner}"
            yield Edit(start, span[0], "None" + source.text[end:span[0]] + guard)


def reset(site: Site, node: ast.AST) -> Iterator[Edit]:
    """An object's field that keeps an old value: set again as the constructor sets it."""
    if not isinstance(node, Function) or node.name == "__init__" or not (first := _first(site, node)):
        return
    owner, newline = site.parent(node), site.source.newline()
    beside = next((statement for statement in node.body if _sets_field(statement)), first)  # past what refuses a call
    places = {beside: 1.0, first: 0.6 if beside is not first else 1.0, node.body[-1]: 0.8}
    for text in _made(site, owner) if isinstance(owner, ast.ClassDef) else ():
        for place, weight in places.items():
            span = site.source.line_span(place)
            if span:
                yield Edit(span[0], span[0], f"{site.source.indent(place)}{text}{newline}", weight)
        last = site.source.line_span(node.body[-1])
        if last and not isinstance(node.body[-1], ast.Return | ast.Raise) and site.source.text[:last[1]].endswith("\n"):
            yield Edit(last[1], last[1], f"{site.source.indent(node.body[-1])}{text}{newline}", 1.0)


def _sets_field(statement: ast.stmt) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(isinstance(t, ast.Attribute) and isinstance(t.value, ast.Name) and t.value.id == "self" for t in targets)


def _made(site: Site, owner: ast.ClassDef) -> Iterator[str]:
    """Statements that give fields what they begin with: the constructor's own, or those that a dataclass's defaults stand for."""
    made = next((m for m in owner.body if isinstance(m, Function) and m.name == "__init__"), None)
    for statement in made.body if made else ():
        match statement:
            case (
                ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value)
                | ast.AnnAssign(target=ast.Attribute(value=ast.Name(id="self"), attr=name), value=ast.expr() as value)
            ) if not _uses_arguments(value, made):
                yield f"self.{name} = {site.source.of(value)}"
            case _:
                pass
    of_defaults = any("dataclass" in ast.dump(one) for one in owner.decorator_list)
    for statement in owner.body if of_defaults else ():
        match statement:
            case ast.AnnAssign(
                target=ast.Name(id=name), value=ast.Call(keywords=[ast.keyword(arg="default_factory", value=factory)])
            ):
                yield f"self.{name} = {site.source.inner(factory)}()"
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant() as value):
                yield f"self.{name} = {site.source.of(value)}"
            case _:
                pass


def _uses_arguments(value: ast.expr, made: Function | None) -> bool:
    names = {a.arg for a in made.args.args} if made else set()
    return any(isinstance(n, ast.Name) and n.id in names for n in ast.walk(value))


def unlocked(site: Site, node: ast.AST) -> Iterator[Edit]:
    """A method that does not hold the lock that its object has."""
    owner = site.parent(node)
    if not isinstance(node, Function) or node.name == "__init__" or not isinstance(owner, ast.ClassDef):
        return
    locks = [
        s.targets[0].attr for s in ast.walk(owner) if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Attribute)
        and isinstance(s.value, ast.Call) and site.source.of(s.value.func).rsplit(".", 1)[-1] in ("Lock", "RLock")
    ]
    body = [s for s in node.body if not is_docstring(site.source, s)]
    spans = [site.source.line_span(s) for s in body]
    for lock in dict.fromkeys(locks):
        if body and all(spans) and f"self.{lock}" not in site.source.of(node):
            indent = site.source.indent(body[0])
            inner = [moved(site.source, s, indent + site.source.step()) for s in body]
            first, last = spans[0], spans[-1]
            if all(inner) and first and last:
                text = "".join(t for t in inner if t)
                yield Edit(first[0], last[1], f"{indent}with self.{lock}:{site.source.newline()}{text}")


TEMPLATES = (
    Template("shared default", 0.6, shared_default),
    Template("lock not held", 0.5, unlocked),
    Template("field not set again", 0.3, reset),
    Template("division by zero", 0.25, divisor),
    Template("nothing given", 0.2, nothing_given),
    Template("base case missing", 0.2, base_case),
    Template("element to pass over", 0.15, skipped),
)
