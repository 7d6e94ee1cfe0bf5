"""Every case is what it says it is: red as given, and green, hidden tests too, with the fix that lies beside it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from autopatch.contract.errors import OperatorError
from autopatch.repair.tree import Tree
from bench.repair import micro
from bench.repair.box import ProcessBox
from bench.repair.case import Case, changed, protected, read, write
from bench.repair.judge import counted, green, judge

BOX = ProcessBox()
LIMIT_S = 60.0
CASES = {case.id: case for case in micro.load()}
FIXABLE = [name for name, case in CASES.items() if case.expected == "fixed"]
RUN = [pytest.param(name, marks=pytest.mark.long) if number % 4 else name for number, name in enumerate(FIXABLE)]
"""Every fourth is run each time."""


def fixed(case: Case, folder: Path) -> Tree:
    write(case.repository, folder)
    patch = micro.FOLDER / case.id / "fix.patch"
    subprocess.run(["git", "apply", "--check", patch], cwd=folder, check=True)
    subprocess.run(["git", "apply", patch], cwd=folder, check=True)
    return read(folder)


def runnable(case: Case) -> None:
    if case.toolchain == "node" and not shutil.which("node"):
        pytest.skip("no node here")


def red(case: Case) -> int | None:
    return micro.described(micro.FOLDER / case.id).red


def test_there_are_enough_cases_of_every_kind() -> None:
    kinds = {kind for case in CASES.values() for kind in case.kinds}
    assert len(CASES) >= 14
    assert kinds >= {
        "logic", "boundary", "state", "exception", "concurrency", "wrong use of a library", "two files", "two edits",
        "JavaScript", "green", "flaky", "environment", "missing logic", "CRLF and Latin-1", "unittest",
    }


@pytest.mark.parametrize("name", CASES)
def test_a_name_does_not_give_the_fault_away(name: str) -> None:
    case = CASES[name]
    words = {word for kind in case.kinds for word in re.findall(r"[a-z]+", kind.lower())}
    assert not words & set(re.findall(r"[a-z]+", name.lower()))


@pytest.mark.parametrize("name", CASES)
def test_nothing_in_the_repository_tells_of_its_hidden_tests(name: str) -> None:
    text = b"\n".join(CASES[name].repository.values()).lower()
    assert b"hidden" not in text and b"bug" not in text and b"fixme" not in text


@pytest.mark.parametrize("name", FIXABLE)
def test_a_case_is_red_as_it_says(name: str) -> None:
    case = CASES[name]
    runnable(case)
    found = counted(BOX.run(case.repository, case.command, LIMIT_S))
    assert found and (found.failed, found.passed) == (red(case), case.tests - (red(case) or 0))
    assert found.failed > 0


@pytest.mark.parametrize("name", RUN)
def test_its_hidden_tests_are_red_too(name: str) -> None:
    case = CASES[name]
    runnable(case)
    found = counted(BOX.run({**case.repository, **case.hidden}, case.hidden_command, LIMIT_S))
    assert found and found.failed > 0 and found.passed + found.failed == case.hidden_tests


@pytest.mark.parametrize("name", RUN)
def test_its_fix_turns_visible_and_hidden_tests_green(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    runnable(case)
    result = fixed(case, tmp_path)
    judged = judge(case, result, BOX, LIMIT_S)
    assert judged.plausible and judged.solved and not judged.touched
    assert not [path for path in changed(case.repository, result) if protected(path, case.repository)]


def test_a_green_case_is_green() -> None:
    cases = [case for case in CASES.values() if case.expected == "not_reproduced"]
    assert cases
    for case in cases:
        assert green(BOX.run(case.repository, case.command, LIMIT_S), case.tests)


def test_a_flaky_case_does_not_end_the_same_way_each_time() -> None:
    cases = [case for case in CASES.values() if case.expected == "flaky"]
    assert cases
    for case in cases:
        runs = [BOX.run(case.repository, (*case.command, "--tb=no", "-rf"), LIMIT_S).stdout for _ in range(3)]
        assert len({frozenset(re.findall(r"^FAILED (\S+)", output, re.M)) for output in runs}) > 1


def test_a_case_whose_environment_is_incomplete_runs_no_test() -> None:
    cases = [case for case in CASES.values() if case.expected == "environment_error"]
    assert cases
    for case in cases:
        ran = BOX.run(case.repository, case.command, LIMIT_S)
        found = counted(ran)
        assert ran.code not in (0, None) and found and found.passed == 0 and "ModuleNotFoundError" in ran.stdout


def test_what_needs_two_edits_is_not_healed_by_one_of_them(tmp_path: Path) -> None:
    for name in ("roster", "quota"):
        case = CASES[name]
        whole = fixed(case, tmp_path / name)
        halves = changed(case.repository, whole)
        if len(halves) > 1:
            parts = [{**case.repository, path: whole[path]} for path in halves]
        else:
            parts = one_line_each(case.repository, whole, halves[0])
        assert len(parts) == 2
        assert not any(judge(case, part, BOX, LIMIT_S).plausible for part in parts)


def one_line_each(base: Tree, whole: Tree, path: str) -> list[dict[str, bytes]]:
    old, new = base[path].split(b"\n"), whole[path].split(b"\n")
    at = [number for number, (before, after) in enumerate(zip(old, new, strict=True)) if before != after]
    return [{**base, path: b"\n".join([*old[:n], new[n], *old[n + 1:]])} for n in at]


def test_the_file_with_other_line_ends_and_letters_is_kept_so() -> None:
    data = CASES["invoice"].repository["invoice.py"]
    assert data.count(b"\n") == data.count(b"\r\n") > 30
    with pytest.raises(UnicodeDecodeError):
        data.decode("utf-8")


def test_a_mistake_in_a_case_names_file_and_field(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    text = 'command = "pytest"\ntoolchain = "cobol"\nverdict = "fixed"\nkinds = ["x"]\ntests = 1\n'
    (tmp_path / "one" / "case.toml").write_text(text)
    with pytest.raises(OperatorError, match=r"one/case.toml: toolchain: "):
        micro.load(tmp_path)
