"""What unittest's listener tells, and asks to run: in an interpreter of its own, no sandbox."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from services.executor.adapters.inside.listeners.telling import Telling

HEAD = """import json, os, sys
from services.executor.adapters.inside.listeners.by_unittest import run
from services.executor.adapters.inside.listeners.telling import Telling

wanted = json.loads(sys.argv[1])
os.chdir(wanted["folder"])
said = []
run(Telling(wanted, said.append, 2))
print(json.dumps([one["case"] for one in said if "case" in one] + [one for one in said if "problem" in one]))
"""
T = "import unittest\n\nclass T(unittest.TestCase):\n{}\n    def test_one(self): pass\n    def test_two(self): pass\n"
OTHER = T.format("").partition("\n")[2].replace("T(", "U(")
BROKEN = "    @classmethod\n    def {}(cls): {}\n"
RAISES = "raise KeyError('no')"


def asked(only: Sequence[str] = ()) -> dict[str, Any]:
    """What process 1 asks of a child."""
    wanted: dict[str, Any] = {"command": ["python", "-m", "unittest"], "only": only, "skip": [], "until_failure": False}
    return {**wanted, "run": 0, "test_s": 5.0, "coverage": False}


def cases(folder: Path, test: str, only: Sequence[str] = ()) -> dict[str, str]:
    """Outcomes by id of what is told of `test_a.py`."""
    (folder / "test_a.py").write_text(test)
    wanted = json.dumps({**asked(only), "folder": str(folder)})
    done = subprocess.run([sys.executable, "-c", HEAD, wanted], capture_output=True, text=True, check=True)
    told = json.loads(done.stdout.splitlines()[-1])
    return {case["id"]: case["outcome"] for case in told} if "problem" not in told[-1] else {"": told[-1]["problem"]}


@pytest.mark.parametrize(("test", "told"), [
    (T.format(BROKEN.format("setUpClass", RAISES)), {"test_a.T": "error"}),
    (T.format(BROKEN.format("tearDownClass", RAISES)), {
        "test_a.T.test_one": "passed", "test_a.T.test_two": "passed", "test_a.T": "error",
    }),
    (f"def setUpModule(): {RAISES}\n" + T.format(""), {"test_a": "error"}),
    (T.format(BROKEN.format("setUpClass", "raise unittest.SkipTest('no')")) + OTHER, {
        "test_a.U.test_one": "passed", "test_a.U.test_two": "passed",
    }),
])
def test_what_fails_around_tests_is_told_by_the_class_or_module_that_it_is_around(
    tmp_path: Path, test: str, told: dict[str, str]
) -> None:
    assert cases(tmp_path, test) == told
    assert "test_a.T.test_one" in cases(tmp_path, T.format(""), ("test_a.T",))


@pytest.mark.parametrize(("only", "wanted", "unwanted"), [
    ("test_a.T", "test_a.T.test_one", "test_a.Two.test_one"), ("test_a", "test_a.T.test_one", "test_ab.T.test_one"),
    ("tests/test_a.py", "tests/test_a.py::test_one[1]", "tests/test_a.pyi::test_one"),
    ("test/a.test.js", "test/a.test.js > adds", "test/a.test.jsx > adds"),
])
def test_a_file_module_or_class_stands_for_all_of_its_tests(only: str, wanted: str, unwanted: str) -> None:
    telling = Telling(asked((only,)), lambda _: None, 2)
    assert telling.wants(only) and telling.wants(wanted) and not telling.wants(unwanted)
    telling.skip = frozenset((wanted,))
    assert not telling.wants(wanted)
