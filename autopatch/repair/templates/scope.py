"""Names that an edit may use, and what kind of value each seems to hold."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from autopatch.repair.templates.source import Function, Source

ANNOTATED = {
    "int": "number", "float": "number", "complex": "number", "bool": "bool", "str": "text", "list": "list", "List": "list",
    "Sequence": "list", "Iterable": "list", "tuple": "list", "Tuple": "list", "dict": "dict", "Dict": "dict", "Mapping": "dict",
    "set": "set", "Set": "set",
}
RETURNED = {
    "len": "number", "sum": "number", "int": "number", "float": "number", "abs": "number", "round": "number", "ord": "number",
    "pow": "number", "str": "text", "chr": "text", "repr": "text", "list": "list", "sorted": "list", "set": "set", "dict": "dict",
    "tuple": "list", "bool": "bool", "any": "bool", "all": "bool", "isinstance": "bool", "range": "list",
    "lower": "text", "upper": "text", "strip": "text", "join": "text", "replace": "text", "split": "list", "count": "number",
    "index": "number", "find": "number", "startswith": "bool", "endswith": "bool", "isdigit": "bool", "isalpha": "bool",
}
OWNERS = {
    **dict.fromkeys(("append", "extend", "sort", "reverse", "insert"), "list"),
    **dict.fromkeys(("lower", "upper", "strip", "split", "startswith", "endswith"), "text"),
    **dict.fromkeys(("isdigit", "isalpha", "swapcase", "replace"), "text"),
    **dict.fromkeys(("keys", "values", "items", "setdefault"), "dict"), **dict.fromkeys(("add", "discard"), "set"),
}
CONTAINERS = frozenset({"list", "text", "dict", "set", "container"})


@dataclass
class Scope:
    """One function's names in the order in which they appear, parameters first. `attributes` are those of its object, `members`
    those that it reads of any object."""

    function: Function | None = None
    parameters: tuple[str, ...] = ()
    names: list[str] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)
    elements: dict[str, str] = field(default_factory=dict)
    attributes: tuple[str, ...] = ()
    members: list[str] = field(default_factory=list)
    functions: tuple[str, ...] = ()
    globals: list[str] = field(default_factory=list)

    def kind(self, node: ast.AST | None) -> str:
        """number, text, bool, list, dict, set, container, or '' where nothing tells."""
        match node:
            case ast.Constant(value=bool()) | ast.Compare() | ast.UnaryOp(op=ast.Not()):
                return "bool"
            case ast.Constant(value=int() | float()) | ast.UnaryOp():
                return "number"
            case ast.Constant(value=str()) | ast.JoinedStr():
                return "text"
            case ast.List() | ast.ListComp() | ast.Tuple():
                return "list"
            case ast.Dict() | ast.DictComp():
                return "dict"
            case ast.Set() | ast.SetComp():
                return "set"
            case ast.Name(id=name):
                return self.kinds.get(name, "")
            case ast.BinOp(left=left, right=right, op=op):
                always = isinstance(op, ast.Sub | ast.Div | ast.FloorDiv | ast.Pow)
                return "number" if always else self.kind(left) or self.kind(right)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                return RETURNED.get(name, "")
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                return self.kinds.get(name, "") if isinstance(index, ast.Slice) else self.elements.get(name, "")
            case _:
                return ""

    def fit(self, kind: str, name: str) -> float:
        """0 to 1: how well a name stands where a value of a kind is wanted."""
        other = self.kinds.get(name, "")
        if not kind or not other:
            return 0.6
        if kind == other:
            return 1.0
        return 0.7 if "container" in (kind, other) and {kind, other} <= CONTAINERS else 0.1

    def learn(self, name: str, kind: str) -> None:
        """First word counts, but a plain `container` gives way."""
        if kind and self.kinds.get(name, "container") == "container":
            self.kinds[name] = kind


def scope_of(source: Source, function: Function | None) -> Scope:
    """What a function knows. For None: what the module assigns at its top level."""
    top = tuple(n.name for n in source.tree.body if isinstance(n, Function))
    scope = Scope(function=function, functions=top)
    root: ast.AST = function or source.tree
    if function is not None:
        arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        scope.parameters = tuple(a.arg for a in arguments)
        for argument in arguments:
            scope.names.append(argument.arg)
            _annotated(scope, argument.arg, argument.annotation)
        scope.attributes = tuple(_attributes(source, function))
    nodes = list(_own(root))
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) if name not in scope.names:
                scope.names.append(name)
            case ast.Attribute(attr=name) if name not in scope.members:
                parent = source.parents[node]
                if not (isinstance(parent, ast.Call) and parent.func is node):
                    scope.members.append(name)
            case _:
                pass
    for _ in range(2):
        for node in nodes:
            _learn(scope, node)
    if function is not None:
        _globals(scope, source)
    return scope


def _globals(scope: Scope, source: Source) -> None:
    """Constants of the module that the function may use."""
    for node in source.tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name not in scope.names:
                scope.globals.append(name)
                scope.learn(name, scope.kind(value))
            case _:
                pass


def _own(root: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(root):
        if isinstance(root, ast.Module) and isinstance(child, Function | ast.ClassDef):
            continue
        yield child
        yield from _own(child)


def _annotated(scope: Scope, name: str, annotation: ast.expr | None) -> None:
    inner: ast.expr | None = None
    if isinstance(annotation, ast.Subscript):
        inner, annotation = annotation.slice, annotation.value
        if isinstance(annotation, ast.Name) and annotation.id == "Optional":
            return _annotated(scope, name, inner)
    if isinstance(annotation, ast.Name):
        scope.learn(name, ANNOTATED.get(annotation.id, ""))
        if annotation.id == "str":
            scope.elements.setdefault(name, "text")
    if isinstance(inner, ast.Name) and inner.id in ANNOTATED:
        scope.elements.setdefault(name, ANNOTATED[inner.id])
    return None


def _attributes(source: Source, function: Function) -> Iterator[str]:
    owner = source.parents.get(function)
    if not isinstance(owner, ast.ClassDef):
        return
    seen: set[str] = set()
    for node in ast.walk(owner):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=attr, ctx=ast.Store()) if attr not in seen:
                seen.add(attr)
                yield attr


def _learn(scope: Scope, node: ast.AST) -> None:
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            scope.learn(name, scope.kind(value))
        case ast.AugAssign(target=ast.Name(id=name), value=value):
            scope.learn(name, scope.kind(value))
        case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
            _annotated(scope, name, annotation)
        case ast.For(target=target, iter=iterated) | ast.comprehension(target=target, iter=iterated):
            _looped(scope, target, iterated)
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)) if attr in OWNERS:
            scope.learn(name, OWNERS[attr])
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)]) | ast.Subscript(value=ast.Name(id=name)):
            scope.learn(name, "container")
        case ast.BinOp(left=ast.Name(id=name), op=ast.Sub() | ast.Div() | ast.FloorDiv() | ast.Pow()):
            scope.learn(name, "number")
        case ast.BinOp(left=ast.Name(id=name), right=ast.Constant(value=int() | float())) | ast.Compare(
            left=ast.Name(id=name), comparators=[ast.Constant(value=int() | float())],
        ):
            scope.learn(name, "number")
        case ast.Compare(left=ast.Name(id=name), comparators=[ast.Constant(value=str())]):
            scope.learn(name, "text")
        case _:
            pass


def _looped(scope: Scope, target: ast.expr, iterated: ast.expr) -> None:
    match target, iterated:
        case ast.Name(id=name), ast.Call(func=ast.Name(id="range")):
            scope.learn(name, "number")
        case ast.Tuple(elts=[ast.Name(id=name), second]), ast.Call(func=ast.Name(id="enumerate"), args=[inner, *_]):
            scope.learn(name, "number")
            _looped(scope, second, inner)
        case ast.Name(id=name), ast.Name(id=container):
            scope.learn(container, "container")
            scope.learn(name, "text" if scope.kinds.get(container) == "text" else scope.elements.get(container, ""))
        case _:
            pass
