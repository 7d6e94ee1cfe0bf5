"""What the listeners of pytest and unittest share: one test at a time, from its begin to its end, with time, frames and lines."""

from __future__ import annotations

import faulthandler
import gc
import os
import random
import re
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from .tracing import Tracer

Send = Callable[[dict[str, Any]], None]
ROOT = "/work/repository"
MESSAGE = 2000
VALUE = 500
FRAMES = 40
COMMAND = "command"
"""The id of the one test that a command without tests of its own is."""
_STACK = re.compile(r'File "/work/repository/(.+)", line (\d+) in (\S+)')


class Telling:
    """`wanted` is what process 1 asks of this child. A test that was begun and not ended is the one that a run ended in."""

    def __init__(self, wanted: dict[str, Any], send: Send, stack: int) -> None:
        self.send, self._stack = send, stack
        self.command: list[str] = wanted["command"]
        self.only: frozenset[str] = frozenset(wanted["only"])
        self.skip: frozenset[str] = frozenset(wanted["skip"])
        self.until_failure, self._seed, self.test_s = wanted["until_failure"], wanted["run"], wanted["test_s"]
        self.case: dict[str, Any] = {"id": ""}
        self.told, self.bad = 0, 0
        self.coverage: bool = wanted["coverage"]
        self._tracer = Tracer(ROOT) if self.coverage else None
        if self._tracer:
            self._tracer.start()

    def wants(self, test: str) -> bool:
        """Is it to be run here?"""
        return test not in self.skip and (not self.only or any(within(test, one) for one in self.only))

    def begin(self, test: str) -> None:
        """From the first fixture on."""
        if not self.case["id"]:
            gc.enable()
            self._tell_lines()
        self.case = {"id": test, "outcome": "passed", "message": "", "frames": []}
        random.seed(self._seed)
        self.send({"at": test})
        self._begun = time.monotonic()
        faulthandler.dump_traceback_later(self.test_s, file=self._stack)
        if self._tracer:
            signal.signal(signal.SIGALRM, lambda *_: self._tell_lines())
            signal.setitimer(signal.ITIMER_REAL, self.test_s)
            self._tracer.start()

    def end(self) -> bool:
        """To the last fixture. True when nothing more is to be run."""
        if self._tracer:
            self._tracer.stop()
            signal.setitimer(signal.ITIMER_REAL, 0)
            self._tell_lines()
        faulthandler.cancel_dump_traceback_later()
        self.case["seconds"] = round(time.monotonic() - self._begun, 4)
        self.tell(self.case)
        return bool(self.until_failure and self.case["outcome"] != "passed")

    def tell(self, case: dict[str, Any]) -> None:
        """One case."""
        self.told += 1
        self.bad += case["outcome"] not in ("passed", "skipped")
        self.send({"case": case})

    def failed(self, outcome: str, message: str, traceback: Any = None, values: list[str] | None = None) -> None:
        """The test that runs has failed or erred; the first reason stays. `values`: actual and expected."""
        if self.case["outcome"] in ("failed", "error"):
            return
        self.case.update(outcome=outcome, message=message[:MESSAGE], frames=frames(traceback))
        if values := values or compared(traceback):
            self.case["actual"], self.case["expected"] = values

    def skipped(self) -> None:
        """Unless it failed already."""
        if self.case.get("outcome") == "passed":
            self.case["outcome"] = "skipped"

    def _tell_lines(self) -> None:
        if self._tracer:
            self.send({"covered": {"test": self.case["id"], "lines": self._tracer.lines()}})


def within(test: str, whole: str) -> bool:
    """Is it this very test, or one of this file, module or class?"""
    return test == whole or test.startswith((f"{whole}::", f"{whole} > ", f"{whole}."))


def frames(traceback: Any) -> list[dict[str, Any]]:
    """Those in the repository, innermost last."""
    found = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_filename.startswith(ROOT + "/"):
            found.append({"path": code.co_filename[len(ROOT) + 1 :], "line": traceback.tb_lineno, "function": code.co_name})
        traceback = traceback.tb_next
    return found[-FRAMES:]


def stack_frames(text: str) -> list[dict[str, Any]]:
    """The same of what faulthandler wrote; of the thread that it shows last, the main one."""
    found = _STACK.findall(text.split("\n\n")[-1])
    return [{"path": path, "line": int(line), "function": name} for path, line, name in reversed(found)][-FRAMES:]


def compared(traceback: Any) -> list[str] | None:
    """First and second argument of a unittest assertion."""
    while traceback is not None:
        frame = traceback.tb_frame
        if frame.f_globals.get("__name__") == "unittest.case" and {"first", "second"} <= set(frame.f_locals):
            return [short(frame.f_locals["first"]), short(frame.f_locals["second"])]
        traceback = traceback.tb_next
    return None


def short(value: object) -> str:
    """Its repr, whatever that does, head and tail."""
    with Caught() as caught:
        text = repr(value)
    if caught.error is not None:
        return f"<{type(value).__name__} that cannot be shown>"
    return text if len(text) <= VALUE else text[: VALUE // 2] + "..." + text[-VALUE // 2 :]


class Caught:
    """Keeps what its block raises, even the end of the program: code of a repository may raise anything."""

    def __init__(self) -> None:
        self.error: BaseException | None = None

    def __enter__(self) -> Caught:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> bool:
        self.error = error
        return True


def front(folder: str) -> None:
    """Where `python -m` and `python FILE` look first."""
    sys.path.insert(0, os.path.abspath(folder))
