"""A whole corrected function takes the old one's place, and nothing else changes."""

import ast
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopatch.repair.applying import EditError, apply_answer

FILE = '''#!/usr/bin/env python
"""Money."""

import os


class Account:
    """An account."""

    def __init__(self, cents):
        self.cents = cents  # in cents

    @property
    def euros(self):
        """In euros."""
        return self.cents / 10

    @euros.setter
    def euros(self, value):
        self.cents = value * 10

    def text(self):
        return """
  Account
        of""" + str(self.cents)


def add(a, b):
    # the sum
    total = a - b

    return total


def sub(a, b): return a + b
# end
'''


@dataclass(frozen=True)
class Case:
    name: str
    code: str
    old: str
    new: str
    notes: tuple[str, ...] = ()
    fence: str = "```python\n{}\n```"


CASES = {
    "a function": Case("add", "def add(a, b):\n    # the sum\n    total = a + b\n\n    return total", "a - b", "a + b"),
    "a function on one line": Case("sub", "def sub(a, b): return a - b", "return a + b", "return a - b"),
    "a function without its comment": Case(
        "add", "def add(a, b):\n    return a + b", "    # the sum\n    total = a - b\n\n    return total", "    return a + b"),
    "a method at the margin": Case(
        "Account.__init__", "def __init__(self, cents):\n    self.cents = int(cents)", "self.cents = cents  # in cents",
        "self.cents = int(cents)"),
    "a method in its class": Case(
        "Account.__init__", "class Account:\n    def __init__(self, cents):\n        self.cents = cents or 0",
        "self.cents = cents  # in cents",
        "self.cents = cents or 0"),
    "a method as it is indented in the file": Case(
        "Account.__init__", "    def __init__(self, cents):\n        self.cents = cents or 0",
        "self.cents = cents  # in cents", "self.cents = cents or 0"),
    "a method whose first line lost its indent": Case(
        "Account.__init__", "def __init__(self, cents):\n        self.cents = cents or 0", "self.cents = cents  # in cents",
        "self.cents = cents or 0"),
    "a method in two blanks": Case(
        "Account.__init__", "def __init__(self, cents):\n  if cents:\n    self.cents = cents",
        "        self.cents = cents  # in cents",
        "        if cents:\n            self.cents = cents"),
    "a property of two functions": Case(
        "Account.euros", "@property\ndef euros(self):\n    \"\"\"In euros.\"\"\"\n    return self.cents / 100",
        "self.cents / 10", "self.cents / 100"),
    "its setter": Case(
        "Account.euros", "@euros.setter\ndef euros(self, value):\n    self.cents = value * 100", "value * 10", "value * 100"),
    "a text of several lines stays": Case(
        "Account.text", 'def text(self):\n    return """\n  Account\n        of""" + str(self.cents or 0)', "str(self.cents)",
        "str(self.cents or 0)"),
    "a whole class": Case(
        "Account", FILE[FILE.index("class"):FILE.index("\n\n\ndef add")].replace("/ 10", "/ 100"), "/ 10", "/ 100"),
    "an import is brought along": Case(
        "add", "import math\nimport os\n\ndef add(a, b):\n    # the sum\n    total = math.fsum([a, b])\n\n    return total",
        "import os\n", "import os\nimport math\n", ("math: added",)),
    "a helper is brought along": Case(
        "sub", "def neg(x):\n    return -x\n\n\ndef sub(a, b): return a + neg(b)", "import os\n",
        "import os\n\n\ndef neg(x):\n    return -x\n", ("neg: added",)),
    "what is not used is not": Case(
        "sub", "import re\n\ndef sub(a, b): return a - b\n\ndef other(): pass\n\nprint(sub(1, 2))", "return a + b",
        "return a - b"),
    "lines that show its use are not brought along": Case(
        "add", "def add(a, b):\n    # the sum\n    total = a + b\n\n    return total\n\na = 1\ntotal = add(a, 2)\nprint(total)",
        "a - b", "a + b"),
    "nor what is made of it, although it reads that": Case(
        "add", "def add(a, b):\n    # the sum\n    total = a + known.get(b, b)\n\n    return total\n\nknown = {1: add(1, 1)}",
        "a - b", "a + known.get(b, b)"),
    "prose behind": Case("sub", "def sub(a, b): return a - b\n\nThe sign was wrong, sorry.", "return a + b", "return a - b",
        (), "{}"),
    "an example in a second block": Case(
        "sub", "def sub(a, b): return a - b", "return a + b", "return a - b", (),
        "```python\n{}\n```\nUse it:\n```python\nprint(sub(2, 1))\n```"),
    "the old code first": Case(
        "sub", "def sub(a, b): return a - b", "return a + b", "return a - b", (),
        "Was:\n```python\ndef sub(a, b): return a + b\n```\nIs:\n```python\n{}\n```"),
    "blocks although a function was asked for": Case(
        "add", "<<<<<<< SEARCH\n    total = a - b\n=======\n    total = a + b\n>>>>>>> REPLACE", "a - b", "a + b", (), "{}"),
    "an async function": Case("add", "async def add(a, b):\n    # the sum\n    total = a - b\n\n    return total", "def add",
        "async def add"),
}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("name", CASES)
def test_a_function_is_spliced(name: str, end: str) -> None:
    case = CASES[name]
    assert FILE.count(case.old) == 1 or name == "a whole class" or case.old in ("def add", "/ 10", "value * 10",
        "self.cents / 10")
    before = FILE.replace("\n", end).encode()
    edited = apply_answer(case.fence.format(case.code), {"m.py": before}, ["m.py"], function=("m.py", case.name))
    wanted = FILE.replace(case.old, case.new)
    if case.notes and "helper" in name:
        wanted = wanted.replace("return a + b", "return a + neg(b)")
    elif case.notes:
        wanted = wanted.replace("a - b", "math.fsum([a, b])")
    assert edited.changes["m.py"].decode() == wanted.replace("\n", end)
    assert all(any(word in note for note in edited.notes) for word in case.notes)


def test_decorators_and_a_docstring_that_the_answer_forgot_are_kept() -> None:
    before = FILE.replace("    @euros.setter\n    def euros(self, value):\n        self.cents = value * 10\n\n", "").encode()
    edited = apply_answer("```\ndef euros(self):\n    return self.cents / 100\n```", {"m.py": before}, [], function=("m.py",
        "Account.euros"))
    assert edited.changes["m.py"] == before.replace(b"/ 10", b"/ 100")
    assert "docstring" in edited.notes[0]


def test_tabs_stay_tabs_in_a_latin_1_file_without_a_last_newline() -> None:
    before = b"# \xe9\nclass A:\n\tdef f(self, x):\n\t\tif x:\n\t\t\treturn 1\n\t\treturn 2"
    answer = "```python\ndef f(self, x):\n    if not x:\n        return 1\n    return 2\n```"
    assert apply_answer(answer, {"m.py": before}, [], function=("m.py", "A.f")).changes == {"m.py": before.replace(b"if x",
        b"if not x")}


@pytest.mark.parametrize(("code", "brought"), [
    ("import re\n\n\ndef sub(a, b):\n    global last\n    last = a - b\n    return last\n\n\nlast = 0", "last"),
    ("def sub(a, b):\n    memory[a] = a - b\n    return memory[a]\n\n\nmemory = {}", "memory"),
    ("from datetime import date\n\n\ndef sub(date: date, b=0):\n    return date", "date"),
    ("def half(a):\n    return sub(a, a / 2)\n\n\ndef sub(a, b):\n    return half(a) if b is None else a - b", "half"),
])
def test_what_a_function_reads_from_around_it_is_brought_along(code: str, brought: str) -> None:
    edited = apply_answer(f"```python\n{code}\n```", {"m.py": FILE.encode()}, ["m.py"], function=("m.py", "sub"))
    assert edited.notes == (f"m.py: {brought}: added, the answer brings it along",)


def test_what_a_method_calls_is_brought_along_although_another_ones_argument_has_its_name() -> None:
    before = b"class A:\n    def f(self):\n        return 0\n\n    def g(self):\n        return 1\n"
    code = "def one(): return 1\n\n\nclass A:\n    def f(self, one): return one\n\n    def g(self): return one()"
    edited = apply_answer(f"```python\n{code}\n```", {"m.py": before}, ["m.py"], function=("m.py", "A"))
    assert b"def one()" in edited.changes["m.py"]


REFUSED = {
    "unchanged": ("sub", "def sub(a, b): return a + b", "unchanged"), "another function": ("sub", "def mul(a, b): return a * b",
        "missing"),
    "no such function": ("mul", "def mul(a, b): return a * b", "missing"), "no Python": ("sub", "def sub(a, b: return a",
        "syntax"),
    "left out": ("add", "def add(a, b):\n    # ... same as before\n    return total", "format"),
    "two of that name": ("Account.euros", "def euros(self):\n    return 1", "ambiguous"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_new_version_of_the_function_is_refused(name: str) -> None:
    function, code, kind = REFUSED[name]
    with pytest.raises(EditError) as refused:
        apply_answer(f"```python\n{code}\n```", {"m.py": FILE.encode()}, ["m.py"], function=("m.py", function))
    assert refused.value.kind == kind, refused.value
    assert refused.value.feedback and "\n" not in str(refused.value)


def test_a_function_of_a_test_is_not_replaced() -> None:
    with pytest.raises(EditError) as refused:
        apply_answer("```\ndef test_a(): pass\n```", {"test_a.py": b"def test_a(): assert 0\n"}, [], function=("test_a.py",
        "test_a"))
    assert refused.value.kind == "forbidden"


def test_other_languages_are_spliced_by_lines() -> None:
    before = b"class A {\r\n\tadd(a, b) {\r\n\t\tif (a) {\r\n\t\t\treturn a - b;\r\n\t\t}\r\n\t}\r\n}\r\n"
    answer = "```js\nadd(a, b) {\n  if (a) {\n    return a + b;\n  }\n}\n```"
    edited = apply_answer(answer, {"a.js": before}, [], function=("a.js", "A.add"), span=(2, 6))
    assert edited.changes == {"a.js": before.replace(b"a - b", b"a + b")}
    with pytest.raises(EditError) as refused:
        apply_answer("```js\nmul(a) {}\n```", {"a.js": before}, [], function=("a.js", "A.add"), span=(2, 6))
    assert refused.value.kind == "missing"
    with pytest.raises(EditError, match="not known"):
        apply_answer(answer, {"a.js": before}, [], function=("a.js", "A.add"))


def test_a_file_that_does_not_parse_is_spliced_by_lines() -> None:
    before = b"def f(x)\n    return x\n\n\ny = 1\n"
    edited = apply_answer("```python\ndef f(x):\n    return x\n```", {"m.py": before}, [], function=("m.py", "f"), span=(1, 2))
    assert edited.changes == {"m.py": before.replace(b"f(x)", b"f(x):")}


def test_a_definition_that_disappears_is_told() -> None:
    block = "m.py\n<<<<<<< SEARCH\ndef sub(a, b): return a + b\n=======\ndef neg(a): return -a\n>>>>>>> REPLACE"
    assert "m.py: a definition disappeared: sub" in apply_answer(block, {"m.py": FILE.encode()}, ["m.py"]).notes


STATEMENTS = st.sampled_from(["x = 1", "y = 'a'  ", "# note", "", "z = (1,\n         2)", "t = '''a\n  b\n'''",
        "if x:\n    y = 2", "def g():\n    return 3"])


@given(st.lists(STATEMENTS, max_size=5), st.lists(STATEMENTS, max_size=5), st.sampled_from(["\n", "\r\n"]),
       st.sampled_from(["", "\ufeff", "# \u00e9\n"]), st.sampled_from(["utf-8", "latin-1"]))
def test_whatever_stands_around_a_function_stays_byte_by_byte(
    before: list[str], after: list[str], end: str, head: str, codec: str
) -> None:
    if codec == "latin-1":
        head = head.replace("\ufeff", "")
    front = (head + "".join(text + "\n" for text in before)).replace("\n", end).encode(codec)
    back = "".join(text + "\n" for text in after).replace("\n", end).encode(codec)
    old, new = b"def f(a):" + end.encode() + b"    return a", b"def f(a):" + end.encode() + b"    return -a"
    tree = {"m.py": front + old + end.encode() + back}
    edited = apply_answer("```python\ndef f(a):\n    return -a\n```", tree, ["m.py"], function=("m.py", "f"))
    assert edited.changes == {"m.py": front + new + end.encode() + back}
    assert ast.parse(edited.changes["m.py"])


WORDS = st.sampled_from([
    "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE", "```", "```python", "```diff", "src/calc.py", "x = 1", "x = 2", "def f():",
        "    return 1",
    "...", "# ... rest", "--- a/src/calc.py", "+++ b/src/calc.py", "@@ -1 +1 @@", "-x = 1", "+x = 2", "User:",
        "<|im_start|>user", "", "1. text",
    "tests/test_x.py", "../x.py", "\u00e9\ud800\0", "class A:", "'''", "(", "    def f(self):", "diff --git a/x b/x", "~~~",
        "- <<<<<<< original",
])
CONTENT = st.sampled_from([b"x = 1\n", b"", b"def f():\n    return 0\n", b"x = 1\r\nx = 1\r\n", b"\xff\xfe\0",
        b"# \xe9\nx = 1", b"def f(:\n", b"=======\n"])


@given(st.lists(WORDS, max_size=14) | st.text(max_size=80).map(lambda text: [text]), CONTENT, st.booleans(),
        st.sampled_from(["\n", "\r\n"]))
def test_any_answer_is_an_edit_or_an_edit_error(words: list[str], content: bytes, whole: bool, end: str) -> None:
    tree = {"src/calc.py": content, "src/other.py": b"x = 1\n", "tests/test_x.py": b"x = 1\n"}
    try:
        edited = apply_answer(end.join(words), tree, ["src/calc.py"], function=("src/calc.py", "f") if whole else None)
    except EditError as error:
        assert "\n" not in str(error) and error.feedback
        return
    assert edited.changes
    assert "tests/test_x.py" not in edited.changes
    assert all(tree.get(path) != data for path, data in edited.changes.items())
