"""A diff delivered: to the folder that was named however it was named, to a file beside the rest, and told as far as it came."""

import os
from pathlib import Path

import pytest

from autopatch.cli.asking import Result
from autopatch.cli.delivering import Delivered, Wishes, apply, deliver
from autopatch.cli.repair import AUTO
from autopatch.cli.snapshot import take
from autopatch.cli.tests.test_repair import CODE, DIFF, FIXED, git
from autopatch.cli.tests.test_repair import calc as calc
from autopatch.contract.code import RepairVerdict
from autopatch.contract.errors import OperatorError, Refused, StaleTarget

ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
RESULT = Result(RepairVerdict(verdict="fixed", reason="tests pass", incident="calc-1", repository="calc"), DIFF)
PLACES = ("calc.py", "sub/calc.py", "sub/sub/calc.py")


@pytest.fixture
def nested(calc: Path) -> Path:
    """A repository with the same file at three depths, and a link to the middle one."""
    for place in PLACES[1:]:
        (calc / place).parent.mkdir()
        (calc / place).write_text(CODE)
    (calc / ".git" / "info" / "exclude").write_text("link\n")
    (calc / "link").symlink_to("sub")
    return calc


def changed(folder: Path) -> list[str]:
    return [place for place in PLACES if (folder / place).read_text() != CODE]


@pytest.mark.parametrize(("path", "lands"), [("calc.py", "sub/calc.py"), ("sub/calc.py", "sub/sub/calc.py")])
@pytest.mark.parametrize(("cwd", "named"), [(".", "sub"), ("sub", "."), ("sub", ""), (".", "link"), ("sub/sub", ".."), ("/", "")])
def test_apply_changes_the_folder_that_was_named_however_it_was_named(
    nested: Path, monkeypatch: pytest.MonkeyPatch, cwd: str, named: str, path: str, lands: str
) -> None:
    monkeypatch.chdir(nested / cwd)
    folder = nested / "sub" if cwd == "/" else Path(named)
    apply(DIFF.replace(b"calc.py", path.encode()), take(folder, ENVIRONMENT), ENVIRONMENT)
    assert changed(nested) == [lands] and (nested / lands).read_text() == FIXED


def test_apply_works_below_a_folder_whose_name_holds_a_colon(nested: Path) -> None:
    renamed = nested.rename(nested.with_name("a:b"))
    apply(DIFF, take(renamed / "sub", ENVIRONMENT), ENVIRONMENT)
    assert changed(renamed) == ["sub/calc.py"]


@pytest.mark.parametrize("attributes", ["*.py text eol=crlf\n", "*.py ident\n", "*.py -text\n"])
def test_apply_writes_the_bytes_that_were_proven_whatever_git_converts(calc: Path, attributes: str) -> None:
    (calc / ".gitattributes").write_text(attributes)
    mixed = CODE.encode() + b"NAME = '$Id: x $'\r\n"
    (calc / "calc.py").write_bytes(mixed)
    longer = DIFF.replace(b"@@ -1,2 +1,2 @@", b"@@ -1,3 +1,3 @@") + b" NAME = '$Id: x $'\r\n"
    apply(longer, take(calc, ENVIRONMENT), ENVIRONMENT)
    assert (calc / "calc.py").read_bytes() == FIXED.encode() + b"NAME = '$Id: x $'\r\n"


def test_a_git_that_applies_nothing_and_says_nothing_is_found_out(calc: Path, tmp_path: Path) -> None:
    idle = tmp_path / "bin" / "git"
    idle.parent.mkdir()
    real = f"PATH='{os.environ['PATH']}' exec git"
    idle.write_text(f'#!/bin/sh\nfor word; do [ "$word" = apply ] && exit 0; done\n{real} "$@"\n')
    idle.chmod(0o755)
    with pytest.raises(OperatorError, match=r"calc\.py is not what the fix makes of it") as error:
        apply(DIFF, take(calc, ENVIRONMENT), {**ENVIRONMENT, "PATH": f"{idle.parent}:{os.environ['PATH']}"})
    assert "--output" in error.value.tip


def test_the_file_may_lie_in_the_tree_that_is_changed(calc: Path) -> None:
    done, wishes = Delivered(), Wishes(output=calc / "fix.diff", apply=True, branch="fix")
    deliver(wishes, RESULT, take(calc, ENVIRONMENT), ENVIRONMENT, done)
    assert (calc / "fix.diff").read_bytes() == DIFF and (calc / "calc.py").read_text() == FIXED
    assert done == Delivered(str(calc / "fix.diff"), True, "fix", git(calc, "rev-parse", "fix"))


def test_the_file_is_written_also_where_the_rest_is_refused(calc: Path, tmp_path: Path) -> None:
    git(calc, "branch", "mine")
    taken, done = take(calc, ENVIRONMENT), Delivered()
    with pytest.raises(Refused, match="branch mine"):
        deliver(Wishes(output=tmp_path / "x.diff", branch="mine", apply=True), RESULT, taken, ENVIRONMENT, done)
    assert done == Delivered(str(tmp_path / "x.diff")) and (tmp_path / "x.diff").read_bytes() == DIFF
    (calc / "calc.py").write_text(CODE + "\n")
    with pytest.raises(StaleTarget):
        deliver(Wishes(output=tmp_path / "y.diff", apply=True), RESULT, taken, ENVIRONMENT, Delivered())
    assert (tmp_path / "y.diff").read_bytes() == DIFF


@pytest.mark.parametrize(("output", "says"), [
    ("", "is a folder"), ("calc", "calc is a folder"), ("none/x.diff", "none is not a folder"),
    ("calc/calc.py/x.diff", "calc.py is not a folder"),
])
def test_a_file_that_could_not_be_written_is_refused_before_anything_begins(calc: Path, output: str, says: str) -> None:
    with pytest.raises(OperatorError, match=f"--output: .*{says}") as error:
        Wishes(output=calc.parent / output).check(take(calc, ENVIRONMENT), ENVIRONMENT)
    assert error.value.tip


@pytest.mark.parametrize("output", ["gone/x.diff", "x" * 300])
def test_a_file_that_cannot_be_written_in_the_end_is_the_persons_mistake_and_the_rest_is_done(calc: Path, output: str) -> None:
    done, wishes = Delivered(), Wishes(output=calc.parent / output, apply=True, branch="fix")
    with pytest.raises(OperatorError, match="--output: .*: (No such file|File name too long)"):
        deliver(wishes, RESULT, take(calc, ENVIRONMENT), ENVIRONMENT, done)
    assert done == Delivered("", True, "fix", git(calc, "rev-parse", "fix"))


@pytest.mark.parametrize(("branch", "there", "says"), [
    ("bad name", "", "cannot be the name"), ("-x", "", "cannot be the name"),
    ("fix", "fix", "branch fix is at [0-9a-f]{12} already"),
    (AUTO, "autopatch", "branch autopatch is at [0-9a-f]{12} already"), ("a/b", "a", "a/b: branch a is at"),
])
def test_a_branch_that_could_not_be_made_is_refused_at_once(calc: Path, branch: str, there: str, says: str) -> None:
    if there:
        git(calc, "branch", there)
    with pytest.raises(OperatorError, match=says) as error:
        Wishes(branch=branch).check(take(calc, ENVIRONMENT), ENVIRONMENT)
    assert error.value.tip
    Wishes(branch="free").check(take(calc, ENVIRONMENT), ENVIRONMENT)
