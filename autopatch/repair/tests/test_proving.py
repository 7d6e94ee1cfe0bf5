"""What proves something is never changed, whatever its name is."""

import shlex

import pytest

from autopatch.repair.forgeries import suspicions
from autopatch.repair.paths import is_test, untouchable
from autopatch.repair.proving import for_repair
from autopatch.repair.tree import Files

CHECKS = b'[tool.pytest.ini_options]\npython_files = ["check_*.py"]\n'
MORE = b"[tool:pytest]\npython_files =\n    check_*.py\n    more_*.py\n"
PLUGINS = b'pytest_plugins = ["fix.tures",\n  "more"]\n'
TEST = b"def test_sum():\n    assert want() == 3\n"
CODE = {"wallet.py": b"def put():\n    return 1\n", "src/lib/__init__.py": b"", "src/lib/core.py": b"X = 1\n"}


@pytest.mark.parametrize(("command", "files", "proving"), [
    ("python3 run_all.py", {"run_all.py": b""}, {"run_all.py"}),
    ("python3 ./tools/check.py -v", {"tools/check.py": b""}, {"tools/check.py"}),
    ("sh -c 'cd . && python3 run_all.py'", {"run_all.py": b""}, {"run_all.py"}),
    ("pytest -q check_wallet.py::test_sum", {"check_wallet.py": TEST}, {"check_wallet.py"}),
    ("pytest --doctest-modules wallet.py", {}, set()),
    ("pytest -q --cov wallet", {}, set()),
    ("pytest -q", {"pyproject.toml": CHECKS, "check_a.py": TEST}, {"check_a.py"}),
    ("pytest -q", {"setup.cfg": MORE, "a/more_a.py": TEST}, {"a/more_a.py"}),
    ("pytest -q", {"tox.ini": b"[pytest]\npython_files = *.py\n", "check_a.py": TEST}, {"check_a.py"}),
    ("pytest -o python_files=check_*.py", {"check_a.py": TEST}, {"check_a.py"}),
    ("pytest -q", {"pytest.ini": b"[pytest]\naddopts = -q -p myplug\n", "myplug.py": b""}, {"myplug.py"}),
    ("pytest -pmyplug", {"myplug.py": b""}, {"myplug.py"}),
    ("pytest -q", {"tests/test_a.py": PLUGINS, "fix/tures.py": b"", "more/__init__.py": b""},
     {"fix/tures.py", "more/__init__.py"}),
    ("python3 -m unittest checks -v", {"checks.py": TEST}, {"checks.py"}),
    ("python3 -m unittest lib.checks.T.test_a", {"src/lib/checks.py": TEST}, {"src/lib/checks.py"}),
    ("python3 -m unittest discover -p check*.py", {"checks.py": TEST}, {"checks.py"}),
    ("python3 -m selfcheck", {"selfcheck/__main__.py": b""}, {"selfcheck/__main__.py"}),
    ("npm test", {"package.json": b'{"scripts": {"test": "node check.mjs"}}', "check.mjs": b""}, {"check.mjs"}),
    ("npm test", {"package.json": b"{"}, set()),
    ("pytest -q", {"pytest.ini": b"nothing", "pyproject.toml": b"[", "setup.cfg": b"\xff["}, set()),
    ("pytest -q", {"pytest.ini": b"python_files = check_*.py\n", "check_a.py": TEST}, {"check_a.py"}),
    ('pytest -q "', {}, set()),
])
def test_what_the_command_or_its_settings_name(command: str, files: dict[str, bytes], proving: set[str]) -> None:
    words = command.split() if command.endswith('"') else shlex.split(command)
    tree = for_repair(Files({**CODE, **files}, {"wallet.py"}), words)
    assert set(tree.fixed) == proving and tree.executable == {"wallet.py"}
    assert all(untouchable(path, tree) == "belongs to the tests" for path in proving)
    assert untouchable("wallet.py", tree) == ""
    assert set(tree.changed({"wallet.py": b"", "new.py": b""}).fixed) == proving


@pytest.mark.parametrize("name", ["wallet_test.mjs", "a_test.cjs", "a-test.cts", "test-a.mts", "test.cjs", "a.test.tsx"])
def test_names_that_node_takes_for_tests(name: str) -> None:
    assert is_test(f"lib/{name}")


def test_how_a_program_asks_whether_it_is_run_is_not_turned_around() -> None:
    before = b'if __name__ == "__main__":\n    main()\n'
    assert suspicions("run.py", before, before.replace(b"==", b"!="))
    assert suspicions("run.py", before, before.replace(b"main()", b"main(1)")) == ()
