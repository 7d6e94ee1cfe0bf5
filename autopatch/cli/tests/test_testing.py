"""How tests are run, guessed from the files there are, or taken as a person says it."""

import json

import pytest

from autopatch.cli.testing import guessed, said, unfolded
from autopatch.contract.errors import OperatorError

PYTEST, NODE = ("python3", "-m", "pytest", "-q"), ("node", "--test")
UNIT = b"import unittest\nclass T(unittest.TestCase):\n    def test_x(self): ...\n"


@pytest.mark.parametrize(("files", "command", "toolchain"), [
    ({"tests/test_a.py": b"def test_x(): ...\n"}, PYTEST, "python"),
    ({"a_test.py": b"import pytest\n"}, PYTEST, "python"),
    ({"conftest.py": b""}, PYTEST, "python"),
    ({"pyproject.toml": b"[tool.pytest.ini_options]\n", "check.py": UNIT}, PYTEST, "python"),
    ({"test_a.py": UNIT, "test_b.py": b"def test_y(): ...\n"}, PYTEST, "python"),
    ({"test_a.py": UNIT}, ("python", "-m", "unittest", "discover"), "python"),
    ({"tests/test_a.py": UNIT}, ("python", "-m", "unittest", "discover", "-s", "tests"), "python"),
    ({"tests/test_a.py": UNIT, "tests/__init__.py": b""},
     ("python", "-m", "unittest", "discover", "-s", "tests", "-t", "."), "python"),
    ({"a.test.mjs": b"", "a.mjs": b""}, NODE, "node"),
    ({"test/a.js": b"", "package.json": b"{}"}, NODE, "node"),
    ({"x.js": b"", "package.json": json.dumps({"scripts": {"test": "node --test"}}).encode()}, NODE, "node"),
    ({"test/a.js": b"", "package.json": json.dumps({"scripts": {"test": "echo no test specified"}}).encode()}, NODE, "node"),
])
def test_the_command_follows_from_the_files(files: dict[str, bytes], command: tuple[str, ...], toolchain: str) -> None:
    found = guessed(files, None)
    assert (found.command, found.toolchain) == (command, toolchain) and found.why


@pytest.mark.parametrize(("files", "says"), [
    ({"a.py": b"", "README.md": b""}, "no tests"),
    ({"package.json": json.dumps({"scripts": {"test": "jest"}}).encode(), "a.test.js": b""}, "'jest'"),
    ({"test_a.py": b"def test_x(): ...\n", "a.test.js": b""}, "both python3 -m pytest -q and node --test"),
])
def test_what_cannot_be_guessed_is_asked_for(files: dict[str, bytes], says: str) -> None:
    with pytest.raises(OperatorError, match=says) as asked:
        guessed(files, None)
    assert "--test" in asked.value.tip


def test_a_toolchain_decides_between_two() -> None:
    files = {"test_a.py": b"def test_x(): ...\n", "a.test.js": b""}
    assert guessed(files, "node").command == NODE and guessed(files, "python").command == PYTEST


@pytest.mark.parametrize(("said_", "script", "command"), [
    ("npm test", "node --test", "node --test"), ("npm run test", "node --test spec/", "node --test spec/"),
    ("npm test", "node --test && eslint", "npm test"), ("npm test", "jest", "npm test"),
    ("npm run lint", "node --test", "npm run lint"),
])
def test_npm_test_is_what_its_script_says(said_: str, script: str, command: str) -> None:
    files = {"package.json": json.dumps({"scripts": {"test": script}}).encode()}
    found = unfolded(said(said_, None), files)
    assert (" ".join(found.command), found.toolchain) == (command, "node") and bool(found.why) == (command != said_)


def test_what_a_person_says_is_taken_word_by_word() -> None:
    assert said("pytest -q 'tests/a b.py'", None).command == ("pytest", "-q", "tests/a b.py")
    assert said("/usr/bin/node --test", None).toolchain == "node" and said("make check", None).toolchain == "python"
    assert said("make check", "node").toolchain == "node"
    for wrong in ("", "  ", "pytest 'x"):
        with pytest.raises(OperatorError, match="--test"):
            said(wrong, None)
