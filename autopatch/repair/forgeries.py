"""Code in a patch that could forge a verdict, and constants that it lifted from tests. Only what is new counts.

Nothing that runs beside the tests proves anything; this refuses the known ways to make them pass without a fix.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator

from autopatch.repair.python_forgeries import classes_in, marks_in
from autopatch.repair.syntax import parse_python
from autopatch.repair.tree import Tree

TRIVIAL = {"", " ", "\n", ","}
"""Texts that stand in any test."""
SMALL = 2
"""Numbers up to this size (without sign) stand in any test."""
_LITERAL = re.compile(
    r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`|(?<![\w.])\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])"
)
_NODE_FILES = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx")
_NODE: tuple[tuple[str, str], ...] = (
    (r"\bprocess\s*(?:\.|\?\.|\[\s*['\"])\s*(?:exit|exitCode|reallyExit|abort|kill|binding|dlopen|emit|_\w+)\b",
        "ends or signals the process"),
    (r"\bprocess\s*\.\s*(?:on|once|addListener|prependListener)\s*\(", "listens to the process"),
    (r"\bprocess\s*\.\s*(?:stdout|stderr)\b", "writes to the runner's output"),
    (r"\bprocess\s*\.\s*(?:argv|execArgv|ppid|env\s*\.\s*(?:NODE_TEST\w*|JEST\w*|VITEST\w*|NODE_OPTIONS))",
        "looks at how it is run"),
    (r"['\"](?:node:)?(?:test|test/reporters|child_process|worker_threads|vm|v8|inspector|module|cluster|async_hooks|repl|diagnostics_channel)['\"]",
     "imports what reaches the runner"),
    (r"['\"](?:node:)?assert(?:/strict)?['\"]|['\"](?:@jest/\S+|jest|vitest|mocha|chai|expect|ava|tap|sinon)['\"]",
        "imports a test tool"),
    (r"\brequire\s*\.\s*(?:cache|extensions|main)\b|\bModule\s*\.\s*_\w+|\bmodule\s*\.\s*(?:parent|children|constructor)\b",
        "changes how modules load"),
    (r"\b(?:globalThis|global|window)\s*(?:\.\s*\w+|\[[^\]]+\])\s*=(?!=)", "changes a global"),
    (r"\b(?:Object|Array|Function|String|Number|Promise|Error|Symbol|Map|Set|RegExp|Date)\s*\.\s*prototype\b",
        "reaches a built-in's prototype"),
    (r"\b(?:Object|Reflect)\s*\.\s*(?:setPrototypeOf|defineProperty)\s*\(\s*(?:globalThis|global|Object|Array|assert|console)\b",
     "changes a built-in"),
    (r"\b(?:assert|Object|Array|Promise|JSON|Math|Number|console|expect)\s*\.\s*\w+\s*=(?![=>])",
        "replaces a built-in's function"),
    (r"\beval\s*\(|\bnew\s+Function\s*\(|\bFunction\s*\(\s*['\"]|\bimport\s*\(", "runs code from text"),
    (r"\b(?:Symbol\s*\.\s*toPrimitive|__proto__|__defineGetter__|valueOf\s*\(|\[Symbol\.toStringTag\])", "compares as it likes"),
    (r"\bnew\s+Proxy\s*\(", "stands in for another object"),
    (r"['\"`][^'\"`\n]*(?:__tests__|\.(?:test|spec)\.[mc]?[jt]sx?|tests?/)[^'\"`\n]*['\"`]", "names a test file"),
    (r"\b(?:jest|vi|expect|describe|beforeEach|afterEach|beforeAll|afterAll)\s*[.(]", "speaks to the runner"),
)


def suspicions(path: str, before: bytes, after: bytes) -> tuple[str, ...]:
    """What a changed file newly does that a fix has no need of, one line each with its line number. `before` is b'' if new."""
    if path.endswith((".py", ".pyi")):
        return _python(path, before, after)
    return _node(path, before, after) if path.endswith(_NODE_FILES) else ()


def _python(path: str, before: bytes, after: bytes) -> tuple[str, ...]:
    try:
        tree = parse_python(after)
    except SyntaxError as error:
        return (f"{path}:{error.lineno or 1}: it does not parse, so nobody can tell what it does",)
    try:
        was = parse_python(before)
    except SyntaxError:
        was = parse_python(b"")
    known = classes_in(was)
    new, old = list(marks_in(tree, known)), Counter(what for _, what in marks_in(was, known))
    coding = re.compile(rb"\A(?:[^\n]*\n)?[ \t\f]*#[^\n]*coding[:=][ \t]*(?!utf-?8|latin-?1|ascii)[-\w.]+", re.I)
    if coding.match(after) and not coding.match(before):
        new.append((1, "is written in a codec that may hide code"))
    return _only_new(path, new, old)


def _node(path: str, before: bytes, after: bytes) -> tuple[str, ...]:
    old = Counter(what for _, what in _node_marks(before.decode(errors="replace")))
    return _only_new(path, list(_node_marks(after.decode(errors="replace"))), old)


def _node_marks(text: str) -> Iterator[tuple[int, str]]:
    for pattern, what in _NODE:
        for found in re.finditer(pattern, text):
            yield text.count("\n", 0, found.start()) + 1, f"{what} ({' '.join(found.group(0).split())[:40]})"


def _only_new(path: str, new: list[tuple[int, str]], old: Counter[str]) -> tuple[str, ...]:
    """Marks that are there more often than before; of equal ones the last, as nobody knows which one is new."""
    told = []
    for what, count in Counter(what for _, what in new).items():
        lines = [line for line, other in new if other == what]
        told += [(line, what) for line in lines[old[what]:]] if count > old[what] else []
    return tuple(f"{path}:{line}: {what}" for line, what in sorted(told))


def constants_from_tests(before: bytes, after: bytes, tests: Tree) -> tuple[str, ...]:
    """Literals of `after` that `before` has not and some test has, as Python writes them, each with the test's path."""
    fresh = _literals(after) - _literals(before)
    lifted = []
    for path in sorted(tests) if fresh else ():
        known = _literals(tests[path])
        lifted += [f"{literal} ({path})" for literal in sorted(fresh & known)]
        fresh -= known
    return tuple(lifted)


def _literals(source: bytes) -> set[str]:
    """Numbers and texts by their value, as Python writes them. Docstrings and what stands in any test are left out."""
    try:
        tree = parse_python(source)
    except SyntaxError:
        values = [_value(word) for word in _LITERAL.findall(source.decode(errors="replace"))]
        return {repr(value) for value in values if _telling(value)}
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    docstrings = {id(node.body[0].value) for node in ast.walk(tree)
                  if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)}
    constants = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docstrings]
    return {repr(value) for value in constants if _telling(value)}


def _value(word: str) -> int | float | str:
    if word[0] in "\"'`":
        return word[1:-1]
    try:
        return int(word) if word.isdigit() else float(word)
    except ValueError:
        return word


def _telling(value: object) -> bool:
    match value:
        case bool() | None:
            return False
        case int() | float():
            return value not in range(-SMALL, SMALL + 1)
        case str() | bytes():
            return value not in TRIVIAL and len(value) > 1
        case _:
            return False
