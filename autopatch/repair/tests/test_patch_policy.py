"""Tricks in diffs, each refused for what it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopatch.repair.diffs import make_diff, quoted
from autopatch.repair.patch_policy import refusals
from autopatch.repair.tree import Files

TREE = Files({
    "src/calc.py": b"def add(a, b):\n    return a - b\n", "src/run.sh": b"echo 1\n", "src/empty.py": b"",
        "tests/test_calc.py": b"x\n",
    "conftest.py": b"x\n", "setup.cfg": b"x\n", "src/caf\u00e9.py": b"x\n", "code.py": b"x\n",
}, ["src/run.sh"])
FIXED = {**TREE, "src/calc.py": TREE["src/calc.py"].replace(b"a - b", b"a + b")}
GOOD = make_diff(TREE, FIXED)


def new(path: str, content: str = "x = 1\n", mode: str = "100644") -> bytes:
    """A new file as an attacker writes it: no check of the path."""
    a, b = (quoted(f"{side}/{path}") for side in "ab")
    lines = content.splitlines(keepends=True)
    body = "".join("+" + line for line in lines)
    return f"diff --git {a} {b}\nnew file mode {mode}\n--- /dev/null\n+++ {b}\n@@ -0,0 +1,{len(lines)} @@\n{body}".encode()


def edit(path: str, header: str = "") -> bytes:
    """A line of a file of the tree replaced by another, with further header lines."""
    lines = TREE.get(path, b"x\n").splitlines(keepends=True)
    body = b"".join(b"-" + line for line in lines) + b"+y = 1\n"
    a, b = f"a/{path}", f"b/{path}"
    head = f"diff --git {a} {b}\n{header}--- {a}\n+++ {b}\n@@ -1,{len(lines)} +1 @@\n"
    return head.encode() + body


TRICKS: dict[str, tuple[bytes, str]] = {
    "parent folder": (new("../evil.py"), "out of the repository"),
    "parent folder inside of the path": (new("src/../../evil.py"), "out of the repository"),
    "parent folder with backslashes": (new("src\\..\\..\\evil.py"), "out of the repository"),
    "absolute path": (new("/etc/cron.d/evil"), "absolute"),
    "drive letter": (new("C:/evil.py"), "absolute"),
    "path with an empty part": (new("src//evil.py"), "shortest form"),
    "path with a dot part": (new("src/./calc.py"), "shortest form"),
    "git's folder": (new(".git/hooks/pre-commit", mode="100755"), ".git"),
    "git's folder, upper case": (new(".GIT/config"), ".git"),
    "git's folder of a subproject": (new("src/.git/config"), ".git"),
    "git's folder with a dot behind": (new(".git./config"), ".git"),
    "git's folder with a blank behind": (new(".git /config"), ".git"),
    "git's folder as NTFS names it": (new("git~1/config"), ".git"),
    "git's folder as a stream of NTFS": (new(".git::$INDEX_ALLOCATION/config"), ".git"),
    "git's folder with a character that HFS ignores": (new(".g\u200cit/config"), ".git"),
    "git's folder behind a backslash": (new("src\\.git\\config"), ".git"),
    "new symbolic link": (new("src/link", "/etc/passwd\n", "120000"), "symbolic link"),
    "file turned into a symbolic link": (edit("src/calc.py", "old mode 100644\nnew mode 120000\n"), "symbolic link"),
    "file through a symbolic link": (new("link/evil.py"), "folder that the snapshot does not have"),
    "file below a file": (new("src/calc.py/evil.py"), "folder that the snapshot does not have"),
    "file in place of a folder": (new("src"), "is a folder"),
    "submodule": (new("src/sub", "Subproject commit 1\n", "160000"), "submodule"),
    "executable bit set": (edit("src/calc.py", "old mode 100644\nnew mode 100755\n"), "100755"),
    "executable bit taken": (edit("src/run.sh", "old mode 100755\nnew mode 100644\n"), "100644"),
    "executable bit set and nothing else": (b"diff --git a/src/calc.py b/src/calc.py\nold mode 100644\nnew mode 100755\n",
        "100755"),
    "new executable": (new("src/evil.sh", mode="100755"), "100755"),
    "setuid": (new("src/evil", mode="104755"), "mode 104755"),
    "mode in the index line": (edit("src/calc.py", "index 1234567..89abcde 120000\n"), "symbolic link"),
    "rename": (b"diff --git a/src/calc.py b/src/c.py\nsimilarity index 100%\nrename from src/calc.py\nrename to src/c.py\n",
        "not renamed"),
    "copy": (b"diff --git a/src/calc.py b/src/c.py\nsimilarity index 100%\ncopy from src/calc.py\ncopy to src/c.py\n",
        "not renamed"),
    "rename to the same name": (
        b"diff --git a/src/calc.py b/src/calc.py\nrename from tests/test_calc.py\nrename to src/calc.py\n", "only contents"),
    "binary": (b"diff --git a/src/calc.py b/src/calc.py\nindex 1234567..89abcde 100644\nGIT binary patch\nliteral 1\nIcmZ\n\n",
        "only contents"),
    "binary files differ": (b"diff --git a/src/x.so b/src/x.so\nBinary files a/src/x.so and b/src/x.so differ\n",
        "only contents"),
    "NUL in a line": (new("src/evil.py", "x = '\0'\n"), "binary"),
    "names that disagree": (GOOD.replace(b"+++ b/src/calc.py", b"+++ b/tests/test_calc.py"), "was expected"),
    "header names that disagree": (GOOD.replace(b"diff --git a/src/calc.py", b"diff --git a/src/empty.py"), "was expected"),
    "changed test": (edit("tests/test_calc.py"), "belongs to the tests"),
    "new test": (new("tests/test_more.py"), "belongs to the tests"),
    "removed test": (make_diff(TREE, {p: c for p, c in TREE.items() if p != "tests/test_calc.py"}), "belongs to the tests"),
    "conftest.py": (edit("conftest.py"), "steers"),
    "new conftest.py in another folder": (new("src/conftest.py"), "steers"),
    "pytest.ini": (new("pytest.ini", "[pytest]\naddopts = --collect-only\n"), "steers"),
    "setup.cfg": (edit("setup.cfg"), "steers"),
    "pyproject.toml": (new("pyproject.toml"), "steers"),
    "sitecustomize.py": (new("sitecustomize.py"), "steers"),
    "usercustomize.py": (new("src/usercustomize.py"), "steers"),
    "path file": (new("src/evil.pth"), "steers"),
    "plug-in by entry point": (new("src/x.egg-info/entry_points.txt"), "steers"),
    "compiled module": (new("src/calc.so"), "steers"),
    "module in place of pytest": (new("pytest.py"), "steers"),
    "module in place of one of the standard library": (new("src/json.py"), "steers"),
    "package in place of one of the standard library": (new("random.py"), "steers"),
    ".gitattributes": (new(".gitattributes", "*.py filter=evil\n"), "steers"),
    ".gitmodules": (new(".gitmodules"), "steers"),
    "CI": (new(".github/workflows/ci.yml"), "steers"),
    "package.json": (new("package.json"), "steers"),
    ".npmrc": (new(".npmrc"), "steers"),
    "name that differs by case": (new("src/Calc.py"), "by case"),
    "name that differs by Unicode form": (new("src/cafe\u0301.py"), "by case or Unicode"),
    "two new names that differ by case": (new("src/new.py") + new("src/New.py"), "by case"),
    "control characters in a name": (new("src/a\nb.py"), "control characters"),
    "the same file twice": (GOOD + GOOD, "twice"),
    "text in front": (b"From: me\n" + GOOD, "was expected"),
    "text behind": (GOOD + b"-- \n2.39\n", "belongs to no file"),
    "hunk longer than it says": (GOOD.replace(b"+1,2", b"+1,1"), "belongs to no file"),
    "hunk shorter than it says": (GOOD.replace(b"+1,2", b"+1,3"), "a hunk is shorter"),
    "hunk that does not fit": (GOOD.replace(b"-    return a - b", b"-    return a * b"), "does not fit"),
    "hunk at another line": (GOOD.replace(b"@@ -1,2 +1,2", b"@@ -2,2 +2,2"), "does not fit"),
    "new file that is there": (new("src/calc.py"), "there already"),
    "change of a file that is not there": (edit("src/nothing.py"), "not there"),
    "too many bytes": (new("src/big.py", "x = 1\n" * 50_000), "more than"),
    "too many lines": (new("src/big.py", "x = 1\n" * 2_001), "2001 lines"),
    "too many files": (b"".join(new(f"src/n{n}.py") for n in range(21)), "21 files"),
    "a line that nobody reads to its end": (new("src/long.py", "x = 1" + " " * 20_001 + "; import os\n"), "a line of more"),
    "text that runs backwards": (new("src/bidi.py", "x = 1 # \u202e evil\n"), "direction"),
    "header and no change": (b"diff --git a/src/calc.py b/src/calc.py\n", "no hunk"),
    "nothing at all": (b"", "empty"),
    "no diff": (b"rm -rf /\n", "was expected"),
}


def test_there_are_more_tricks_than_were_asked_for() -> None:
    assert len(TRICKS) > 33


@pytest.mark.parametrize("trick", TRICKS)
def test_a_diff_with_a_trick_in_it_is_refused_for_it(trick: str) -> None:
    diff, why = TRICKS[trick]
    reasons = refusals(diff, TREE)
    assert any(why in reason for reason in reasons), reasons
    assert all("\n" not in reason for reason in reasons)


@pytest.mark.parametrize("diff", [
    GOOD, new("src/more.py"), new("more.py"), edit("code.py"), edit("src/run.sh", "index 1234567..89abcde 100755\n"),
    make_diff(TREE, {**TREE, "src/empty.py": b"x\n"}), make_diff(TREE, {p: c for p, c in TREE.items() if p != "src/empty.py"}),
    make_diff(TREE, {**FIXED, "src/caf\u00e9.py": b"# \xe9\r\n"}), new("src/a b (1).py"),
])
def test_an_honest_diff_is_let_through_so_the_tricks_are_refused_for_their_trick(diff: bytes) -> None:
    assert refusals(diff, TREE) == ()


@given(st.data())
def test_a_damaged_diff_is_judged_without_an_error(data: st.DataObject) -> None:
    damaged = bytearray(GOOD)
    for at in data.draw(st.lists(st.integers(0, len(GOOD) - 1), max_size=3)):
        damaged[at] = data.draw(st.integers(0, 255))
    assert all(isinstance(reason, str) for reason in refusals(bytes(damaged), TREE))
