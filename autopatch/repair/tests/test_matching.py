"""Where a searched text stands, and what comes to stand there."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopatch.repair.matching import AlreadyThere, Ambiguous, Match, Missing, place

TWO = "class A:\n    def up(self):\n        self.n += 1\n\n    def down(self):\n        self.n += 1\n"


@dataclass(frozen=True)
class Case:
    text: str
    search: str
    replace: str
    after: str
    how: str


MATCHES = {
    "exact": Case("a = 1\nb = 2\n", "a = 1", "a = 3", "a = 3\nb = 2\n", "exact"),
    "trailing blanks in the file": Case("a = 1  \nb = 2\t\n", "a = 1\nb = 2", "a = 1\nb = 3", "a = 1  \nb = 3\n",
        "trailing blanks"),
    "trailing blanks in the search": Case("a = 1\nb = 2\n", "a = 1   \nb = 2", "a = 1   \nb = 3", "a = 1\nb = 3\n",
        "trailing blanks"),
    "CRLF file, LF answer": Case("a = 1\r\nb = 2\r\n", "a = 1\nb = 2", "a = 1\nc = 2\nb = 3", "a = 1\r\nc = 2\r\nb = 3\r\n",
        "exact"),
    "one CRLF among LF stays": Case("a\nb\r\nc\n", "a\nb\nc", "a\nb\nd", "a\nb\r\nd\n", "exact"),
    "a changed CRLF line keeps its end": Case("a\nb\r\nc\n", "b", "B\nBB", "a\nB\r\nBB\r\nc\n", "exact"),
    "CR CR LF": Case("a\r\r\nb\r\r\n", "b", "c", "a\r\r\nc\r\r\n", "exact"),
    "old Mac ends": Case("a\rb\rc", "b", "d\ne", "a\rd\re\rc", "exact"),
    "no newline at the end": Case("a\nb", "b", "c", "a\nc", "exact"),
    "no newline at the end, more lines": Case("a\nb", "a\nb", "a\nb\nc", "a\nb\nc", "exact"),
    "no newline at the end, CRLF": Case("a\r\nb", "b", "b\nc", "a\r\nb\r\nc", "exact"),
    "deleting lines": Case("a\nb\nc\n", "a\nb", "a", "a\nc\n", "exact"),
    "deleting all": Case("a\nb\nc\n", "b", "", "a\nc\n", "exact"),
    "indent missing": Case(
        "def f():\n    if x:\n        return 1\n", "if x:\n    return 1", "if x:\n    return 2\nreturn 3",
        "def f():\n    if x:\n        return 2\n    return 3\n", "indent"),
    "indent too deep": Case("if x:\n    y()\n", "    if x:\n        y()", "    if x:\n        z()", "if x:\n    z()\n", "indent"),
    "blanks for tabs": Case(
        "def f():\n\tif x:\n\t\treturn 1\n", "    if x:\n        return 1",
        "    if x:\n        y()\n        return 2\n    return 3",
        "def f():\n\tif x:\n\t\ty()\n\t\treturn 2\n\treturn 3\n", "indent"),
    "blanks for tabs on one line": Case("f:\n\t\tx = 1\n", "        x = 1", "        x = 2", "f:\n\t\tx = 2\n", "indent"),
    "tabs for blanks": Case("if a:\n    if b:\n        c()\n", "\tif b:\n\t\tc()", "\tif b:\n\t\td()",
        "if a:\n    if b:\n        d()\n", "indent"),
    "four blanks for two": Case(
        "a {\n  b {\n    c();\n  }\n}\n", "    b {\n        c();\n    }", "    b {\n        d();\n        e();\n    }",
        "a {\n  b {\n    d();\n    e();\n  }\n}\n", "indent"),
    "no-break spaces": Case("if a:\n    b()\n    c()\n", "\u00a0\u00a0\u00a0\u00a0b()\n    c()",
        "\u00a0\u00a0\u00a0\u00a0d()\n    c()", "if a:\n    d()\n    c()\n", "indent"),
    "a blank line left out": Case("a = 1\n\nb = 2\n", "a = 1\nb = 2", "a = 1\nb = 3", "a = 1\n\nb = 3\n", "blank lines"),
    "a blank line too many": Case("a = 1\nb = 2\n", "a = 1\n\nb = 2", "a = 1\n\nb = 3", "a = 1\nb = 3\n", "blank lines"),
    "a comment left out": Case("a = 1\n# why\nb = 2\n", "a = 1\nb = 2", "a = 4\nb = 3", "a = 4\n# why\nb = 3\n",
        "blank lines and comments"),
    "a comment too many": Case("a = 1\nb = 2\n", "a = 1\n# two\nb = 2", "a = 1\n# two\nb = 3", "a = 1\nb = 3\n",
        "blank lines and comments"),
    "two blanks for one": Case("a = f(1,  2)\n", "a = f(1, 2)", "a = f(1, 3)", "a = f(1,  3)\n", "look-alike characters"),
    "other quotes": Case("a = 'x'\nb = 1\n", 'a = "x"\nb = 1', 'a = "x"\nb = 2', "a = 'x'\nb = 2\n", "kind of quotes"),
    "other quotes on the changed line": Case("a = 'x'\n", 'a = "x"', 'a = "it\'s"', "a = \"it's\"\n", "kind of quotes"),
    "typographic quotes in the answer": Case("a = \"x\"\n", "a = \u201cx\u201d", "a = \u201cy\u201d", "a = \"y\"\n",
        "look-alike characters"),
    "typographic apostrophe in the file": Case(
        'a = "it\u2019s"\n', 'a = "it\'s"', 'a = "it\'s on"', 'a = "it\u2019s on"\n', "look-alike characters"),
    "decomposed file": Case("a = 'e\u0301'\n", "a = '\u00e9'", "b = '\u00e9'", "b = 'e\u0301'\n", "look-alike characters"),
    "decomposed answer": Case("a = '\u00e9'\n", "a = 'e\u0301'", "b = 'e\u0301'", "b = '\u00e9'\n", "look-alike characters"),
    "line numbers": Case("x\na = 1\nb = 2\n", "2: a = 1\n3: b = 2", "2: a = 1\n3: b = 3", "x\na = 1\nb = 3\n", "exact"),
    "line numbers with bars": Case("if a:\n    b()\n", "1 | if a:\n2 |     b()", "1 | if a:\n2 |     c()", "if a:\n    c()\n",
        "exact"),
    "minus and plus": Case("a = 1\nb = 2\n", "-a = 1\n-b = 2", "+a = 1\n+b = 3", "a = 1\nb = 3\n", "exact"),
    "plus only": Case("a = 1\nb = 2\n", "b = 2", "+b = 3", "a = 1\nb = 3\n", "exact"),
    "a diff's context": Case("a = 1\nb = 2\n", " a = 1\n-b = 2", " a = 1\n+b = 3", "a = 1\nb = 3\n", "exact"),
    "an indent lost in the new text only": Case("if a:\n    b()\n", "    b()", "c()", "if a:\n    c()\n", "exact"),
    "lines left out": Case(
        "def f():\n    a()\n    b()\n    c()\n", "def f():\n    ...\n    c()", "def f():\n    ...\n    d()",
        "def f():\n    a()\n    b()\n    d()\n", "left-out lines"),
    "lines left out, the end is that of the same block": Case(
        "def f(x):\n    y = x\n    return y\ndef g(x):\n    y = x\n    return y\n", "def f(x):\n    # ...\n    return y",
        "def f(x):\n    # ...\n    return -y", "def f(x):\n    y = x\n    return -y\ndef g(x):\n    y = x\n    return y\n",
        "left-out lines"),
    "a real ellipsis": Case("def f():\n    ...\n", "def f():\n    ...", "def f():\n    return 1", "def f():\n    return 1\n",
        "exact"),
    "part of a line": Case("x = fee(1), fo(2)\n", "fee(1)", "fee(3)", "x = fee(3), fo(2)\n", "part of a line"),
    "a word misspelt": Case(
        "def area(width, height):\n    total = width + height\n    return total\n",
        "def area(width, height):\n    totl = width + height\n    return total",
        "def area(width, height):\n    total = width * height\n    return total",
        "def area(width, height):\n    total = width * height\n    return total\n", "near text"),
    "an indent that is off in the search only": Case("if a:\n    b()\n", "   b()", "    c()\n    d()",
        "if a:\n    c()\n    d()\n", "indent"),
    "a blank line at the end": Case("a = 1\n\nb = 2\n", "a = 1\n\n", "a = 2\n\n", "a = 2\n\nb = 2\n", "exact"),
    "a Makefile's recipe": Case("all:\n\tcc -o a a.c\n\tstrip a\n", "    cc -o a a.c", "    cc -O2 -o a a.c",
        "all:\n\tcc -O2 -o a a.c\n\tstrip a\n", "indent"),
    "a heading's underline": Case("Guide\n=====\n\nText\n", "Guide\n=====", "Manual\n======", "Manual\n======\n\nText\n",
        "exact"),
    "only the one that is indented so": Case("x = 1\nif a:\n    x = 1\n", "    x = 1", "    x = 2",
        "x = 1\nif a:\n    x = 2\n", "exact"),
}


@pytest.mark.parametrize("name", MATCHES)
def test_a_text_is_found_and_its_place_reads_as_it_should(name: str) -> None:
    case = MATCHES[name]
    found = place(case.text, case.search, case.replace)
    assert isinstance(found, Match), found
    assert case.text[:found.start] + found.new + case.text[found.end:] == case.after
    assert found.how.startswith(case.how)


TIES = {
    "twins": (TWO, "self.n += 1", (3, 6)),
    "twins with their indent": (TWO, "        self.n += 1", (3, 6)),
    "the first line of a block that is there twice": ("if a:\n    b()\nif a:\n    c()\n", "if a:", (1, 3)),
    "a bracket": ("f(\n    1,\n)\ng(2)\n", ")", (3, 4)),
    "a part of a line that is there twice": ("x = f(1) + f(1)\ny = f(1)\n", "f(1)", (1, 2)),
    "twins but for blanks": ("a =  1\nb\na  = 1\n", "a = 1", (1, 3)),
    "twins but for quotes": ("a = 'x'\nb\na = 'x' \n", 'a = "x"', (1, 3)),
    "left-out lines that could begin at two places": ("if a:\n    b()\n    c()\nif a:\n    d()\n    c()\n",
        "if a:\n...\n    c()", (1, 4)),
}


@pytest.mark.parametrize("name", TIES)
def test_a_tie_is_refused_and_both_places_are_named(name: str) -> None:
    text, search, numbers = TIES[name]
    assert place(text, search, search.replace("1", "2").replace("c()", "e()") + " # new") == Ambiguous(numbers)


@pytest.mark.parametrize(("text", "search"), [
    ("def total_a(rows):\n    return sum(rows)\n", "def total_b(rows):\n    return sum(rows)"),
    ("a = one(1)\na = one(2)\na = one(3)\n", "a = one(4)"), ("a\nb\n", "something else\nentirely"), ("", "x"), ("x\n", ""),
        ("x\n", "\n\n"),
    ("if a:\n    b()\nelse:\n  c()\n", "if a:\nb()\nelse:\nc()\nd()"), ("word\n", "ord"), ("if a:\n\tif b:\n\t\tc()\n",
        "if a:\n    if b:\n    c()"),
])
def test_what_is_not_there_is_missing(text: str, search: str) -> None:
    assert isinstance(place(text, search, "something = new"), Missing)


def test_the_nearest_lines_are_told_of_what_is_missing() -> None:
    found = place("import x\ndef total_a(rows):\n    return sum(rows)\n", "def total_b(rows):\n    return sum(rows)", "pass")
    assert found == Missing((2, "def total_a(rows):\n    return sum(rows)"))


@pytest.mark.parametrize(("text", "search", "replace", "line"), [
    ("x\ndef f(a, b):\n    return a + b\n", "    return a - b", "    return a + b", 3),
    ("import os\nimport sys\nx\n", "import os", "import os\nimport sys", 1),
    ("x\r\n  total = price * count\r\n", "  total = price + count", "  total = price * count", 2),
])
def test_an_edit_that_was_applied_before_is_known(text: str, search: str, replace: str, line: int) -> None:
    assert place(text, search, replace) == AlreadyThere(line)


@given(st.text("ab \t\r\n.#'-+1:\u00e9\u0301\u00a0\u201c", max_size=60), st.text("ab \n.#1'", max_size=20),
        st.text("ab \t\n.+", max_size=20))
def test_whatever_the_texts_what_lies_outside_of_a_match_is_untouched(text: str, search: str, replace: str) -> None:
    found = place(text, search, replace)
    if isinstance(found, Match):
        assert 0 <= found.start < found.end <= len(text)
        assert 1 <= found.first <= found.last


@given(st.lists(st.tuples(st.sampled_from(["", "a = 1", "  b", "\tc", "# d", "e  "]), st.sampled_from(["\n", "\r\n"])),
        min_size=1, max_size=8), st.data())
def test_lines_are_found_among_any_others_and_only_they_change(given_lines: list[tuple[str, str]], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(given_lines)))
    before = "".join(body + end for body, end in given_lines[:at])
    after = "".join(body + end for body, end in given_lines[at:])
    end = data.draw(st.sampled_from(["\n", "\r\n"]))
    found = place(before + f"needle one{end}needle two{end}" + after, "needle one\nneedle two", "needle one\nneedle 2\nneedle 3")
    assert isinstance(found, Match)
    text = before + f"needle one{end}needle two{end}" + after
    assert text[:found.start] + found.new + text[found.end:] == before + f"needle one{end}needle 2{end}needle 3{end}" + after
