"""Near misses that models make, each decided right: the edit that was meant, or a refusal that says why."""

from dataclasses import dataclass, field

import pytest

from autopatch.repair.applying import EditError, apply_answer
from autopatch.repair.diffs import apply_diff, make_diff

PATH = "src/calc.py"
FENCED = "```python\ndef add(a, b):\n    # sum\n    total = a + b\n\n    return total\n"
CALC = b"import os\n\n\ndef add(a, b):\n    # sum\n    total = a - b\n\n    return total\n\n\ndef sub(a, b):\n    return a - b\n"
FIXED = CALC.replace(b"total = a - b", b"total = a + b")


def block(search: str, replace: str, name: str = PATH) -> str:
    return f"{name}\n<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


BLOCK = block("    total = a - b", "    total = a + b")


SCRIPT = b'''"""Greets."""
import sys

NAMES = ("ann", "bob")


def first(names):
    return names[1]


def main():
    print(first(NAMES), file=sys.stdout)


if __name__ == "__main__":
    main()
'''
MENDED = SCRIPT.replace(b"names[1]", b"names[0]")
FUNCTIONS = MENDED.decode()[MENDED.index(b"def first"):MENDED.index(b"\n\nif __name__")]
TWINS = b"class A:\n    def up(self):\n        self.n += 1\n\n    def on(self):\n        self.n += 1\n"
DIFF = "--- a/src/calc.py\n+++ b/src/calc.py\n@@ -6 +6 @@\n-    total = a - b\n+    total = a + b\n"


@dataclass(frozen=True)
class Case:
    """`after` is the file as it must read, or None where `kind` is how it must be refused."""

    answer: str
    after: bytes | None = FIXED
    before: bytes = CALC
    kind: str = ""
    path: str = PATH
    shown: tuple[str, ...] = (PATH,)
    more: dict[str, bytes] = field(default_factory=dict)
    says: tuple[str, ...] = ()


RST = b"Guide\n=====\n\nText\n"
RST_7 = b"Guides!\n=======\n\nText\n"

MATRIX = {
    # taken by the reference tool as well
    "exact": Case(BLOCK),
    "uniform missing indent": Case(block("total = a - b\n\nreturn total", "total = a + b\n\nreturn total")),
    "spaces for tabs on one line": Case(
        block("        x = a - b", "        x = a + b"), b"def f(a, b):\n\tif a:\n\t\tx = a + b\n\treturn x\n",
        b"def f(a, b):\n\tif a:\n\t\tx = a - b\n\treturn x\n"),
    "no-break space as indent": Case(block("\u00a0\u00a0\u00a0\u00a0total = a - b", "\u00a0\u00a0\u00a0\u00a0total = a + b")),
    "elision": Case(block("def add(a, b):\n    ...\n    return total", "def add(a, b):\n    ...\n    return -total"),
                    CALC.replace(b"return total", b"return -total")),
    "missing newline at the end of the file": Case(
        block("    return a - b", "    return b - a"), b"def sub(a, b):\n    return b - a", b"def sub(a, b):\n    return a - b"),
    "a block that is there twice": Case(
        block("    x += 1", "    x += 2"), None, b"def f(x):\n    x += 1\n\n\ndef g(x):\n    x += 1\n", "ambiguous",
        says=("src/calc.py:2", "src/calc.py:6")),
    "empty SEARCH on an existing file": Case(block("", "x = 1"), None, kind="format"),
    "SEARCH is REPLACE": Case(block("    total = a - b", "    total = a - b"), None, kind="format"),
    # lost by it
    "trailing spaces in the file": Case(
        BLOCK, FIXED.replace(b"# sum", b"# sum  "), CALC.replace(b"# sum", b"# sum  ").replace(b"a - b\n\n    return",
        b"a - b  \n\n    return")),
    "trailing spaces in SEARCH": Case(block("    total = a - b   ", "    total = a + b")),
    "LF answer for CRLF text": Case(
        block("    total = a - b\n\n    return total", "    total = a + b\n\n    return total"), FIXED.replace(b"\n", b"\r\n"),
        CALC.replace(b"\n", b"\r\n")),
    "a blank line dropped": Case(block("    total = a - b\n    return total", "    total = a + b\n    return total")),
    "a comment dropped": Case(block("def add(a, b):\n    total = a - b", "def add(a, b):\n    total = a + b")),
    "part of a line": Case(block("a - b", "a + b"), b"x = f(a + b), g(1)\n", b"x = f(a - b), g(1)\n"),
    "a space doubled": Case(block("    total =  a - b", "    total =  a + b")),
    "the wrong style of quotes": Case(block('x = "a"\ny = 1', 'x = "a"\ny = 2'), b"x = 'a'\ny = 2\n", b"x = 'a'\ny = 1\n"),
    "smart quotes": Case(block("x = \u201ca\u201d", "x = \u201cb\u201d"), b'x = "b"\n', b'x = "a"\n'),
    "NFC for NFD": Case(
        block("x = '\u00e9'\ny = 1", "x = '\u00e9'\ny = 2"), "x = 'e\u0301'\ny = 2\n".encode(),
        "x = 'e\u0301'\ny = 1\n".encode()),
    "copied line numbers": Case(block("6:     total = a - b\n7: ", "6:     total = a + b\n7: ")),
    "copied minus and plus": Case(block("-    total = a - b", "+    total = a + b")),
    "copied plus only": Case(block("    total = a - b", "+    total = a + b")),
    # how answers are read: right there too
    "a typo in the path": Case(BLOCK.replace(PATH, "src/clac.py")),
    "the file's name alone": Case(BLOCK.replace(PATH, "calc.py"), shown=(), more={"src/other.py": b""}),
    "a/ in front of the path": Case(BLOCK.replace(PATH, "a/src/calc.py"), shown=()),
    "the name inside of the fence": Case(f"```python\n{BLOCK}```\n", shown=()),
    "six-character markers": Case(BLOCK.replace("<<<<<<<", "<<<<<<").replace(">>>>>>>", ">>>>>>").replace("=======", "======")),
    "======= as the end marker": Case(f"```\n{BLOCK.replace('>>>>>>> REPLACE', '=======')}```\n"),
    # wrong or lost there
    "prose as the file's name": Case(
        "Here is the fix for `src/calc.py`:\n" + BLOCK.partition("\n")[2],
        shown=(PATH, "src/other.py"), more={"src/other.py": CALC}),
    "an absolute path": Case(BLOCK.replace(PATH, "/home/me/code/src/calc.py"), shown=()),
    "lower-case markers": Case(BLOCK.replace("SEARCH", "search").replace("REPLACE", "replace")),
    "ORIGINAL and UPDATED": Case(BLOCK.replace("SEARCH", "ORIGINAL").replace("REPLACE", "UPDATED")),
    "no end marker": Case(BLOCK.replace(">>>>>>> REPLACE\n", "")),
    "a divider inside of the text": Case(
        block("Guide\n=====", "Manual\n======", "README.rst"), b"Manual\n======\n\nText\n", RST, path="README.rst",
        shown=("README.rst",)),
    "a block in a list": Case("1. Fix it:\n\n   " + BLOCK.rstrip().replace("\n", "\n   ")),
    "a CRLF answer": Case(BLOCK.replace("\n", "\r\n")),
}

MORE = {
    # of users of other tools
    "1 twins in two methods": Case(
        block("self.n += 1", "self.n += 2"), None, TWINS,
        "ambiguous", says=("src/calc.py:3", "src/calc.py:6")),
    "2 a bracket as the anchor": Case(block(")", "]"), None, b"f(\n    1,\n)\n" + b"g(2)\n" * 38, "ambiguous"),
    "3 one of two blocks is stale": Case(
        BLOCK + block("    return a * b", "    return a / b"), None, kind="missing", says=("block 2 of 2",)),
    "4 a unique part of a line": Case(block("fee(1)", "fee(2)"), b"x = fee(2), fo(2)\n", b"x = fee(1), fo(2)\n"),
    "5 one CRLF in a file of LF": Case(BLOCK, FIXED.replace(b"import os\n", b"import os\r\n"), CALC.replace(b"import os\n",
        b"import os\r\n")),
    "6 Latin-1": Case(BLOCK, b"# caf\xe9\n" + FIXED, b"# caf\xe9\n" + CALC),
    "6 a byte order mark": Case(BLOCK, b"\xef\xbb\xbf" + FIXED, b"\xef\xbb\xbf" + CALC),
    "6 UTF-16": Case(BLOCK, None, CALC.decode().encode("utf-16"), "forbidden", says=("UTF-16",)),
    "7 bytes that are no UTF-8 elsewhere": Case(BLOCK, FIXED + b"# \xe9 \xc3\xa9\n", CALC + b"# \xe9 \xc3\xa9\n"),
    "7 a character that the file cannot hold": Case(block("    total = a - b", "    total = a + b  # \u2192"),
        None, b"# \xe9\n" + CALC, "format"),
    "8 tabs in the file, spaces in the answer": Case(
        block("    total = a - b\n\n    return total", "    total = a + b\n\n    return total"), FIXED.replace(b"    ", b"\t"),
        CALC.replace(b"    ", b"\t")),
    "9 a heading is changed": Case(
        block("Guide", "Manual", "README.rst"), b"Manual\n=====\n\nText\n", RST, path="README.rst", shown=("README.rst",)),
    "9 an underline as long as the divider": Case(
        block("Guides!\n=======", "Manual!\n=======", "README.rst"), b"Manual!\n=======\n\nText\n", RST_7, path="README.rst",
        shown=("README.rst",)),
    "10 the searched definition is forgotten": Case(
        block("def sub(a, b):", "def neg(a):\n    return -a"), CALC.replace(b"def sub(a, b):", b"def neg(a):\n    return -a")),
    "11 applied before": Case(BLOCK, None, FIXED, "already_applied", says=("line 6",)),
    "12 backslashes, blanks and brackets": Case(
        BLOCK.replace(PATH, "pkg\\Create Items (1).py"), path="pkg/Create Items (1).py", shown=()),
    "13 a placeholder folder": Case(BLOCK.replace(PATH, "path/to/calc.py"), shown=()),
    "13 a placeholder name": Case(BLOCK.replace(PATH, "path/to/your_file.py")),
    "13 a language as the name": Case(BLOCK.replace(PATH, "python")),
    "14 an echoed file beside the edit": Case(
        f"`src/calc.py`\n```python\n{FIXED.decode()}```\n`src/other.py` needs no changes:\n```python\nx = 1\n```\n",
        shown=(PATH, "src/other.py"), more={"src/other.py": b"x = 1\n"}),
    "15 no name, one file": Case(f"```python\n{FIXED.decode()}```\n"),
    "16 prose only": Case("Please paste the file, then I can find the bug.", None, kind="format"),
    "17 an invented turn": Case(BLOCK + "\nUser: thanks, now the other\n\n" + block("    return a - b", "    return b - a")),
    "17 an invented turn in special tokens": Case(BLOCK + "<|im_end|>\n<|im_start|>user\n" + block("    return a - b",
        "    return b - a")),
    "20 an old fault elsewhere": Case(BLOCK, FIXED + b"\n\ndef bad():\n    return nope\n",
        CALC + b"\n\ndef bad():\n    return nope\n"),
    "20 an old syntax error elsewhere": Case(BLOCK, FIXED + b"\n\ndef bad(:\n", CALC + b"\n\ndef bad(:\n"),
    "20 a new syntax error": Case(block("    total = a - b", "    total = (a + b"), None, kind="syntax", says=("src/calc.py:6",)),
    "21 the first line of a repeated block": Case(
        block("if a:", "if b:"), None, b"if a:\n    x()\nif a:\n    y()\n", "ambiguous", says=("src/calc.py:1", "src/calc.py:3")),
    # forms
    "a name behind the marker": Case(BLOCK.partition("\n")[2].replace("SEARCH", "SEARCH src/calc.py"), shown=()),
    "a name on the fence": Case(f"```python src/calc.py\n{BLOCK.partition(chr(10))[2]}```", shown=()),
    "a name on the fence behind a colon": Case(f"```python:src/calc.py\n{BLOCK.partition(chr(10))[2]}```", shown=()),
    "a name in a comment in the fence": Case(f"```python\n# src/calc.py\n{FIXED.decode()}```", shown=()),
    "a bold name": Case("**src/calc.py**\n\n```\n" + BLOCK.partition("\n")[2] + "```", shown=()),
    "a heading with a name": Case("### File: `src/calc.py`\n```python\n" + BLOCK.partition("\n")[2] + "```", shown=()),
    "no name, two files, one of which holds the text": Case(
        BLOCK.partition("\n")[2], shown=("src/other.py", PATH), more={"src/other.py": b"x = 1\n"}),
    "no name, two files that hold the text": Case(
        BLOCK.partition("\n")[2], None, kind="path", shown=("src/other.py", PATH), more={"src/other.py": CALC}),
    "fences around both sides": Case(
        "<<<<<<< SEARCH\n```python\n    total = a - b\n```\n=======\n```python\n    total = a + b\n```\n>>>>>>> REPLACE"),
    "two blocks": Case(
        BLOCK + block("def sub(a, b):\n    return a - b", "def sub(a, b):\n    return b - a"), FIXED.replace(b"return a - b",
        b"return b - a")),
    "two blocks that swap lines": Case(
        block("x = 1", "x = 2") + block("y = 2", "y = 1"), b"x = 2\ny = 1\n", b"x = 1\ny = 2\n"),
    "the second block builds on the first": Case(
        BLOCK + block("    total = a + b", "    total = b + a"), CALC.replace(b"a - b\n\n    return", b"b + a\n\n    return")),
    "the same block twice": Case(BLOCK + BLOCK),
    "a unified diff": Case(
        "```diff\n" + DIFF.replace("@@ -6 +6 @@\n", "@@ -4,5 +4,5 @@\n def add(a, b):\n     # sum\n")
        + " \n     return total\n```", shown=()),
    "a diff with wrong numbers and no names": Case("```diff\n@@ -99,1 +99,1 @@\n-    total = a - b\n+    total = a + b\n```"),
    "a diff without a fence": Case(DIFF + "\nThat should do it.", shown=()),
    "a diff of git": Case("diff --git a/src/calc.py b/src/calc.py\nindex 123..456 100644\n" + DIFF, shown=()),
    "one function of the file": Case(f"The sign is wrong.\n{FENCED}```\n"),
    "code without a fence": Case(FENCED.removeprefix("```python\n") + "\nThe sign was wrong.\n"),
    "code that ends in a fence": Case(FENCED.removeprefix("```python\n") + "```\n\nThe sign was wrong.\n"),
    "a fence that is not closed": Case(FENCED),
    "a whole file between blank lines": Case(
        f"```python\n{FIXED.decode()}```\n", b"\n\n" + FIXED + b"\n \n", b"\n\n" + CALC + b"\n \n"),
    "every function of a file, and nothing around them": Case(f"```python\n{FUNCTIONS}```\n", MENDED, SCRIPT),
    "a whole file without its docstring": Case(f"```python\n{MENDED.decode().partition(chr(10))[2]}```\n", MENDED, SCRIPT),
    "a whole file without what starts it": Case(
        f"```python\n{MENDED.decode().partition('if __name__')[0]}```\n", MENDED, SCRIPT),
    "a whole file of which only a constant is other": Case(
        f"```python\n{SCRIPT.decode().replace('bob', 'eve')}```\n", SCRIPT.replace(b"bob", b"eve"), SCRIPT),
    "a script without functions that loses a name": Case(
        "```python\nn = 3\nprint(n)\nprint(n + 1)\n```", b"n = 3\nprint(n)\nprint(n + 1)\n",
        b"k = 1\nn = 3\nprint(n)\nprint(n - k)\n"),
    "functions and a constant that is other, and no docstring": Case(
        f"```python\n{MENDED.decode().replace('bob', 'eve').partition(chr(10))[2]}```\n", None, SCRIPT, "ambiguous",
        says=("whole file",)),
    "commands beside the code": Case(
        "```bash\npytest -q\n```\n" + f"```python\n{FIXED.decode()}```\n```\n$ pytest\n2 passed\n```\n"),
    "code that leaves code out": Case("```python\nimport os\n\n\ndef add(a, b):\n    return a + b\n\n\n# ... rest unchanged\n```",
        CALC.replace(b"    # sum\n    total = a - b\n\n    return total", b"    return a + b")),
    "a replacement that leaves code out": Case(
        block("def add(a, b):\n    # sum\n    total = a - b", "def add(a, b):\n    # ... existing code ..."),
        None, kind="format"),
    "a function that is not there": Case("```python\ndef mul(a, b):\n    return a * b\n```", None, kind="missing"),
    "a new file": Case(block("", "x = 1", "src/new.py"), b"x = 1\n", path="src/new.py"),
    "a JavaScript file": Case(
        "```js\nexport function add(a, b) {\n  return a + b;\n}\n\nexport const one = 1;\nexport const two = 2;\n```",
        b"export function add(a, b) {\r\n  return a + b;\r\n}\r\n\r\nexport const one = 1;\r\nexport const two = 2;",
        b"export function add(a, b) {\r\n  return a - b;\r\n}\r\n\r\nexport const one = 1;\r\nexport const two = 2;",
        path="web/add.js", shown=("web/add.js",)),
    "a part of a JavaScript file": Case(
        "```js\nfunction add(a, b) {\n  return a + b;\n}\n```", None, b"const x = 1;\n" * 30, "missing", "web/add.js",
        ("web/add.js",)),
    # not ours to touch
    "out of the repository": Case(BLOCK.replace(PATH, "../calc.py"), None, kind="forbidden"),
    "git's folder": Case(block("", "x", ".git/config"), None, kind="forbidden"),
    "a test": Case(BLOCK.replace(PATH, "tests/test_calc.py"), None, CALC, "forbidden", more={"tests/test_calc.py": CALC}),
    "a new conftest.py": Case(block("", "x = 1", "src/conftest.py"), None, kind="forbidden"),
    "a new pytest.py": Case(block("", "x = 1", "pytest.py"), None, kind="forbidden"),
    "a new file in a folder that is not there": Case(block("", "x = 1", "link/x.py"), None, kind="forbidden"),
    "a file that is not there": Case(BLOCK.replace(PATH, "src/nothing.py"), None, kind="path", shown=("a.py", "b.py"),
                                     more={"a.py": b"", "b.py": b""}),
    "a lone surrogate": Case(block("    total = a - b", "    total = a + b  # \udcff"), None, kind="format"),
    "a NUL": Case(block("    total = a - b", "    total = a + b  # \0"), None, kind="format"),
}


def decide(case: Case) -> None:
    tree = {**case.more, "src/calc.py": CALC, case.path: case.before} if case.path != "src/new.py" else {PATH: CALC}
    if case.after is None:
        with pytest.raises(EditError) as refused:
            apply_answer(case.answer, tree, case.shown)
        assert refused.value.kind == case.kind, refused.value
        assert "\n" not in str(refused.value)
        told = f"{refused.value} {refused.value.feedback}"
        assert all(word in told for word in case.says), told
    else:
        assert apply_answer(case.answer, tree, case.shown).changes == {case.path: case.after}


def test_the_matrix_has_all_of_its_cases() -> None:
    assert len(MATRIX) == 36


@pytest.mark.parametrize("name", MATRIX)
def test_each_case_of_the_matrix_is_decided_right(name: str) -> None:
    decide(MATRIX[name])


@pytest.mark.parametrize("name", MORE)
def test_each_case_that_hurt_users_elsewhere_is_decided_right(name: str) -> None:
    decide(MORE[name])


def test_what_was_not_committed_is_kept_and_the_diff_is_relative_to_it() -> None:
    dirty = {PATH: CALC.replace(b"import os", b"import os  # mine"), "src/other.py": b"also = 'mine'\n"}
    edited = apply_answer(BLOCK, dirty, [PATH])
    diff = make_diff(dirty, {**dirty, **edited.changes})
    assert diff.count(b"\n-") - 1 == diff.count(b"\n+") - 1 == 1
    assert apply_diff(diff, dirty) == {PATH: FIXED.replace(b"import os", b"import os  # mine")}
