"""pytest's tests, told one by one as they end. Outcomes are put together from what each phase raised."""

import faulthandler
import os
import random
import sys
import time
from typing import Any, Callable, Dict, Generator, List, Optional

import pytest
from _pytest._io.saferepr import saferepr

from .tracing import Tracer

Send = Callable[[Dict[str, Any]], None]
ROOT = "/work/repository"
MESSAGE = 2000
VALUE = 500
_PROBLEMS = {3: "pytest failed internally", 4: "pytest does not take this command", 5: "no tests were collected"}


def run(wanted: Dict[str, Any], send: Send, stack: int) -> int:
    """pytest's exit code."""
    command = wanted["command"]
    arguments = command[3:] if command[1:2] == ["-m"] else command[1:]
    if command[1:2] == ["-m"]:
        sys.path.insert(0, os.getcwd())
    sys.argv = ["pytest", *arguments]
    told = Told(wanted, send, stack)
    extra = ["-p", "no:cacheprovider", "--continue-on-collection-errors"]
    code = int(pytest.main([*arguments, *extra], plugins=[told]))
    if not told.begun:
        send({"problem": told.trouble or _PROBLEMS.get(code, "no test was run")})
    return code


class Told:
    """A pytest plugin."""

    def __init__(self, wanted: Dict[str, Any], send: Send, stack: int) -> None:
        self._send, self._stack = send, stack
        self._only, self._skip = frozenset(wanted["only"]), frozenset(wanted["skip"])
        self._files = frozenset(test.split("::")[0] for test in wanted["only"])
        self._first_failure, self._seed, self._test_s = wanted["first_failure"], wanted["run"], wanted["test_s"]
        self._tracer = None  # type: Optional[Tracer]
        if wanted["coverage"]:
            self._tracer = Tracer(ROOT)
        self._case = {}  # type: Dict[str, Any]
        self._compared = None  # type: Optional[List[str]]
        self.begun, self.trouble = False, ""

    def pytest_ignore_collect(self, collection_path: Any, config: Any) -> Optional[bool]:
        """Files of which no test is wanted are not read."""
        if not self._files or collection_path.is_dir() or collection_path.name == "__init__.py":
            return None
        path = os.path.relpath(str(collection_path), str(config.rootpath)).replace(os.sep, "/")
        return None if path in self._files else True

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: Any, items: List[Any]) -> None:
        """Only what is wanted, and not what is known."""
        left = [i for i in items if i.nodeid not in self._skip and (not self._only or i.nodeid in self._only)]
        config.hook.pytest_deselected(items=[i for i in items if i not in left])
        items[:] = left

    def pytest_collectreport(self, report: Any) -> None:
        """A module that can't be imported is a case of its own."""
        if report.failed and report.nodeid not in self._skip:
            message = str(report.longrepr)
            last = [line for line in message.splitlines() if line.startswith("E ")] or message.splitlines()[-1:]
            error = " ".join(line[2:].strip() for line in last)[:MESSAGE]
            self.trouble = self.trouble or "%s could not be collected: %s" % (report.nodeid, error)
            self._send({"case": {"id": report.nodeid, "outcome": "error", "message": error, "frames": _shown(message)}})

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: Any) -> Generator[None, None, None]:
        """From the first fixture to the last."""
        self.begun = True
        self._case = {"id": item.nodeid, "outcome": "passed", "message": "", "frames": []}
        random.seed(self._seed)
        self._send({"at": item.nodeid})
        begun = time.monotonic()
        faulthandler.dump_traceback_later(self._test_s, file=self._stack)
        if self._tracer:
            self._tracer.start()
        yield
        if self._tracer:
            self._send({"covered": {"test": item.nodeid, "lines": self._tracer.stop()}})
        faulthandler.cancel_dump_traceback_later()
        self._case["seconds"] = round(time.monotonic() - begun, 4)
        self._send({"case": self._case})
        if self._first_failure and self._case["outcome"] != "passed":
            item.session.shouldstop = "first failure"

    def pytest_assertrepr_compare(self, op: str, left: object, right: object) -> None:
        """The values of the comparison that failed last."""
        self._compared = [_short(left), _short(right)] if op == "==" else None

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Generator[None, Any, None]:
        """One phase has ended."""
        outcome = yield
        report = outcome.get_result()
        case, compared = self._case, self._compared
        self._compared = None
        if report.outcome == "skipped" and case["outcome"] == "passed":
            case["outcome"] = "skipped"
        if report.outcome == "failed" and case["outcome"] in ("passed", "skipped"):
            case["outcome"] = "failed" if report.when == "call" else "error"
            case["message"] = str(call.excinfo.exconly() if call.excinfo else report.longrepr)[:MESSAGE]
            if call.excinfo:
                case["frames"] = frames(call.excinfo.tb)
                compared = compared or _unittest_values(call.excinfo.tb)
            if compared:
                case["actual"], case["expected"] = compared


def frames(traceback: Any) -> List[Dict[str, Any]]:
    """Those in the repository, innermost last."""
    found = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_filename.startswith(ROOT + "/"):
            found.append({"path": code.co_filename[len(ROOT) + 1 :], "line": traceback.tb_lineno, "function": code.co_name})
        traceback = traceback.tb_next
    return found[-40:]


def _unittest_values(traceback: Any) -> Optional[List[str]]:
    """first and second of a unittest assertion."""
    found = None
    while traceback is not None:
        frame = traceback.tb_frame
        if frame.f_globals.get("__name__") == "unittest.case" and "first" in frame.f_locals and "second" in frame.f_locals:
            found = found or [_short(frame.f_locals["first"]), _short(frame.f_locals["second"])]
        traceback = traceback.tb_next
    return found


def _shown(text: str) -> List[Dict[str, Any]]:
    """Frames in the repository, read from a printed traceback such as `a.py:3: in f`."""
    found = []
    for line in text.splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3 and parts[1].isdigit() and os.path.isfile(os.path.join(ROOT, parts[0])):
            found.append({"path": os.path.relpath(os.path.join(ROOT, parts[0]), ROOT), "line": int(parts[1]), "function": ""})
    return found[-40:]


def _short(value: object) -> str:
    return str(saferepr(value, maxsize=VALUE))
