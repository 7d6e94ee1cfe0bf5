"""Python as a syntax tree: what is defined, and what a function needs around it."""

import ast
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence

from autopatch.repair.matching.lines import Lines, split

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef
_BINDING = Definition | ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign
_CUTS = 60
"""Lines that may be prose behind code."""


def parse_python(source: str | bytes) -> ast.Module:
    """The syntax tree. Raises SyntaxError for whatever Python does not take, too deep nesting among it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (ValueError, RecursionError, MemoryError) as error:
        raise SyntaxError(str(error) or type(error).__name__) from error


def parses(source: str | bytes) -> bool:
    """Does Python take it?"""
    try:
        parse_python(source)
    except SyntaxError:
        return False
    return True


def as_far_as_python(bodies: Sequence[str]) -> list[str]:
    """The lines without prose behind them: the longest beginning that parses and defines something, else all of them."""
    for cut in range(min(_CUTS, len(bodies))):
        part = list(bodies[:len(bodies) - cut])
        try:
            tree = parse_python("\n".join(part) + "\n")
        except SyntaxError:
            continue
        return part if not cut or any(definitions(tree)) else list(bodies)
    return list(bodies)


def definitions(tree: ast.AST, within: str = "") -> Iterator[tuple[str, Definition]]:
    """Every function and class with its qualified name (without `<locals>`), outer ones first."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield within + node.name, node
            yield from definitions(node, f"{within}{node.name}.")
        elif not isinstance(node, ast.expr):
            yield from definitions(node, within)


def start_of(node: ast.stmt) -> int:
    """The first line, that of the first decorator where there is one."""
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else []
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def with_what_it_needs(text: str, answer: ast.Module, new: Definition, theirs: Lines) -> tuple[str, tuple[str, ...]]:
    """Adds the answer's imports, helpers and constants that the new function uses and the file does not have.

    What is made by calling the new function only shows how it is used.
    """
    try:
        file = parse_python(text)
    except SyntaxError:
        return text, ()
    bound, used = _top(file), _reads(new)
    needed: list[ast.stmt] = []
    for node in reversed(answer.body):
        reads = _reads(node)
        shows = new.name in reads and not isinstance(node, Definition)
        if set(_bound(node)) & used - bound and not shows and not any(inner is new for inner in ast.walk(node)):
            needed.insert(0, node)
            used |= reads
    notes = tuple(f"{', '.join(sorted(set(_bound(node)) - bound))}: added, the answer brings it along" for node in needed)
    return (_with_statements(text, file, needed, theirs) if needed else text), notes


def _reads(node: ast.AST) -> set[str]:
    """Names that it takes from around it: those that it reads, but for what a function binds itself. Of a class, each part's."""
    if isinstance(node, ast.ClassDef):
        return {name for part in ast.iter_child_nodes(node) for name in _reads(part)}
    read, own, common = set[str](), set[str](), set[str]()
    for inner in ast.walk(node):
        match inner:
            case ast.Name(id=name, ctx=ast.Load()):
                read.add(name)
            case ast.Name(id=name) | ast.arg(arg=name) | ast.ExceptHandler(name=str(name)):
                own.add(name)
            case ast.Global(names=names):
                common |= {*names}
            case ast.stmt() if isinstance(inner, Definition | ast.Import | ast.ImportFrom) and inner is not node:
                own |= {*_bound(inner)}
            case _:
                pass
    return (read - own | common | _outside(node)) if isinstance(node, Function) else read


def _outside(function: Function) -> set[str]:
    """What its decorators, defaults and annotations read, which its own names do not hide."""
    given, nothing = function.args, list[ast.expr | None]()
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
    parts = nothing + function.decorator_list + given.defaults + given.kw_defaults + [one.annotation for one in every]
    return {
        inner.id for part in [*parts, function.returns] if part for inner in ast.walk(part) if isinstance(inner, ast.Name)
    }


def loses(old: ast.Module, new: ast.Module) -> bool:
    """Lacks the new one a name that the old one's top binds, or a statement there that binds none, such as the docstring?"""
    kinds = [Counter(type(node) for node in tree.body if not isinstance(node, _BINDING)) for tree in (old, new)]
    return bool(_top(old) - _top(new) or kinds[0] - kinds[1])


def rebinds(old: ast.Module, new: ast.Module) -> list[str]:
    """Names to which both tops assign, other things."""
    values = [
        {name: ast.dump(node) for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign) for name in _bound(node)}
        for tree in (old, new)
    ]
    return sorted(name for name in values[0].keys() & values[1].keys() if values[0][name] != values[1][name])


def _top(tree: ast.Module) -> set[str]:
    return {name for node in tree.body for name in _bound(node)}


def _bound(node: ast.stmt) -> Iterator[str]:
    """Names that a statement at the top of a module binds."""
    match node:
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in names)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.Assign(targets=targets):
            yield from (name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case ast.If() | ast.Try() | ast.With():
            yield from (name for inner in ast.iter_child_nodes(node) if isinstance(inner, ast.stmt) for name in _bound(inner))
        case _:
            return


def _with_statements(text: str, file: ast.Module, needed: Sequence[ast.stmt], theirs: Lines) -> str:
    """Behind the file's first imports, or its docstring, or at its very top under a #! or coding line."""
    lines = split(text)
    heads: list[ast.stmt] = [node for node in file.body if isinstance(node, ast.Import | ast.ImportFrom)]
    if not heads and file.body and isinstance(file.body[0], ast.Expr) and isinstance(file.body[0].value, ast.Constant):
        heads = file.body[:1]
    at = max((node.end_lineno or 0 for node in heads), default=0)
    while not heads and at < min(2, len(lines.bodies)) and lines.bodies[at].startswith("#"):
        at += 1
    fresh: list[str] = []
    for node in needed:
        own = theirs.bodies[start_of(node) - 1:node.end_lineno]
        fresh += own if isinstance(node, ast.Import | ast.ImportFrom) else ["", "", *own]
    end = lines.ends[at - 1] if at and lines.ends[at - 1] else (lines.ends[0] if lines.ends and lines.ends[0] else "\n")
    offset = lines.stop(at - 1) if at else 0
    lead = "" if not at or lines.ends[at - 1] else end
    return text[:offset] + lead + "".join(body + end for body in fresh) + text[offset:]
