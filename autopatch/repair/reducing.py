"""One failing test, told as shortly as it can be."""

import ast
import re
from dataclasses import dataclass

from autopatch.contract.code import Frame, Report, TestCase
from autopatch.repair.judging import RED, Baseline
from autopatch.repair.outlining import parsed
from autopatch.repair.paths import is_test
from autopatch.repair.tree import Tree

SOURCE_LINES = 40
AROUND = 12
"""Lines of a test in a language whose functions are not known, from the one that names it on."""
VALUE = 300
MESSAGE = 600


@dataclass(frozen=True)
class ReducedCase:
    """One failing test, as small as it can be told. `source` is the test's text, `frame` the last one in the project's code."""

    test: str
    expected: str
    actual: str
    message: str
    source: str
    frame: Frame | None

    def text(self) -> str:
        """As lines for a prompt or a person."""
        parts = [f"Failing test: {self.test}"]
        if self.expected or self.actual:
            parts.append(f"Expected: {self.expected}\nActual: {self.actual}")
        if self.message:
            parts.append(f"Message: {self.message}")
        if self.frame:
            where = f" in {self.frame.function}" if self.frame.function else ""
            parts.append(f"Last line of the project's code: {self.frame.path}:{self.frame.line}{where}")
        if self.source:
            parts.append(f"The test:\n{self.source}")
        return "\n".join(parts)


def reduced_case(tree: Tree, failing: Report, baseline: Baseline) -> ReducedCase | None:
    """The failing case that says most in fewest words; None when no always-failing test was reported."""
    red = frozenset(baseline.failing)
    cases = [c for c in failing.cases if c.outcome in RED and (c.id in red or c.id.partition("::")[0] in red)]
    if not cases:
        return None
    told = [(c, source_of_test(tree, c.id)) for c in cases]
    case, source = min(told, key=lambda pair: _cost(*pair))
    own = next((f for f in reversed(case.frames) if not is_test(f.path)), None)
    return ReducedCase(
        test=case.id, expected=_cut(case.expected, VALUE), actual=_cut(case.actual, VALUE), message=_cut(_plain(case), MESSAGE),
        source=_shown(source, case), frame=own,
    )


def _cost(case: TestCase, source: str) -> tuple[bool, bool, int]:
    """Values that are told come first, then a frame in the project, then what is short."""
    size = len(case.expected) + len(case.actual) + len(case.message) + len(source)
    return not (case.expected or case.actual), case.outcome == "timed_out", size


def _plain(case: TestCase) -> str:
    """The message without a line that only says again what was expected and what came."""
    lines = [line for line in case.message.strip().splitlines() if line.strip()]
    return "\n".join(lines[:12])


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most * 2 // 3]} … {text[-most // 3:]}"


def _shown(source: str, case: TestCase) -> str:
    """At most 40 lines: the first two and those up to the assertion that failed."""
    lines = source.splitlines()
    return source if len(lines) <= SOURCE_LINES else "\n".join([*lines[:SOURCE_LINES - 1], "…"])


def source_of_test(tree: Tree, test: str) -> str:
    """The text of one test by its id (`file::Class::name[case]`, `file > name`, `package.module.Class.name`); '' if not found."""
    path, *names = re.split(r"::| > ", test)
    if path not in tree:
        path, names = _dotted(tree, test)
    if path not in tree:
        return ""
    names = [re.sub(r"\[.*\]$", "", name, flags=re.S) for name in names]
    text = tree[path].decode(errors="replace")
    if path.endswith(".py"):
        found = _function(tree[path], names)
        return "\n".join(text.splitlines()[found[0] - 1:found[1]]) if found else "" if names else text
    return _around(text, names[-1] if names else "")


def _dotted(tree: Tree, test: str) -> tuple[str, list[str]]:
    parts = re.sub(r"\[.*\]$", "", test, flags=re.S).split(".")
    for count in range(len(parts) - 1, 0, -1):
        path = "/".join(parts[:count]) + ".py"
        if path in tree:
            return path, parts[count:]
    return "", []


def _function(source: bytes, names: list[str]) -> tuple[int, int] | None:
    node: ast.AST | None = parsed(source)
    for name in names:
        inside = list(ast.iter_child_nodes(node)) if node is not None else []
        kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        node = next((n for n in inside if isinstance(n, kinds) and n.name == name), None)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return min([node.lineno, *(d.lineno for d in node.decorator_list)]), node.end_lineno or node.lineno
    return None


def _around(text: str, name: str) -> str:
    """From the line that names the test to the line that closes it: the next one that is indented no more."""
    lines = text.splitlines()
    first = next((i for i, line in enumerate(lines) if name and name in line), None)
    if first is None:
        return "" if name else text
    indent = len(lines[first]) - len(lines[first].lstrip())
    for last in range(first + 1, min(len(lines), first + SOURCE_LINES)):
        line = lines[last]
        if line.strip() and len(line) - len(line.lstrip()) <= indent:
            return "\n".join(lines[first:last + (line.strip()[:1] in "})")])
    return "\n".join(lines[first:first + AROUND])
