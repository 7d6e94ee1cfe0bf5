"""Diffs that git takes, byte by byte, and that are read as git reads them."""

import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autopatch.contract.errors import ContractError
from autopatch.repair.diffs import apply_diff, make_diff, parse_diff
from autopatch.repair.tree import Files

NUMBERS = b"".join(b"%d\n" % n for n in range(40))


def put(folder: Path, tree: Mapping[str, bytes]) -> None:
    for path, content in tree.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
        (folder / path).chmod(0o755 if isinstance(tree, Files) and path in tree.executable else 0o644)


def git_applies(before: Mapping[str, bytes], diff: bytes) -> dict[str, bytes]:
    """What the tree is after a real `git apply`; modes that change fail."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        put(folder, before)
        for extra in (["--check"], []):
            done = subprocess.run(["git", "apply", *extra, "-"], cwd=folder, input=diff, capture_output=True, check=False)
            assert done.returncode == 0, (done.stderr, diff)
            assert done.stderr == b"" or b"whitespace" in done.stderr
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        if isinstance(before, Files):
            assert all(bool(f.stat().st_mode & 0o100) == (str(f.relative_to(folder)) in before.executable) for f in files)
        return {str(path.relative_to(folder)): path.read_bytes() for path in files}


CHANGES: dict[str, tuple[Mapping[str, bytes], Mapping[str, bytes]]] = {
    "a line": ({"a.py": NUMBERS}, {"a.py": NUMBERS.replace(b"20\n", b"x\n")}),
    "two places far apart": ({"a.py": NUMBERS}, {"a.py": NUMBERS.replace(b"5\n", b"x\n", 1).replace(b"30\n", b"")}),
    "two places close together": ({"a.py": NUMBERS}, {"a.py": NUMBERS.replace(b"10\n", b"x\n").replace(b"17\n", b"y\n")}),
    "the first and the last line": ({"a.py": NUMBERS}, {"a.py": b"x\n" + NUMBERS + b"y\n"}),
    "CRLF": ({"a.py": NUMBERS.replace(b"\n", b"\r\n")}, {"a.py": NUMBERS.replace(b"20\n", b"x\n").replace(b"\n", b"\r\n")}),
    "mixed ends": ({"a.py": b"1\n2\r\n3\r4\n"}, {"a.py": b"1\n2\r\n3\r5\n"}),
    "no newline at the end, before": ({"a.py": b"1\n2"}, {"a.py": b"1\n2\n"}),
    "no newline at the end, after": ({"a.py": b"1\n2\n"}, {"a.py": b"1\n2"}),
    "no newline at the end, both": ({"a.py": b"1\n2"}, {"a.py": b"1\n3"}),
    "no newline at the end, not touched": ({"a.py": b"1\n2\n3"}, {"a.py": b"0\n2\n3"}),
    "Latin-1": ({"a.py": b"# caf\xe9\nx\n"}, {"a.py": b"# caf\xe9\ny \xe9\n"}),
    "a byte order mark": ({"a.py": b"\xef\xbb\xbfx\ny\n"}, {"a.py": b"\xef\xbb\xbfx\nz\n"}),
    "a form feed and a line separator": (
        {"a.py": "a\x0cb\u2028c\x1cd\nx\n".encode()}, {"a.py": "a\x0cb\u2028c\x1cd\ny\n".encode()}),
    "emptied": ({"a.py": b"x\n"}, {"a.py": b""}),
    "filled": ({"a.py": b""}, {"a.py": b"x\n"}),
    "new": ({"a.py": b"x\n"}, {"a.py": b"x\n", "d/b.py": b"y\n"}),
    "new and empty": ({"a.py": b"x\n"}, {"a.py": b"x\n", "b.py": b""}),
    "removed": ({"a.py": b"x\n", "b.py": b"y"}, {"a.py": b"x\n"}),
    "removed and empty": ({"a.py": b"x\n", "b.py": b""}, {"a.py": b"x\n"}),
    "a blank in the name": ({"a b.py": b"x\n"}, {"a b.py": b"y\n", "c d.py": b"z\n"}),
    "an odd name": ({'a"\\\t\n\x01\u00e9\u20ac(1).py': b"x\n"}, {'a"\\\t\n\x01\u00e9\u20ac(1).py': b"y\n"}),
    "lines that look like a diff": ({"a": b"--- x\n+++ y\n@@ -1 +1 @@\n"}, {"a": b"-- x\n++ y\n@@ -2 +2 @@\n\\ No newline\n"}),
    "an executable": (Files({"run": b"x\n"}, ["run"]), {"run": b"y\n"}),
    "an executable removed": (Files({"run": b"x\n", "a": b""}, ["run"]), {"a": b""}),
    "names in git's order": ({"b": b"1\n", "a/b": b"1\n", "a.b": b"1\n"}, {"b": b"2\n", "a/b": b"2\n", "a.b": b"2\n"}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_git_makes_the_same_tree_of_a_diff(name: str) -> None:
    before, after = CHANGES[name]
    diff = make_diff(before, after)
    assert git_applies(before, diff) == after
    changed = {path: content for path, content in {**before, **apply_diff(diff, before)}.items() if content is not None}
    assert changed == after


@pytest.mark.parametrize("name", CHANGES)
def test_a_diff_is_the_one_that_git_makes(name: str) -> None:
    before, after = CHANGES[name]
    with tempfile.TemporaryDirectory() as where:
        folder = Path(where)

        def git(*command: str) -> bytes:
            who = ["-c", "user.name=x", "-c", "user.email=x@x", "-c", "core.autocrlf=false", "-c", "core.safecrlf=false"]
            return subprocess.run(["git", *who, *command], cwd=folder, check=True, capture_output=True).stdout

        git("init", "-q")
        put(folder, before)
        git("add", "-A")
        first = git("write-tree").decode().strip()
        for path in before:
            (folder / path).unlink()
        put(folder, Files(after, before.executable) if isinstance(before, Files) else after)
        git("add", "-A")
        second = git("write-tree").decode().strip()
        theirs = git("diff", "--full-index", "--no-renames", "--no-ext-diff", "--no-indent-heuristic", first, second)
    assert make_diff(before, after) == re.sub(rb"(?m)^(@@ .*? @@) .*$", rb"\1", theirs)


LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"\n", b"c\r\n", b"\xe9\n", b"- d\n", b"+\n",
        b"\\ No newline at end of file\n", b"e\r"]), max_size=14)
CONTENTS = st.builds(lambda lines, end: b"".join(lines) + end, LINES, st.sampled_from([b"", b"f", b"\r"]))
PATHS = st.text("ab \u00e9\"\\'\t.-", min_size=1, max_size=4).map(lambda name: f"d/x{name}y")


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(PATHS, st.tuples(CONTENTS, CONTENTS), min_size=1, max_size=3), st.data())
def test_whatever_the_trees_git_turns_one_into_the_other(pairs: dict[str, tuple[bytes, bytes]], data: st.DataObject) -> None:
    before = Files({path: pair[0] for path, pair in pairs.items()}, data.draw(st.sets(st.sampled_from(sorted(pairs)))))
    after = {path: pair[1] for path, pair in pairs.items()}
    gone = data.draw(st.sets(st.sampled_from(sorted(pairs))))
    new = data.draw(st.dictionaries(PATHS, CONTENTS, max_size=1))
    after = {**{path: content for path, content in after.items() if path not in gone}, **new}
    diff = make_diff(before, after)
    assert apply_diff(diff, before) == {p: after.get(p) for p in {*before, *after} if before.get(p) != after.get(p)}
    if diff:
        assert git_applies(before, diff) == after
    assert [file.path for file in parse_diff(diff)] == sorted((p for p in {*before, *after} if before.get(p) != after.get(p)),
        key=str.encode)


GOOD = make_diff({"a.py": NUMBERS}, {"a.py": NUMBERS.replace(b"20\n", b"x\n")})
DAMAGED = {
    "text in front": b"hello\n" + GOOD, "text behind": GOOD + b"hello\n",
        "cut off": GOOD[:-4], "a count too high": GOOD.replace(b"18,7 +18,7", b"18,8 +18,8"),
    "a count too low": GOOD.replace(b"18,7 +18,7", b"18,6 +18,6"), "a hunk's header": GOOD.replace(b"@@ -18", b"@@ -x"),
    "another name after ---": GOOD.replace(b"--- a/a.py", b"--- a/b.py"), "another name after +++": GOOD.replace(b"+++ b/a.py",
        b"+++ b/b.py"),
    "no a/": GOOD.replace(b"a/a.py", b"a.py"), "a name that is not UTF-8": GOOD.replace(b"a.py", b"\xff.py"),
    "an open quote": GOOD.replace(b"a/a.py b", b'"a/a.py b'), "an odd escape": GOOD.replace(b"a/a.py b/a.py",
        b'"a/\\q.py" "b/\\q.py"'),
    "no git header": GOOD.partition(b"index")[2].partition(b"\n")[2], "no newline in the middle": GOOD.replace(b" 17\n",
        b" 17\n\\ No newline at end of file\n"),
    "another context": GOOD.replace(b" 17\n", b" 77\n"), "twice": GOOD + GOOD, "another start": GOOD.replace(b"-18,7", b"-19,7"),
    "another new start": GOOD.replace(b"+18,7", b"+19,7"), "not there": GOOD.replace(b"a.py", b"b.py"),
    "new, but there": GOOD.replace(b"index", b"new file mode 100644\nindex").replace(b"--- a/a.py", b"--- /dev/null"),
    "a mode": GOOD.replace(b"index", b"old mode 100644\nnew mode 100755\nindex"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_diff_that_is_damaged_or_does_not_fit_is_refused(name: str) -> None:
    assert DAMAGED[name] != GOOD
    with pytest.raises(ContractError, match="a diff of files"):
        apply_diff(DAMAGED[name], {"a.py": NUMBERS})


@given(st.data())
def test_a_diff_with_a_byte_changed_is_read_or_refused_and_nothing_else(data: st.DataObject) -> None:
    damaged = bytearray(GOOD)
    for at in data.draw(st.lists(st.integers(0, len(GOOD) - 1), max_size=3)):
        damaged[at] = data.draw(st.integers(0, 255))
    try:
        apply_diff(bytes(damaged), {"a.py": NUMBERS})
    except ContractError as error:
        assert "\n" not in str(error)


def test_a_large_file_is_compared_at_once() -> None:
    content = b"".join(b"%d\n\n" % n for n in range(20000))
    assert make_diff({"a": content}, {"a": content.replace(b"\n9999\n", b"\nx\n")}).count(b"\n") < 16


@pytest.mark.parametrize("path", ["../a", "/a", ".git/a", "a//b"])
def test_no_diff_is_made_for_a_path_that_git_would_not_take(path: str) -> None:
    with pytest.raises(ContractError):
        make_diff({}, {path: b"x"})
