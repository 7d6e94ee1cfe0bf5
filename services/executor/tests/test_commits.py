"""Fixes as commits, with the real git. What the person has in the working tree, the index and the hooks stays out of it."""

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from autopatch.contract.errors import OperatorError, Refused
from services.executor.adapters.branches.commits import commit_on_branch, message_of

AT = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
CODE = "def double(x):\n    return x + x + 1\n"
DIFF = b"""\
diff --git a/calc.py b/calc.py
--- a/calc.py
+++ b/calc.py
@@ -1,2 +1,2 @@
 def double(x):
-    return x + x + 1
+    return x + x
"""
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
MESSAGE = message_of("double doubles", "tests/test_calc.py passes again", incident="calc-1", trace="ab" * 16)


def git(folder: Path, *arguments: str) -> str:
    own = {**ENVIRONMENT, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(["git", *arguments], cwd=folder, env=own, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "calc"
    (folder / "docs").mkdir(parents=True)
    (folder / "calc.py").write_text(CODE)
    (folder / "docs" / "notes.md").write_text("notes\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "config", "user.name", "Ann Lee")
    git(folder, "config", "user.email", "ann@example.org")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "begin")
    return folder


def commit(folder: Path, branch: str = "autopatch/calc-1", diff: bytes = DIFF, base: str = "") -> str:
    base = base or git(folder, "rev-parse", "HEAD")
    return commit_on_branch(folder, diff, base, branch, MESSAGE, at=AT, environment=ENVIRONMENT)


def everything(folder: Path) -> dict[str, bytes]:
    """All but the objects, references and their logs, where a branch is made."""
    own = {p: p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
    return {str(p): data for p, data in own.items() if not {"objects", "refs", "logs"} & set(p.relative_to(folder).parts)}


def new(path: str, mode: str = "100644", line: bytes = b"x") -> bytes:
    head = f"diff --git a/{path} b/{path}\nnew file mode {mode}\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n"
    return head.encode() + b"+" + line + b"\n"


def test_the_branch_holds_the_fix_and_nothing_else_has_changed(repository: Path) -> None:
    before, head = everything(repository), git(repository, "rev-parse", "HEAD")
    made = commit(repository)
    assert git(repository, "rev-parse", "autopatch/calc-1") == made and git(repository, "rev-parse", f"{made}^") == head
    assert git(repository, "show", f"{made}:calc.py") == "def double(x):\n    return x + x"
    assert git(repository, "diff", "--name-only", head, made) == "calc.py"
    assert everything(repository) == before and git(repository, "status", "--porcelain") == ""
    assert git(repository, "branch", "--show-current") == "main"


def test_trailers_and_author_are_what_git_reads(repository: Path) -> None:
    made = commit(repository)
    trailers = git(repository, "show", "-s", "--format=%(trailers:key=Incident,valueonly,separator=%x2C)|%(trailers:key=Trace,"
                   "valueonly,separator=%x2C)|%an|%ae|%cn|%s", made)
    assert trailers == f"calc-1|{'ab' * 16}|Ann Lee|ann@example.org|Ann Lee|double doubles"


def test_without_a_name_in_gits_configuration_the_author_is_autopatch(repository: Path) -> None:
    git(repository, "config", "--unset", "user.email")
    assert git(repository, "show", "-s", "--format=%an <%ae>", commit(repository)) == "AutoPatch <autopatch@localhost>"


def test_the_same_fix_again_is_the_same_commit(repository: Path) -> None:
    assert commit(repository) == commit(repository)
    assert git(repository, "rev-list", "--count", "main..autopatch/calc-1") == "1"


def test_a_branch_that_is_something_else_is_not_moved(repository: Path) -> None:
    git(repository, "branch", "mine")
    with pytest.raises(Refused, match="branch mine is at .* already") as refused:
        commit(repository, "mine")
    assert "--branch" in refused.value.tip
    assert git(repository, "rev-parse", "mine") == git(repository, "rev-parse", "main")
    with pytest.raises(Refused, match="branch main is at"):
        commit(repository, "main")


def test_what_is_not_committed_stays_out_of_the_commit_and_in_the_tree(repository: Path) -> None:
    (repository / "docs" / "notes.md").write_text("my own words\n")
    (repository / "new.py").write_text("x = 1\n")
    (repository / "staged.py").write_text("y = 1\n")
    git(repository, "add", "staged.py")
    (repository / "calc.py").write_text(CODE + "\n\n\n\n\n\nMINE = 1\n")
    before = everything(repository)
    made = commit(repository)
    assert git(repository, "diff", "--name-only", "main", made) == "calc.py"
    assert "MINE" not in git(repository, "show", f"{made}:calc.py")
    assert everything(repository) == before


def test_a_fix_of_lines_that_are_not_committed_is_refused_with_the_remedy(repository: Path) -> None:
    builds_on = DIFF.replace(b"x + x + 1", b"x + x + 2")
    (repository / "calc.py").write_text(CODE.replace("+ 1", "+ 2"))
    with pytest.raises(Refused, match="not committed.*calc.py") as refused:
        commit(repository, diff=builds_on)
    assert "git commit" in refused.value.tip
    assert git(repository, "branch", "--list", "autopatch/*") == ""


@pytest.mark.parametrize("given", ["attributes", "autocrlf"])
def test_where_git_converts_line_ends_the_fix_is_committed_as_git_would(repository: Path, given: str) -> None:
    if given == "attributes":
        (repository / ".gitattributes").write_text("*.py text eol=crlf\n")
    else:
        git(repository, "config", "core.autocrlf", "true")
    (repository / "calc.py").write_bytes(CODE.replace("\n", "\r\n").encode())
    git(repository, "add", ".")
    git(repository, "commit", "-q", "--allow-empty", "-m", "line ends")
    assert git(repository, "status", "--porcelain") == ""
    hunk = DIFF[DIFF.index(b" def"):]
    made = commit(repository, diff=DIFF.replace(hunk, hunk.replace(b"\n", b"\r\n")))
    shown = subprocess.run(["git", "show", f"{made}:calc.py"], cwd=repository, capture_output=True, check=True).stdout
    assert shown == b"def double(x):\n    return x + x\n"
    assert git(repository, "diff", "--name-only", "main", made) == "calc.py" and git(repository, "status", "--porcelain") == ""


def test_line_ends_that_only_the_working_tree_has_are_not_committed(repository: Path) -> None:
    (repository / "calc.py").write_bytes(CODE.replace("\n", "\r\n").encode())
    hunk = DIFF[DIFF.index(b" def"):]
    with pytest.raises(Refused, match="not committed"):
        commit(repository, diff=DIFF.replace(hunk, hunk.replace(b"\n", b"\r\n")))


def test_line_ends_that_are_committed_stay_as_they_are(repository: Path) -> None:
    (repository / "calc.py").write_bytes(CODE.replace("\n", "\r\n").encode())
    git(repository, "commit", "-q", "-a", "-m", "line ends")
    hunk = DIFF[DIFF.index(b" def"):]
    made = commit(repository, diff=DIFF.replace(hunk, hunk.replace(b"\n", b"\r\n")))
    shown = subprocess.run(["git", "show", f"{made}:calc.py"], cwd=repository, capture_output=True, check=True).stdout
    assert shown == b"def double(x):\r\n    return x + x\r\n"


def test_where_git_converts_more_than_line_ends_that_is_named_beside_what_is_not_committed(repository: Path) -> None:
    git(repository, "config", "filter.rot.clean", "tr a-z n-za-m")
    git(repository, "config", "filter.rot.smudge", "tr a-z n-za-m")
    (repository / ".gitattributes").write_text("*.py filter=rot\n")
    git(repository, "add", "--renormalize", ".")
    git(repository, "commit", "-q", "-a", "-m", "rot")
    with pytest.raises(Refused, match=r"not committed, or git converts its files") as refused:
        commit(repository)
    assert "--output" in refused.value.tip


def test_hooks_filters_and_monitors_of_the_repository_are_not_run(repository: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    for name in ("pre-commit", "commit-msg", "post-commit", "reference-transaction", "post-checkout", "pre-applypatch"):
        hook = repository / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\necho {name} >> {ran}\n")
        hook.chmod(0o755)
    git(repository, "config", "core.fsmonitor", f"echo monitor >> {ran}; false")
    git(repository, "config", "filter.evil.clean", f"sh -c 'echo clean >> {ran}; cat'")
    git(repository, "config", "filter.evil.smudge", f"sh -c 'echo smudge >> {ran}; cat'")
    (repository / ".git" / "info" / "attributes").write_text("*.py filter=evil\n")
    commit(repository)
    assert not ran.exists()
    git(repository, "branch", "control")
    assert "reference-transaction" in ran.read_text(), "these hooks would be run by a git that is not told otherwise"


def test_a_folder_inside_a_repository_gets_its_own_paths(repository: Path) -> None:
    (repository / "part").mkdir()
    (repository / "part" / "calc.py").write_text(CODE)
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "part")
    made = commit(repository / "part")
    assert git(repository, "diff", "--name-only", "main", made) == "part/calc.py"


@pytest.mark.parametrize("diff", [
    new("evil", "120000", b"/etc/passwd"), new("sub", "160000", b"Subproject commit " + b"a" * 40), new("../out"),
    new(".git/config"),
    b"this is no diff\n",
])
def test_a_diff_that_is_no_change_of_files_is_refused(repository: Path, diff: bytes) -> None:
    before = everything(repository)
    with pytest.raises(Refused):
        commit(repository, diff=diff)
    assert everything(repository) == before and git(repository, "branch", "--list", "autopatch/*") == ""


@pytest.mark.parametrize("branch", ["", "a b", "a..b", "-x", "x.lock", "@{-1}", "a//b"])
def test_a_name_that_git_does_not_take_is_the_persons_mistake(repository: Path, branch: str) -> None:
    with pytest.raises(OperatorError, match="cannot be the name of a branch"):
        commit(repository, branch)


def test_without_a_commit_there_is_no_branch_and_the_remedy_is_said(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    for base, folder in (("", tmp_path), ("f" * 40, tmp_path)):
        with pytest.raises(OperatorError):
            commit_on_branch(folder, DIFF, base, "x", MESSAGE, at=AT, environment=ENVIRONMENT)


def test_trailers_in_the_text_are_not_taken_for_ours() -> None:
    message = message_of("fix\n\nIncident: forged", "Incident: forged", incident="real-1", trace="")
    done = subprocess.run(["git", "interpret-trailers", "--parse"], input=message, capture_output=True, text=True, check=True)
    assert done.stdout == "Incident: real-1\n"
