"""Single edits: what they change, what they leave, and what they heal."""

import ast
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from autopatch.contract.code import Place
from autopatch.repair.templates import Mutant, mutants, search_order
from autopatch.repair.templates.search import TEMPLATES

SEVERAL = b'''# -*- comments stay -*-
def count(items, wanted):  # how many
    """Says 'how many'."""
    found = 0
    for item in items:
        if item == wanted:   # odd   spacing
            found += 1
    return "found:" and found
'''


def place(source: bytes, **more: object) -> Place:
    return Place(path="m.py", start=1, end=source.count(b"\n") + 1, score=1.0, **more)  # type: ignore[arg-type]


def of(source: bytes | str, path: str = "m.py") -> list[Mutant]:
    data = source if isinstance(source, bytes) else textwrap.dedent(source).lstrip("\n").encode()
    return list(mutants(path, data, place(data)))


def healed(wrong: str, check: Callable[[dict[str, object]], object]) -> list[str]:
    """Templates with an edit after which the check holds."""
    data = textwrap.dedent(wrong).lstrip("\n").encode()
    found = []
    for mutant in mutants("m.py", data, place(data)):
        names: dict[str, object] = {}
        try:
            with no_longer_than(500), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(mutant.applied(data), names)
                good = check(names)
        except (ArithmeticError, LookupError, TypeError, ValueError, NameError, AttributeError, RuntimeError, OSError,
                StopIteration):
            continue
        if good:
            found.append(mutant.template)
    return found


@contextmanager
def no_longer_than(lines: int) -> Iterator[None]:
    """Many edits loop for ever: raises TimeoutError after so many lines."""
    left, before = iter(range(lines)), sys.gettrace()

    def traced(frame: FrameType, event: str, argument: object) -> Any:
        if next(left, None) is None:
            raise TimeoutError
        return traced

    sys.settrace(traced)
    try:
        yield
    finally:
        sys.settrace(before)


FAULTS = pytest.mark.parametrize(("wrong", "expression", "template"), [
    ("def f(a, b):\n    return a < b\n", "f(1, 1) and not f(2, 1)", "boundary of a comparison"),
    ("def f(a, b):\n    return a == b\n", "f(1, 2) and not f(1, 1)", "comparison the wrong way round"),
    ("def f(a, b):\n    return a > 0 and b > 0\n", "f(1, 0) and not f(0, 0)", "and for or"),
    ("def f(a, b):\n    return a + b\n", "f(5, 3) == 2", "wrong arithmetic operator"),
    ("def f(a, b):\n    return a / b\n", "f(5, 3) == 1", "wrong arithmetic operator"),
    ("def f(a):\n    t = 1\n    for x in a:\n        t -= x\n    return t\n", "f([1, 2]) == 4", "wrong augmented operator"),
    ("def f(a):\n    t = 0\n    for x in a:\n        t = x\n    return t\n", "f([1, 2]) == 3", "wrong augmented operator"),
    ("def f(a, b):\n    return a > 0 and b > 0 and a > b\n", "f(1, 5) and not f(-1, 5)", "clause too many"),
    ("def f(a, b):\n    return a - b\n", "f(1, 5) == 4 and f(5, 1) == -4", "operands the wrong way round"),
    ("def f(a, b):\n    return a in b\n", "f('abc', 'b') and not f('b', 'abc')", "membership the wrong way round"),
    ("def f(a):\n    return -a\n", "f(3) == 3 and f(-3) == -3", "sign"),
    ("def f(a, b):\n    return a is b\n", "f(3000, int('3000')) and not f(2, 3)", "identity for equality"),
    ("def f(a, b, c):\n    return a + b * c\n", "f(1, 2, 3) == 9", "grouping"),
    ("def f(a):\n    return a > 17\n", "f(17) and not f(16)", "number off by one"),
    ("def f(a):\n    return a[1]\n", "f([7, 8]) == 7", "number off by one"),
    ("def f(n):\n    return [i for i in range(n)]\n", "f(2) == [0, 1, 2]", "index or bound off by one"),
    ("def f(n):\n    return [i for i in range(n)]\n", "f(3) == [1, 2]", "bound of a range or slice"),
    ("def f(a):\n    return a[1:2]\n", "f([1, 2, 3]) == [2, 3]", "bound of a range or slice"),
    ("def f(a):\n    return a > 0 and False\n", "f(1) is True", "true for false"),
    ("def f(a):\n    return ''.join(a)\n", "f('ab') == 'a b'", "string in another form"),
    ("def f(a):\n    best = 0\n    for x in a:\n        best = min(best, x)\n    return best\n", "f([3, 5]) == 3",
     "start value"),
    ("def f(a, b):\n    return a + a\n", "f(1, 2) == 3", "another variable"),
    ("def f(a, b):\n    return f'{a} and {a}'\n", "f(1, 2) == '1 and 2'", "another variable in a format string"),
    ("def f(a):\n    return min(a)\n", "f([1, 2]) == 2", "sibling function"),
    ("def f(a):\n    return a.lower()\n", "f('a') == 'A'", "sibling method"),
    ("def f(a, b):\n    return divmod(a, b)\n", "f(2, 7) == (3, 1)", "arguments the wrong way round"),
    ("def f(a):\n    return abs(a)\n", "f(-1) == -1", "conversion too many"),
    ("def f(a, b):\n    return a - b\n", "f(1, 3) == 2 and f(3, 1) == 2", "conversion missing"),
    ("def f(a, b, c):\n    return a > 0 and b > 0 and c > 0\n", "f(1, 0, 0) and f(0, 1, 0) and not f(0, 0, 0)",
     "and for or"),
    ("def f(a):\n    return sorted(a)\n", "f([1, 2]) == [2, 1]", "argument left out"),
    ("from datetime import timedelta\ndef f(a):\n    return timedelta(hours=a).seconds\n", "f(30) == 108000",
     "sibling method"),
    ("import heapq\ndef f(a):\n    h = []\n    for x in a:\n        heapq.heappush(h, (len(x), x))\n    return h[0][1]\n",
     "f(['b', 'aa']) == 'aa'", "sign"),
    ("def f(a):\n    return sorted(a, key=lambda x: len(x))\n", "f(['b', 'aa']) == ['aa', 'b']", "sign"),
    ("def f(a):\n    return sorted(a, reverse=True)\n", "f([2, 1]) == [1, 2]", "argument too many"),
    ("def f(a):\n    d = {1: 2}\n    return d[a]\n", "f(1) == 2 and f(2) is None", "look-up of a key"),
    ("def f(a):\n    a.strip()\n    return a\n", "f(' a ') == 'a'", "result thrown away"),
    ("def f(a):\n    a = a.sort()\n    return a\n", "f([2, 1]) == [1, 2]", "result thrown away"),
    ("def f(a):\n    rows = []\n    row = []\n    for x in a:\n        row.append(x)\n        rows.append(row)\n"
     "    return rows\n",
     "f([1, 2]) == [[1], [1, 2]]", "copy for an alias"),
    ("def f(a):\n    if a:\n        return 1\n    return 2\n", "f([]) == 1 and f([1]) == 2", "negated condition"),
    ("def f(a):\n    return 1 if a else 2\n", "f(0) == 1 and f(1) == 2", "branches the wrong way round"),
    ("def f(a):\n    return [x for x in a if x]\n", "f([0, 1]) == [0, 1]", "filter too many"),
    ("def f(a):\n    return [x for x in a]\n", "f([0, 1]) == [1]", "filter missing"),
    ("def f(a):\n    t = 0\n    if a > 1:\n        t += 1\n    if a > 2:\n        t += 5\n    return t\n", "f(3) == 1",
     "elif for if"),
    ("def f(a):\n    t = a\n    t += 1\n    return t\n", "f(1) == 1", "statement too many"),
    ("def f(a):\n    t = 0\n    for x in a:\n        t += x\n        return t\n    return 0\n", "f([1, 2]) == 3 and f([4]) == 4",
     "statement inside that belongs outside"),
    ("def f(a):\n    t = []\n    for x in a:\n        y = x + 1\n    t.append(y)\n    return t\n", "f([1, 2]) == [2, 3]",
     "statement outside that belongs inside"),
    ("def f(a):\n    for x in a:\n        if x < 0:\n            break\n        last = x\n    return last\n",
     "f([1, -1, 2]) == 2", "wrong jump"),
    ("def f(a):\n    b = a\n    a = a + 1\n    return b\n", "f(1) == 2", "statements in the wrong order"),
    ("def f(a):\n    a + 1\n", "f(1) == 2", "result not given back"),
    ("def f(a):\n    t = a + 1\n", "f(1) == 2", "result not given back"),
    ("def f(a, items=[]):\n    items.append(a)\n    return items\n", "f(1) == [1] and f(2) == [2]", "shared default"),
    ("def f(a, b):\n    return a / b\n", "f(1, 0) == 0 and f(1, 2) == 0.5", "division by zero"),
    ("def f(a):\n    return a[0]\n", "f([]) is None and f([3]) == 3", "nothing given"),
    ("def f(n):\n    return n * f(n - 1) if n > 1 else n\n", "f(0) == 1 and f(3) == 6", "base case missing"),
    ("def f(a):\n    t = 0\n    for x in a:\n        t += len(x)\n    return t\n", "f(['a', None]) == 1",
     "element to pass over"),
    ("def f(a):\n    try:\n        return int(a)\n    except KeyError:\n        return 1\n", "f('x') == 1",
     "another kind of error"),
    ("class A:\n    def __init__(self):\n        self.seen = []\n    def start(self):\n        self.on = True\n\n"
     "def f():\n    a = A()\n"
     "    a.seen.append(1)\n    a.start()\n    return a\n", "f().seen == [] and f().on", "field not set again"),
    ("class A:\n    def __init__(self, a, b):\n        self.a = a\n        self.b = b\n    def both(self):\n"
     "        return self.a, self.a\n", "A(1, 2).both() == (1, 2)", "another attribute"),
    ("def f(a, b):\n    return a == b\n", "f(1, 2) and f(2, 2) and not f(3, 2)", "equality for order"),
    ("def f(a, b):\n    return a + b\n", "f(7, 2) == 3", "far arithmetic operator"),
    ("def f(a, b):\n    return a + b\n", "f(7, 2) == 7", "term too many"),
    ("def f(a, n: int):\n    return len(a)\n", "f([1], 2) == 3", "term missing"),
    ("def f(a):\n    if a > 90:\n        return 12\n    return 3\n", "f(50) == 3 and f(1) == 3 and f(91) == 3",
     "constant from elsewhere"),
    ("def f(a, n):\n    return a == 3\n", "f(5, 5)", "constant for a name"),
    ("def f(a):\n    t = 0\n    for x in a:\n        t += x\n    return t\n", "f([1, 2, 4]) == 6", "end of a sequence"),
    ("def f(a):\n    if a:\n        return 1\n    return 2\n", "f(0) == 1 and f(1) == 1", "condition too many"),
    ("def f(a, b):\n    if a > 9:\n        return 9\n    if b > 0:\n        return 1\n    return 0\n",
     "f(0, 1) == 0 and f(10, 0) == 9", "condition of the same function"),
    ("def f(a):\n    b = a * 7\n    return a + 1\n", "f(2) == 14", "value from elsewhere"),
    ("def f(a):\n    t = []\n    for x in a:\n        y = x * 2\n    return t\n", "f([1, 2]) == [2, 4]", "not gathered"),
    ("def f(a, n):\n    return [x for x in a]\n", "f([1, 2, 3], 1) == [1]", "end of a sequence"),
    ("def f(a):\n    b = [x * 2 for x in a]\n    return b\n", "f([1, 2]) == [4]", "end of a sequence"),
    ("def f(a):\n    a -= 4\n    return a\n", "f(9) == 2", "wrong augmented operator"),
    ("def f(a):\n    for x in a:\n        if x < 0:\n            return True\n    return False\n", "f([1]) and not f([-1])",
     "answers the wrong way round"),
    ("def f(a):\n    if not a:\n        return ' '\n    return 'x' if a > 1 else ' '\n", "f(0) == f(1) == '' and f(2) == 'x'",
     "string in another form everywhere"),
    ("def f(a: str, b: str):\n    return a == b\n", "f('Ab', 'aB') and not f('a', 'b')", "compared as they are"),
    ("def f(a, b):\n    return min(a, 3) + min(b, 7) * min(a, 3)\n", "f(1, 5) == 26", "call from elsewhere"),
])


@FAULTS
def test_a_common_fault_is_healed_by_the_template_that_is_for_it(wrong: str, expression: str, template: str) -> None:
    assert template in healed(wrong, lambda names: eval(expression, names))


def test_every_template_has_a_case_here_and_a_prior() -> None:
    assert {t.name for t in TEMPLATES} == {template for _, _, template in FAULTS.args[1]} | {"no advance", "lock not held"}
    assert all(0 < t.prior <= 1 for t in TEMPLATES)


def test_a_loop_that_does_not_move_on_is_given_its_step() -> None:
    source = b"def f(n):\n    i = 0\n    while i < n:\n        print(i)\n"
    assert source + b"        i += 1\n" in [m.applied(source) for m in of(source)]


def test_a_method_takes_the_lock_that_its_object_has() -> None:
    made = b"    def __init__(self):\n        self._lock = threading.Lock()\n        self.n = 0\n"
    source = b"import threading\nclass A:\n" + made + b"    def up(self):\n        self.n += 1\n"
    assert any(b"with self._lock:\n            self.n += 1\n" in m.applied(source) for m in of(source))


def test_each_edit_parses_and_no_two_are_the_same_program() -> None:
    found = of(SEVERAL)
    trees = [ast.dump(ast.parse(m.applied(SEVERAL))) for m in found]
    assert len(found) > 50
    assert len(set(trees)) == len(trees)
    assert ast.dump(ast.parse(SEVERAL)) not in trees


@pytest.mark.parametrize("source", [
    SEVERAL,
    SEVERAL.replace(b"\n", b"\r\n"),
    b"\xef\xbb\xbf" + SEVERAL,
    b"# coding: latin-1\n# caf\xe9\n" + SEVERAL.replace(b"how many", b"wie \xe4hnlich"),
    "# naïve ✓\n".encode() + SEVERAL.replace(b'"found:"', '"gefunden: ✓"'.encode()),
    SEVERAL.rstrip(b"\n"),
    SEVERAL.replace(b"    ", b"\t").replace(b"\t\t    ", b"\t\t\t").replace(b"\t\n", b"\n"),
])
def test_only_the_edited_bytes_change_whatever_the_encoding_and_line_ends(source: bytes) -> None:
    found = of(source)
    assert len(found) > 40
    for mutant in found:
        start, end = mutant.before_span
        new = mutant.applied(source)
        assert new[:start] == source[:start] and new[start + len(mutant.after):] == source[end:]
        compile(new, "m.py", "exec")
        if b"\r\n" in source:
            assert new.replace(b"\r\n", b"").count(b"\n") == 0 and b"\r\r" not in new


def test_lines_are_counted_as_python_counts_them_when_the_text_is_not_ascii() -> None:
    source = "def f(a):\n    x = 'ä✓'; return a < 3  # ✓\n".encode()
    assert any(m.applied(source) == source.replace(b"<", b"<=") and m.line == 2 for m in of(source))


@pytest.mark.parametrize("source", [
    b"def f(:\n", b"\x00\x01", b"# coding: nonsense\nx = 1\n", b"", b"# coding: utf-8\n# \xff\n", b"(" * 500 + b")" * 500,
])
def test_a_file_that_is_no_python_of_this_version_has_no_edits(source: bytes) -> None:
    assert of(source) == []


def test_edits_stay_inside_their_place() -> None:
    source = b"def a(x):\n    return x + 1\n\n\ndef b(x):\n    return x + 1\n"
    found = list(mutants("m.py", source, Place(path="m.py", start=5, end=6, score=1)))
    assert found and all(m.line >= 5 and m.applied(source).startswith(source[:27]) for m in found)


def test_suspicious_lines_come_before_quiet_ones_and_likely_templates_before_rare_ones() -> None:
    source = b"def f(a, b):\n    if a < b:\n        return a + 3\n    return b + 4\n"
    found = list(mutants("m.py", source, place(source, lines={2: 0.2, 4: 1.0})))
    assert found[0].line == 4
    first, last = found.index(next(m for m in found if m.line == 4)), found.index(next(m for m in found if m.line == 3))
    assert first < last


def test_a_search_is_limited_spread_over_places_and_the_same_each_time() -> None:
    body = "".join(f"    if a < {n}:\n        return a + {n}\n" for n in range(60))
    tree = {"a.py": f"def f(a):\n{body}".encode(), "b.py": b"def g(a):\n    return a < 3\n", "c.txt": b"a < b"}
    places = [
        Place(path="a.py", start=1, end=121, score=1.0), Place(path="b.py", start=1, end=2, score=0.6),
        Place(path="c.txt", start=1, end=1, score=0.9), Place(path="gone.py", start=1, end=1, score=0.9),
    ]
    found = search_order(tree, places, 150)
    assert len(found) == 150
    assert {m.path for m in found} == {"a.py", "b.py"}
    assert found == search_order(tree, places, 150)
    assert search_order(tree, places, 0) == ()


def test_documentation_annotations_and_decorators_are_left_alone() -> None:
    source = b'@cache(1)\ndef f(a: "list[1]" = None) -> "int[2]":\n    """True 1 < 2"""\n    return a\n'
    for mutant in of(source):
        new = mutant.applied(source)
        assert b'@cache(1)\ndef f(a: "list[1]" = ' in new and b'"""True 1 < 2"""' in new


def test_strings_of_several_lines_are_never_moved() -> None:
    source = b'def f(a):\n    for x in a:\n        y = x\n        z = """\n   kept\n"""\n    return z\n'
    for mutant in of(source):
        if b"kept" in mutant.applied(source):
            assert b'"""\n   kept\n"""' in mutant.applied(source)


def test_an_error_of_the_file_s_own_kind_is_tried_before_the_usual_ones() -> None:
    source = "def g(a):\n    raise No(a)\n\n\ndef f(a):\n    try:\n        g(a)\n    except KeyError:\n        return 1\n"
    kinds = [m.after.decode() for m in of(source) if m.template == "another kind of error" and m.line == 8]
    assert kinds[:2] == ["No", "ValueError"]


def test_fields_of_a_dataclass_begin_anew_with_their_defaults() -> None:
    source = (
        "@dataclass\nclass A:\n    size: int\n    seen: list[int] = field(default_factory=list)\n    lost: int = 0\n\n"
        "    def clear(self):\n        self.size = 2\n"
    )
    added = {m.after.decode().strip() for m in of(source) if m.template == "field not set again"}
    assert added == {"self.seen = list()", "self.lost = 0"}


@pytest.mark.filterwarnings("ignore::SyntaxWarning")  # an edit may be foolish; that it is, its tests tell
def test_every_edit_of_this_very_package_leaves_a_file_that_compiles() -> None:
    path = Path(__file__).parents[1] / "ranking.py"
    source = path.read_bytes()
    found = list(mutants("ranking.py", source, place(source)))
    assert len(found) > 300
    for mutant in found[::7]:
        compile(mutant.applied(source), "ranking.py", "exec")


@pytest.mark.parametrize(("wrong", "right"), [
    ("if (a < b) { return 1 }\n", "if (a <= b) { return 1 }\n"),
    ("return a === b\n", "return a !== b\n"),
    ("return a && b\n", "return a || b\n"),
    ("total -= x\n", "total += x\n"),
    ("for (let i = 1; i < n; i++) {}\n", "for (let i = 0; i < n; i++) {}\n"),
    ("return list[list.length]\n", "return list[list.length - 1]\n"),
    ("return Math.floor(x / 2)\n", "return Math.ceil(x / 2)\n"),
    ("if (ok) { go() }\n", "if (!(ok)) { go() }\n"),
    ("return !ok\n", "return ok\n"),
    ("const f = (a, b) => { return a + a }\n", "const f = (a, b) => { return a + b }\n"),
    ("const x = load(1)\n", "const x = await load(1)\n"),
    ("return items.some(f)\n", "return items.every(f)\n"),
    ("items.sort((a, b) => a.size - b.size)\n", "items.sort((a, b) => b.size - a.size)\n"),
])
def test_a_common_fault_in_javascript_is_healed(wrong: str, right: str) -> None:
    assert right.encode() in {m.applied(wrong.encode()) for m in of(wrong.encode(), "m.js")}


def test_comments_strings_and_patterns_of_javascript_are_left_alone() -> None:
    source = b"// a < b\nconst r = /a<b&&c/g; /* 1 + 2 */\nconst s = 'x < 1'; const t = `a ${b < 1}`\n"
    for mutant in of(source, "m.js"):
        new = mutant.applied(source)
        assert b"// a < b" in new and b"/a<b&&c/g" in new and b"/* 1 + 2 */" in new and b"'x < 1'" in new


def test_types_in_angle_brackets_are_no_comparisons() -> None:
    source = b"const a: Map<string, number> = new Map<string, number>()\n"
    assert not [m for m in of(source, "m.ts") if m.template == "operator" and b"<=" in m.after]


def test_the_readme_lists_every_template_with_its_prior() -> None:
    text = (Path(__file__).parents[1] / "templates" / "README.md").read_text()
    rows = [f"| {t.name} | {t.prior:g} | {' '.join((t.edits.__doc__ or '').split())} |" for t in TEMPLATES]
    assert [row for row in rows if row not in text] == []
