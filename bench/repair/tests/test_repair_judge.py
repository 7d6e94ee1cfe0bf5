"""What is believed of a result: its own tests do not count, and neither does an exit code."""

from pathlib import Path

import pytest

from autopatch.contract.errors import OperatorError
from bench.repair.box import ProcessBox
from bench.repair.case import Case, changed_lines, read, restored, write
from bench.repair.counting import Counts, counts
from bench.repair.judge import is_green, judge

COMMAND = ("python3", "-m", "pytest", "-q")
CASE = Case(
    id="one", command=COMMAND, tests=1, expected="fixed",
    repository={
        "calc.py": b"def add(a, b):\n    return a - b\n",
        "tests/test_calc.py": b"from calc import add\n\n\ndef test_it():\n    assert add(2, 2) == 4\n",
    },
    hidden={"hidden_tests/test_more.py": b"from calc import add\n\n\ndef test_more():\n    assert add(2, 3) == 5\n"},
    hidden_command=(*COMMAND, "hidden_tests"), hidden_tests=1,
)
BOX = ProcessBox()


def judged(**files: bytes | None) -> tuple[bool, bool]:
    tree = {**CASE.repository, **{name.replace("__", "/") + ".py": data for name, data in files.items()}}
    found = judge(CASE, {path: data for path, data in tree.items() if data is not None}, BOX, 60)
    return found.plausible, found.solved


def test_a_right_fix_is_solved() -> None:
    assert judged(calc=b"def add(a, b):\n    return a + b\n") == (True, True)


def test_a_fix_for_the_visible_test_alone_is_overfit() -> None:
    assert judged(calc=b"def add(a, b):\n    return 4\n") == (True, False)


def test_nothing_changed_is_not_plausible() -> None:
    assert judged() == (False, False)


def test_changed_tests_are_put_back() -> None:
    assert judged(tests__test_calc=b"def test_it():\n    pass\n") == (False, False)


def test_removed_tests_are_put_back() -> None:
    assert judged(tests__test_calc=None, calc=b"def add(a, b):\n    return a + b\n") == (True, True)


@pytest.mark.parametrize("code", [
    b"import os\nos._exit(0)\n", b"raise SystemExit(0)\n", b"print('1 passed in 0.01s')\nimport os\nos._exit(1)\n",
])
def test_an_exit_code_or_a_line_alone_is_not_believed(code: bytes) -> None:
    assert judged(calc=code) == (False, False)


def test_a_file_that_steers_pytest_is_taken_out() -> None:
    tree = {**CASE.repository, "conftest.py": b"import os\nos._exit(0)\n"}
    found = judge(CASE, tree, BOX, 60)
    assert (found.plausible, found.touched, found.diff_lines) == (False, ("conftest.py",), 0)


def test_an_endless_loop_ends_at_the_limit() -> None:
    tree = {**CASE.repository, "calc.py": b"def add(a, b):\n    while True:\n        pass\n"}
    assert not judge(CASE, tree, BOX, 2).plausible


def test_memory_is_bounded() -> None:
    tree = {**CASE.repository, "calc.py": b"def add(a, b):\n    x = bytearray(4 * 1024**3)\n    return a + b\n"}
    assert not judge(CASE, tree, BOX, 30).plausible


def test_the_disk_and_the_network_are_out_of_reach(tmp_path: Path) -> None:
    if BOX.name != "a sealed process":
        pytest.skip("this machine gives no namespaces")
    code = f"""
import socket
for path in ("{tmp_path}/x", "/etc/x"):
    try:
        open(path, "w")
        print("written", path)
    except OSError:
        pass
try:
    socket.create_connection(("127.0.0.1", 1), 1)
except ConnectionRefusedError:
    print("loopback of this machine")
except OSError:
    pass
print("end")
"""
    assert BOX.run({"x.py": code.encode()}, ("python3", "x.py"), 30).stdout == "end\n"
    assert not list(tmp_path.iterdir())


def test_red_and_green_are_told_apart() -> None:
    assert not is_green(CASE, BOX, 60)


def test_only_tests_and_steering_files_are_restored() -> None:
    base = {"a.py": b"1", "tests/t.py": b"1", "pyproject.toml": b"1"}
    added = {"b.py": b"2", "tests/new.py": b"2", "hidden_tests/x.py": b"2", "sitecustomize.py": b"2"}
    result = {"a.py": b"2", "tests/t.py": b"2", **added}
    assert restored(base, result) == {"a.py": b"2", "b.py": b"2", "tests/t.py": b"1", "pyproject.toml": b"1"}


def test_changed_line_ends_are_changed_lines() -> None:
    assert changed_lines({"a": b"1\n2\n3\n"}, {"a": b"1\n9\n3\n"}) == 2
    assert changed_lines({"a": b"1\r\n2\r\n"}, {"a": b"1\n2\n"}) == 4
    assert changed_lines({"a": b"1\n"}, {}) == 1


def test_links_and_caches_are_not_read(tmp_path: Path) -> None:
    write({"a.py": b"1", "x/__pycache__/a.txt": b"1", ".aider.tags/x": b"1"}, tmp_path)
    (tmp_path / "link").symlink_to("/etc/passwd")
    assert read(tmp_path) == {"a.py": b"1"}


def test_a_path_that_leads_elsewhere_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(OperatorError):
        write({"../x": b""}, tmp_path)


@pytest.mark.parametrize(("output", "found"), [
    ("..\n2 passed in 0.01s\n", Counts(2, 0)),
    ("====== 1 failed, 4 passed, 1 warning in 3.20s ======\n", Counts(4, 1)),
    ("1 error in 0.10s\n", Counts(0, 1)),
    ("3 passed, 1 skipped in 1.00s (0:00:01)\n", Counts(3, 0)),
    ("no tests ran in 0.01s\n", None),
    ("Ran 3 tests in 0.001s\n\nOK\n", Counts(3, 0)),
    ("Ran 3 tests in 0.001s\n\nFAILED (failures=1, errors=1)\n", Counts(1, 2)),
    ("Ran 3 tests in 0.001s\n\nOK (skipped=1)\n", Counts(2, 0)),
    ("# tests 3\n# pass 2\n# fail 1\n# cancelled 0\n", Counts(2, 1)),
    ("ℹ pass 4\nℹ fail 0\nℹ cancelled 1\n", Counts(4, 1)),
    ("Segmentation fault\n", None),
])
def test_a_runners_summary_is_read(output: str, found: Counts | None) -> None:
    assert counts(output) == found
