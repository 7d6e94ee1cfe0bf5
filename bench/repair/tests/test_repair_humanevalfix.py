"""Cases are made of a data folder's lines; the lines here are our own."""

import json
from pathlib import Path

import pytest

from autopatch.contract.errors import OperatorError
from bench.repair.box import ProcessBox
from bench.repair.case import Case
from bench.repair.humanevalfix import load
from bench.repair.judge import is_green, judge

LINE = {
    "task_id": "Python/1000", "entry_point": "largest", "bug_type": "operator misuse",
    "prompt": "from typing import List\n\n\ndef largest(numbers: List[int]) -> int:\n    \"\"\" The largest number. \"\"\"\n",
    "buggy_solution": "    return min(numbers)\n", "canonical_solution": "    return max(numbers)\n",
    "example_test": "def check(largest):\n    assert largest([1, 3, 2]) == 3\ncheck(largest)\n",
    "test": "\n\n\ndef check(largest):\n    assert largest([5]) == 5\n    assert largest([-1, -2]) == -1\n\ncheck(largest)",
}


def folder(path: Path, *lines: dict[str, str]) -> Path:
    (path / "cases.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def only(path: Path, **other: str) -> Case:
    return load(folder(path, {**LINE, **other}))[0]


def right(case: Case) -> dict[str, bytes]:
    return {**case.repository, "solution.py": case.repository["solution.py"].replace(b"min(", b"max(")}


def test_a_line_becomes_a_repository_that_is_red_and_can_be_healed(tmp_path: Path) -> None:
    case, box = only(tmp_path), ProcessBox()
    assert (case.id, case.expected, case.sources) == ("Python-1000", None, ["solution.py"])
    assert not is_green(case, box, 60)
    found = judge(case, right(case), box, 60)
    assert found.plausible and found.solved


def test_the_hidden_test_is_not_in_the_repository(tmp_path: Path) -> None:
    case = only(tmp_path)
    assert b"[-1, -2]" not in b"".join(case.repository.values())
    assert b"max(" not in b"".join(case.repository.values())


def test_what_only_passes_the_visible_test_is_overfit(tmp_path: Path) -> None:
    case = only(tmp_path)
    tree = {**case.repository, "solution.py": case.repository["solution.py"].replace(b"min(numbers)", b"3")}
    found = judge(case, tree, ProcessBox(), 60)
    assert found.plausible and not found.solved


def test_a_case_without_examples_is_green(tmp_path: Path) -> None:
    case = only(tmp_path, example_test="")
    assert is_green(case, ProcessBox(), 60)


def test_a_case_whose_examples_pass_is_green(tmp_path: Path) -> None:
    case = only(tmp_path, example_test="def check(largest):\n    assert largest([3]) == 3\ncheck(largest)\n")
    assert is_green(case, ProcessBox(), 60)


@pytest.mark.parametrize(("change", "said"), [
    ({"entry_point": "a b"}, r"cases.jsonl:1: entry_point: 'a b' is no name"), ({"test": None}, r"cases.jsonl:1: test: "),
])
def test_a_mistake_in_the_data_names_line_and_field(change: dict[str, str], said: str, tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match=said):
        load(folder(tmp_path, {**LINE, **change}))


def test_no_data_is_said_with_its_remedy(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="--data"):
        load(tmp_path)


def test_a_task_is_there_once(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="twice"):
        load(folder(tmp_path, LINE, LINE))
