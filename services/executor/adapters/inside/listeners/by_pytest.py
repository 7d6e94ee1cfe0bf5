"""pytest's tests, told one by one as they end."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from typing import Any
from collections.abc import Generator

import pytest

from .telling import FRAMES, MESSAGE, ROOT, Telling, front, short

_PROBLEMS = {3: "pytest failed internally", 4: "pytest does not take this command", 5: "no tests were collected"}


def run(telling: Telling) -> int:
    """pytest's exit code."""
    arguments = telling.command[1:]
    if arguments[:1] == ["-m"]:
        arguments = arguments[2:]
        front(".")
    sys.argv = ["pytest", *arguments]
    told = Told(telling)
    style = ["--tb=native"] if telling.until_failure else []
    code = int(pytest.main([*arguments, "-p", "no:cacheprovider", "--continue-on-collection-errors", *style], plugins=[told]))
    if not told.begun and not telling.skip:
        telling.send({"problem": told.trouble or _PROBLEMS.get(code, "no test was run")})
    return code


def warm() -> None:
    """Runs a failing test of our own once, so that every part of pytest that a run takes is in memory."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "test_autopatch_warm.py")
        with open(path, "w") as file:
            file.write("def test():\n    assert 1 == 2\n")
        with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
            pytest.main(["-q", "-p", "no:cacheprovider", "--rootdir", folder, path], plugins=[])
        sys.modules.pop("test_autopatch_warm", None)
        sys.path[:] = [entry for entry in sys.path if entry != folder]


class Told:
    """A pytest plugin."""

    def __init__(self, telling: Telling) -> None:
        self._telling = telling
        self._files = frozenset(test.split("::")[0] for test in telling.only)
        self._compared: list[str] | None = None
        self._codes: dict[str, Any] = {}
        self.begun, self.trouble = False, ""

    def pytest_ignore_collect(self, collection_path: Any, config: Any) -> bool | None:
        """Files of which no test is wanted are not read."""
        if not self._files or collection_path.is_dir() or collection_path.name == "__init__.py":
            return None
        path = os.path.relpath(str(collection_path), str(config.rootpath)).replace(os.sep, "/")
        return None if path in self._files else True

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        """Only what is wanted, and not what is known."""
        left = [item for item in items if self._telling.wants(item.nodeid)]
        config.hook.pytest_deselected(items=[item for item in items if item not in left])
        items[:] = left
        self._codes = {item.nodeid: _code(item) for item in items}

    def pytest_collectreport(self, report: Any) -> None:
        """A module that can't be imported is a case of its own."""
        if report.failed and report.nodeid not in self._telling.skip:
            text = str(report.longrepr)
            last = [line[2:].strip() for line in text.splitlines() if line.startswith("E ")] or text.splitlines()[-1:]
            error = " ".join(last)[:MESSAGE]
            self.trouble = self.trouble or f"{report.nodeid} could not be collected: {error}"
            self._telling.tell({"id": report.nodeid, "outcome": "error", "message": error, "frames": _printed(text)})

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: Any) -> Generator[None, None, None]:
        """From the first fixture to the last."""
        self.begun = True
        if _code(item) is not self._codes.get(item.nodeid):
            self._telling.send({"problem": f"the code changes the test {item.nodeid}"})
        self._telling.begin(item.nodeid)
        yield
        if self._telling.end():
            item.session.shouldfail = "first failure"

    def pytest_assertrepr_compare(self, op: str, left: object, right: object) -> None:
        """The values of the comparison that failed last."""
        self._compared = [short(left), short(right)] if op == "==" else None

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Generator[None, Any, None]:
        """One phase has ended."""
        report = (yield).get_result()
        values, self._compared = self._compared, None
        if report.outcome == "skipped":
            self._telling.skipped()
        elif report.outcome == "failed":
            what = "failed" if report.when == "call" else "error"
            if call.excinfo:
                self._telling.failed(what, call.excinfo.exconly(), call.excinfo.tb, values)
            else:
                self._telling.failed(what, str(report.longrepr))


def _code(item: Any) -> Any:
    function = getattr(item, "obj", None)
    return getattr(getattr(function, "__func__", function), "__code__", None)


def _printed(text: str) -> list[Any]:
    """Frames in the repository, read from a printed traceback such as `a.py:3: in f`."""
    parts = [line.split(":", 2) for line in text.splitlines()]
    there = [p for p in parts if len(p) == 3 and p[1].isdigit() and os.path.isfile(os.path.join(ROOT, p[0]))]
    return [{"path": os.path.relpath(os.path.join(ROOT, p[0]), ROOT), "line": int(p[1]), "function": ""} for p in there][-FRAMES:]
