"""What a model is shown: whole functions, their imports, and never more than the budget."""

import pytest

from autopatch.contract.code import Frame, Place
from autopatch.repair.context import choose, estimate_tokens

BODY = "".join(f"    step_{n} = {n}\n" for n in range(200))
FILE = f'''import json
import math
from os import (
    path,
    sep,
)

LIMIT = 3


class Shelf:
    """Books."""

    def add(self, book):
        return math.floor(book) + LIMIT

    def drop(self, book):
        return path.join(book)


def long(value):
{BODY}    return value
'''
TREE = {
    "lib/shelf.py": FILE.encode(),
    "lib/other.js": b"const fs = require('fs')\nconst os = require('os')\nfunction f() {\n  return fs\n}\n",
}
ADD = Place(path="lib/shelf.py", name="Shelf.add", start=14, end=15, score=0.9, lines={15: 0.9})
DROP = Place(path="lib/shelf.py", name="Shelf.drop", start=17, end=18, score=0.5)
LONG = Place(path="lib/shelf.py", name="long", start=21, end=222, score=0.4, lines={100: 0.4, 180: 0.3})
SCRIPT = Place(path="lib/other.js", name="f", start=3, end=5, score=0.2)


def test_a_function_comes_whole_with_its_class_and_only_the_imports_that_it_uses() -> None:
    shown = choose(TREE, [ADD], [], tokens=500)
    assert shown.splitlines()[0] == "File: lib/shelf.py"
    assert "class Shelf:" in shown and "return math.floor(book) + LIMIT" in shown and "import math" in shown
    assert "import json" not in shown and "from os" not in shown


def test_an_import_over_several_lines_comes_whole() -> None:
    assert "from os import (\n    path,\n    sep,\n)" in choose(TREE, [DROP], [])


@pytest.mark.parametrize("tokens", [20, 60, 150, 400, 1500])
def test_the_budget_of_tokens_is_kept(tokens: int) -> None:
    shown = choose(TREE, [ADD, LONG, DROP, SCRIPT], [Frame(path="lib/shelf.py", line=18)], tokens=tokens)
    assert estimate_tokens(shown) <= tokens


@pytest.mark.parametrize("lines", [1, 6, 12, 50, 400])
def test_the_budget_of_lines_is_kept(lines: int) -> None:
    assert len(choose(TREE, [LONG, ADD, DROP, SCRIPT], [], lines=lines).splitlines()) <= lines


def test_a_function_that_does_not_fit_gives_way_to_the_next_that_does() -> None:
    shown = choose(TREE, [ADD, LONG, DROP], [], tokens=150)
    assert "def drop" in shown and "step_199" not in shown


def test_the_first_place_is_cut_around_its_suspicious_lines_when_it_is_too_long() -> None:
    shown = choose(TREE, [LONG], [], tokens=200)
    assert "def long(value):" in shown and "step_78 " in shown and "step_150" not in shown and "..." in shown


def test_frames_bring_the_function_around_them_and_what_is_similar_comes_last() -> None:
    shown = choose(TREE, [ADD], [Frame(path="lib/shelf.py", line=18)], [SCRIPT])
    assert shown.index("def add") < shown.index("def drop") < shown.index("File: lib/other.js")
    assert "require('fs')" in shown and "require('os')" not in shown


def test_paths_that_are_not_in_the_tree_and_lines_that_are_not_in_a_file_are_passed_over() -> None:
    assert choose(TREE, [ADD.model_copy(update={"path": "gone.py"})], [Frame(path="lib/shelf.py", line=9999)]) == ""
