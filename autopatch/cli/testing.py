"""How a repository's tests are run, where nobody says it."""

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import PurePosixPath

from autopatch.contract.code import Toolchain
from autopatch.contract.errors import OperatorError
from autopatch.repair.tree import Tree

TIP = 'say how its tests are run, such as --test "pytest -q"'
_NODE = re.compile(r"(^|/)((test|tests|__tests__)/.*|test-[^/]*|test|[^/]*[._-]test)\.(js|mjs|cjs|ts|mts|cts)$")
_NPM = (("npm", "test"), ("npm", "t"), ("npm", "run", "test"))
_PYTHON = re.compile(r"(^|/)(test_[^/]*|[^/]*_test|tests?)\.py$")
_PYTEST = re.compile(r"^\s*(import pytest|from pytest)|^(async )?def test_", re.M)


@dataclass(frozen=True)
class Tests:
    """A command, what it needs to run, and why it was taken; `why` is '' where a person said it."""

    command: tuple[str, ...]
    toolchain: Toolchain
    why: str = ""


def said(command: str, toolchain: Toolchain | None) -> Tests:
    """What a person gave with --test. Raises OperatorError."""
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise OperatorError(f"--test: {error}", tip="close the quotes") from None
    if not words:
        raise OperatorError("--test: is empty", tip=TIP)
    node = PurePosixPath(words[0]).name in ("node", "npm", "npx", "yarn", "pnpm")
    return Tests(words, toolchain or ("node" if node else "python"))


def unfolded(tests: Tests, files: Tree) -> Tests:
    """`npm test` as the `node --test` that it is, of which each test is told by itself; anything else as it was."""
    script = _script(files)
    plain = script.startswith("node --test") and not re.search(r"[|&;<>$`'\"\\\n]", script)
    return Tests(tuple(script.split()), "node", "npm's script says so") if tests.command in _NPM and plain else tests


def guessed(files: Tree, toolchain: Toolchain | None) -> Tests:
    """pytest, unittest or node --test, by the files there are. Raises OperatorError when none or more than one fits."""
    found = [tests for tests in (_python(files), _node(files)) if tests and toolchain in (None, tests.toolchain)]
    if not found:
        raise OperatorError("no tests were found that pytest, unittest or `node --test` would run", tip=TIP)
    if len(found) > 1:
        commands = " and ".join(" ".join(tests.command) for tests in found)
        raise OperatorError(f"both {commands} would run tests here", tip=TIP)
    return found[0]


def _node(files: Tree) -> Tests | None:
    script = _script(files)
    if script and "node --test" not in script:
        raise OperatorError(f"package.json runs its tests by {script!r}, not by `node --test`", tip=TIP)
    tests = [path for path in files if _NODE.search(path)]
    if not tests and not script:
        return None
    return Tests(("node", "--test"), "node", "package.json says so" if script else f"{tests[0]} is a test")


def _script(files: Tree) -> str:
    if "package.json" not in files:
        return ""
    try:
        script = json.loads(files["package.json"])["scripts"]["test"]
    except (ValueError, KeyError, TypeError):
        return ""
    return "" if not isinstance(script, str) or "no test specified" in script else script


def _python(files: Tree) -> Tests | None:
    tests = [path for path in files if _PYTHON.search(path)]
    if configured := _configured(files):
        return Tests(("python3", "-m", "pytest", "-q"), "python", f"{configured} configures pytest")
    if not tests:
        return None
    texts = {path: files[path].decode(errors="replace") for path in tests}
    if any(_PYTEST.search(text) for text in texts.values()) or not any("unittest" in text for text in texts.values()):
        return Tests(("python3", "-m", "pytest", "-q"), "python", f"{tests[0]} is a test")
    folder = PurePosixPath(tests[0]).parent
    start = () if str(folder) == "." else ("-s", str(folder), *(("-t", ".") if f"{folder}/__init__.py" in files else ()))
    return Tests(("python", "-m", "unittest", "discover", *start), "python", f"{tests[0]} uses unittest and nothing pytest")


def _configured(files: Tree) -> str:
    if found := next((name for name in ("pytest.ini", ".pytest.ini", "conftest.py", "tests/conftest.py") if name in files), ""):
        return found
    sections = {"pyproject.toml": b"[tool.pytest", "setup.cfg": b"[tool:pytest]", "tox.ini": b"[pytest]"}
    return next((name for name, section in sections.items() if name in files and section in files[name]), "")
