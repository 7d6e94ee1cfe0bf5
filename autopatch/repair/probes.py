"""Generated calls of a function, to see whether two patches that pass the same tests do the same elsewhere too."""

import ast
import random
import re
from collections.abc import Iterator, Mapping
from typing import Any

from autopatch.contract.code import Place
from autopatch.repair.tree import Tree

PROBES = 60
LONGEST = 400
"""Characters that one call may have; longer ones are left out."""
TYPICAL: dict[str, tuple[Any, ...]] = {
    "int": (0, 1, 2, 7, -3, 10), "float": (0.0, 1.5, -2.25), "str": ("", "a", "Ab c", "abcba"), "bool": (True, False),
    "list": ([], [1], [3, 1, 2, 2]), "List": ([], [1], [3, 1, 2, 2]), "dict": ({}, {"a": 1}), "Dict": ({}, {"a": 1}),
}
DOCTEST = re.compile(r"^\s*>>>\s*(.+)$", re.M)
SCRIPT = '''\
import sys
sys.path = [entry for entry in sys.path if entry not in ("", ".")]
import copy, hashlib, importlib.util, json, random, re, signal
sys.path[:0] = [{root!r}, "."]
late_ones = []
sys.setrecursionlimit(2000)
def late(*_):
    raise TimeoutError
signal.signal(signal.SIGALRM, late)
def several(values):
    return ", ".join(map(shown, values))
def shown(value):
    kind = type(value)
    if isinstance(value, float):
        return format(value, ".9g")
    if kind in (list, tuple):
        return ("[%s]" if kind is list else "(%s)") % several(value)
    if kind is dict:
        return "{{%s}}" % ", ".join(shown(key) + ": " + shown(item) for key, item in value.items())
    if isinstance(value, (set, frozenset)):
        return "{{" + ", ".join(sorted(map(shown, value))) + "}}"
    if hasattr(value, "__next__"):
        return "iterator " + several([item for item, _ in zip(value, range(100))])
    if kind.__repr__ is object.__repr__ and hasattr(value, "__dict__"):
        return kind.__name__ + shown(vars(value))
    return re.sub(" at 0x[0-9a-f]+", "", repr(value))
def short(text):
    return text if len(ascii(text)) < 80 else "#" + hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()[:16]
def probe(function, arguments):
    if len(late_ones) > 4:
        return "?"
    random.seed(0)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        given = copy.deepcopy(arguments)
        result = shown(function(*given))
        return short(result + ("" if given == arguments else " changed " + shown(given)))
    except BaseException as error:
        if isinstance(error, TimeoutError):
            late_ones.append(error)
        return "!" + type(error).__name__
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
spec = importlib.util.spec_from_file_location({module!r}, {path!r})
module = importlib.util.module_from_spec(spec)
sys.modules[{module!r}] = module
out, sys.stdout = sys.stdout, sys.stderr
spec.loader.exec_module(module)
answers = [probe(getattr(module, {name!r}), arguments) for arguments in [
{calls}
]]
print(json.dumps(answers), file=out)
'''


def probe_inputs(tree: Tree, place: Place, tests: Mapping[str, bytes], *, seed: int = 0) -> str:
    """A Python script that calls the function at `place` with generated inputs and prints one JSON list of outputs (strings).

    Inputs are literals of its tests and documentation, and these a little changed: one more, one less, empty, reversed, longer,
    arguments of one call mixed with those of another. An output that begins with ! is an error; ? was not tried because five
    calls took longer than 0.2 s. To be run in the repository's root, in the sandbox, on each survivor. '' when the place is not
    a top-level Python function or its inputs are not known.
    """
    function = _function(tree, place)
    if function is None:
        return ""
    count = len(function.args.posonlyargs + function.args.args)
    given = [c for c in _given(function, tests) if len(c) <= count] or list(_typical(function))
    calls = list(_calls(given, random.Random(seed)))
    if not calls:
        return ""
    root, module = _imported(tree, place.path)
    return SCRIPT.format(root=root, module=module, path=place.path, name=function.name, calls=",\n".join(calls))


def _imported(tree: Tree, path: str) -> tuple[str, str]:
    """The folder that must be on Python's path, and the module's dotted name below it."""
    root, module = path.rpartition("/")[0], path.rpartition("/")[2].removesuffix(".py")
    while root and f"{root}/__init__.py" in tree:
        root, _, package = root.rpartition("/")
        module = f"{package}.{module}"
    return root or ".", module.removesuffix(".__init__")


def _function(tree: Tree, place: Place) -> ast.FunctionDef | None:
    try:
        module = ast.parse(tree[place.path]) if place.path.endswith(".py") and place.path in tree else ast.Module([], [])
    except (SyntaxError, ValueError, RecursionError):
        return None
    return next((n for n in module.body if isinstance(n, ast.FunctionDef) and n.name == place.name), None)


def _given(function: ast.FunctionDef, tests: Mapping[str, bytes]) -> Iterator[tuple[Any, ...]]:
    texts = DOCTEST.findall(ast.get_docstring(function) or "")
    texts += [body.decode(errors="replace") for body in tests.values()]
    for text in texts:
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            continue
        if function.name in text:
            for scope in [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)] or [tree]:
                yield from _called(scope, function.name, _tabled(scope))
            yield from _called(tree, function.name, [{}])


def _tabled(scope: ast.AST) -> list[dict[str, ast.expr]]:
    """Rows of `parametrize("a, b", [(1, 2), …])`, by name."""
    rows: list[dict[str, ast.expr]] = []
    for node in getattr(scope, "decorator_list", ()):
        match node:
            case ast.Call(func=ast.Attribute(attr="parametrize"), args=[names, (ast.List() | ast.Tuple()) as table, *_]):
                for value in table.elts:
                    rows += _row(names, value)
            case _:
                pass
    return rows


def _row(names: ast.expr, value: ast.expr) -> list[dict[str, ast.expr]]:
    try:
        listed = ast.literal_eval(names)
    except ValueError:
        return []
    keys = [k.strip() for k in listed.split(",")] if isinstance(listed, str) else [str(k) for k in listed]
    cells = [value] if len(keys) == 1 else list(value.elts) if isinstance(value, ast.Tuple | ast.List) else []
    return [dict(zip(keys, cells, strict=True))] if len(keys) == len(cells) else []


def _called(scope: ast.AST, name: str, rows: list[dict[str, ast.expr]]) -> Iterator[tuple[Any, ...]]:
    for node in ast.walk(scope):
        match node:
            case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called), args=args, keywords=[]) if called == name:
                for row in rows:
                    try:
                        yield tuple(ast.literal_eval(row.get(a.id, a) if isinstance(a, ast.Name) else a) for a in args)
                    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
                        continue
            case _:
                pass


def _typical(function: ast.FunctionDef) -> Iterator[tuple[Any, ...]]:
    columns = []
    for argument in function.args.posonlyargs + function.args.args:
        note = argument.annotation
        name = note.value if isinstance(note, ast.Subscript) else note
        columns.append(TYPICAL.get(name.id, ()) if isinstance(name, ast.Name) else ())
    if columns and all(columns):
        for index in range(max(map(len, columns))):
            yield tuple(column[index % len(column)] for column in columns)


def _calls(given: list[tuple[Any, ...]], chance: random.Random) -> Iterator[str]:
    seen: dict[str, None] = dict.fromkeys(repr(list(call)) for call in given[:PROBES // 3])
    fresh: dict[str, None] = {}
    for call in given:
        for index, value in enumerate(call):
            for near in _near(value):
                fresh[repr([*call[:index], near, *call[index + 1:]])] = None
            other = chance.choice(given)
            if index < len(other):
                fresh[repr([*call[:index], other[index], *call[index + 1:]])] = None
        if len(call) > 1 and type(call[0]) is type(call[1]):
            fresh[repr([call[1], call[0], *call[2:]])] = None
    wanted = [text for text in fresh if text not in seen and len(text) <= LONGEST]
    chance.shuffle(wanted)
    yield from [text for text in [*seen, *wanted] if len(text) <= LONGEST][:PROBES]


def _near(value: Any) -> list[Any]:
    match value:
        case bool():
            return [not value]
        case int():
            return [value + 1, value - 1, value + 2, 0, 1, -value, value * 2 + 1]
        case float():
            return [value + 1, value - 1, 0.0, -value, value / 2]
        case str():
            cut = [value[1:], value[:-1], value[:1]]
            return ["", value[::-1], value + value, *cut, value.upper(), value.lower(), value + " ", "x" + value]
        case list() | tuple():
            kind, items = type(value), list(value)
            inner = [[*items[:i], near, *items[i + 1:]] for i in range(min(3, len(items))) for near in _near(items[i])[:3]]
            plain = [[], items[::-1], items * 2, items[1:], items[:-1], items[:1], [*items, *items[:1]]]
            return [kind(one) for one in [*plain, *inner]]
        case dict():
            return [{}, dict(list(value.items())[1:]), {k: near for k, v in value.items() for near in _near(v)[:1]}]
        case _:
            return [None]
