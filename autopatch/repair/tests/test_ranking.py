"""Which of several patches that pass is taken, and the inputs that tell them apart."""

import base64
import json
import subprocess
import sys
from pathlib import Path

import pytest

from autopatch.contract.code import FileChange, Place
from autopatch.repair.ranking import Survivor, agreement, change_size, lifts_constants, probe_inputs, rank

CALC = b'''def scale(numbers, factor):
    """
    >>> scale([4, 6], 3)
    [12, 18]
    """
    return [n * factor for n in numbers]


class Box:
    def open(self, key):
        return key
'''
TESTS = {"test_calc.py": b"from calc import scale\n\ndef test_scale():\n    assert scale([1, 2], 10) == [10, 20]\n"}
PLACE = Place(path="calc.py", name="scale", start=1, end=6, score=1)


def one(name: str, prior: float = 0.5, *, prints: tuple[str, ...] = (), size: int = 1001, **more: bool) -> Survivor:
    return Survivor(name, (), name, "template", prior, fingerprint=prints, size=size, **more)


def names(*candidates: Survivor) -> str:
    return " ".join(c.id for c in rank(candidates))


def changed(new: bytes) -> tuple[FileChange, ...]:
    return (FileChange(path="calc.py", content=base64.b64encode(new).decode()),)


def test_the_whole_suite_counts_before_all_else_and_lifted_constants_before_the_prior() -> None:
    assert names(one("part", 0.9, whole=False), one("lifted", 0.9, lifted=True), one("plain", 0.1)) == "plain lifted part"


def test_the_likelier_template_comes_first_and_equal_ones_keep_their_order() -> None:
    assert names(one("rare", 0.2), one("common", 0.8)) == "common rare"
    assert names(one("a"), one("b"), one("c")) == "a b c"


def test_a_smaller_change_comes_first_among_equals() -> None:
    assert names(one("large", size=9300), one("small")) == "small large"


def test_a_patch_that_does_what_most_others_do_comes_before_a_likelier_one_that_does_not() -> None:
    odd = one("odd", 0.6, prints=("1", "9", "9", "9"))
    others = [one(name, 0.5, prints=("1", "2", "3", "4")) for name in ("a", "b", "c")]
    assert names(odd, *others) == "a b c odd"
    assert agreement(odd, [odd, *others]) < agreement(others[0], [odd, *others]) < 1


def test_a_patch_that_fails_on_generated_inputs_comes_later() -> None:
    assert names(one("fails", prints=("1", "!IndexError")), one("answers", prints=("1", "0"))) == "answers fails"


def test_without_inputs_nothing_is_known_of_agreement() -> None:
    assert agreement(one("a"), [one("a"), one("b")]) == 1.0


def test_a_patch_whose_outputs_could_not_be_had_comes_after_those_that_agree() -> None:
    assert names(one("hung", 0.9), one("a", prints=("1",)), one("b", prints=("2",))) == "a b hung"


def test_no_candidates_are_no_choice() -> None:
    assert rank([]) == ()


@pytest.mark.parametrize(("new", "size"), [
    (CALC, 0),
    (CALC.replace(b"n * factor", b"n + factor"), 1001),
    (CALC.replace(b"    return [n", b"    if not numbers:\n        return []\n    return [n"), 2000 + 38),
    (CALC.replace(b"        return key\n", b""), 1000 + 19),
])
def test_the_size_of_a_change_is_its_lines_then_its_characters(new: bytes, size: int) -> None:
    assert change_size({"calc.py": CALC}, changed(new)) == size


@pytest.mark.parametrize(("new", "lifted"), [
    (b"    return [10, 20]", True), (b"    return [n * factor + 1 for n in numbers]", False), (b"    return 77", False),
    (b"    return f'{factor}'", False),
])
def test_a_constant_that_only_the_tests_hold_is_lifted(new: bytes, lifted: bool) -> None:
    after = CALC.replace(b"    return [n * factor for n in numbers]", new)
    assert lifts_constants({"calc.py": CALC, **TESTS}, changed(after), TESTS) is lifted


def test_a_file_that_cannot_be_read_lifts_nothing() -> None:
    assert lifts_constants({"calc.py": CALC}, changed(b"'unended"), {"t.py": b"(((", **TESTS}) is False


def outputs(folder: Path, source: bytes, script: str, path: str = "calc.py") -> list[str]:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_bytes(source)
    python = [sys.executable, "-B", "-c", script]  # compiled code of the last file could be taken for this one's
    ran = subprocess.run(python, cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    answers = json.loads(ran.stdout.strip().splitlines()[-1])
    assert isinstance(answers, list) and all(isinstance(a, str) for a in answers)
    return answers


def test_probes_call_the_function_with_what_its_tests_and_documentation_give_and_with_variations(tmp_path: Path) -> None:
    script = probe_inputs({"calc.py": CALC}, PLACE, TESTS)
    answers = outputs(tmp_path, CALC, script)
    assert answers[:2] == ["[12, 18]", "[10, 20]"]
    assert "[]" in answers and 10 < len(answers) <= 60


def test_probes_tell_patches_apart_that_agree_on_the_tests(tmp_path: Path) -> None:
    script = probe_inputs({"calc.py": CALC}, PLACE, TESTS)
    other = CALC.replace(b"for n in numbers", b"for n in numbers if n < 7")
    assert outputs(tmp_path, CALC, script) != outputs(tmp_path, other, script)
    same = CALC.replace(b"n * factor", b"factor * n")
    assert outputs(tmp_path, CALC, script) == outputs(tmp_path, same, script)


def test_probes_are_the_same_for_the_same_seed_and_differ_for_another() -> None:
    tree = {"calc.py": CALC}
    assert probe_inputs(tree, PLACE, TESTS, seed=1) == probe_inputs(tree, PLACE, TESTS, seed=1)
    assert probe_inputs(tree, PLACE, TESTS, seed=1) != probe_inputs(tree, PLACE, TESTS, seed=2)


def test_a_function_that_loops_fails_prints_or_changes_its_arguments_is_told_as_such(tmp_path: Path) -> None:
    source = b"""def f(items):
    print("noise")
    while items == [9]:
        pass
    items.append(1)
    return {3, 1, 2}
"""
    tests = {"t.py": b"f([9])\nf([5])\nf(7)\n"}
    script = probe_inputs({"calc.py": source}, Place(path="calc.py", name="f", start=1, end=6, score=1), tests)
    answers = outputs(tmp_path, source, script)
    assert answers[:3] == ["!TimeoutError", "{1, 2, 3} changed [[5, 1]]", "!AttributeError"]


@pytest.mark.parametrize(("one", "other", "alike"), [
    (b"Decimal(a) / 100", b"Decimal(a) / 10", False),
    (b"Decimal(a) / 100", b"Decimal(a) * 1 / 100", True),
    (b"[Box(a + 1)]", b"[Box(1 + a)]", True),
    (b"[Box(a + 1)]", b"[Box(a + 2)]", False),
    (b"[(a + .1) + .2]", b"[a + (.1 + .2)]", True),
    (b"{'sum': [a] * 4000}", b"{'sum': [a] * 3999 + [a + 1]}", False),
], ids=["values", "the same value", "objects", "other objects", "rounding", "long ones"])
def test_probes_tell_values_of_every_kind_apart_and_not_where_they_lie(
    tmp_path: Path, one: bytes, other: bytes, alike: bool
) -> None:
    box = b"class Box:\n    def __init__(self, a):\n        self.a = a\n\n"
    head = b"from decimal import Decimal\n\n" + box + b"def f(a: int):\n    return "
    script = probe_inputs({"calc.py": head + one + b"\n"}, Place(path="calc.py", name="f", start=7, end=8, score=1), {})
    answers = [outputs(tmp_path, head + body + b"\n", script) for body in (one, other)]
    assert (answers[0] == answers[1]) is alike
    assert len(json.dumps(answers[0])) < 8000  # more than that may be cut


def test_probes_read_tables_of_parametrised_tests(tmp_path: Path) -> None:
    tests = {"t.py": b"""import pytest
@pytest.mark.parametrize("numbers, factor, wanted", [([5], 2, [10]), ([6], 3, [18])])
def test_scale(numbers, factor, wanted):
    assert scale(numbers, factor) == wanted
"""}
    bare = CALC.replace(b">>>", b"   ")
    assert outputs(tmp_path, bare, probe_inputs({"calc.py": bare}, PLACE, tests))[:2] == ["[10]", "[18]"]


def test_probes_follow_annotations_where_no_call_is_known_and_reach_modules_in_packages(tmp_path: Path) -> None:
    source = b"from shop.other import one\nfrom .other import two\n\ndef f(a: int, b: str):\n    return b * (a + one) * two\n"
    (tmp_path / "src" / "shop").mkdir(parents=True)
    (tmp_path / "src" / "shop" / "other.py").write_text("one = 1\ntwo = 2\n")
    (tmp_path / "src" / "shop" / "__init__.py").write_text("")
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong one')\n")
    place = Place(path="src/shop/f.py", name="f", start=4, end=5, score=1)
    script = probe_inputs({"src/shop/f.py": source, "src/shop/__init__.py": b""}, place, {})
    assert "aaaa" in "".join(outputs(tmp_path, source, script, "src/shop/f.py"))


def test_after_five_calls_that_take_too_long_the_rest_is_not_tried(tmp_path: Path) -> None:
    source = b"def f(a):\n    while a:\n        pass\n"
    script = probe_inputs({"calc.py": source}, Place(path="calc.py", name="f", start=1, end=3, score=1), {"t.py": b"f(7)\nf(30)"})
    assert outputs(tmp_path, source, script).count("!TimeoutError") == 5


@pytest.mark.parametrize("place", [
    Place(path="calc.py", name="Box.open", start=9, end=10, score=1), Place(path="gone.py", name="f", start=1, end=1, score=1),
    Place(path="calc.js", name="scale", start=1, end=1, score=1), Place(path="calc.py", start=1, end=1, score=1),
])
def test_what_is_no_top_level_python_function_is_not_probed(place: Place) -> None:
    assert probe_inputs({"calc.py": CALC, "calc.js": b"x"}, place, TESTS) == ""


def test_a_function_of_which_no_inputs_are_known_is_not_probed() -> None:
    source = b"def f(a, b):\n    return a\n"
    assert probe_inputs({"calc.py": source}, Place(path="calc.py", name="f", start=1, end=2, score=1), {}) == ""
