"""What process 1 sees of a child: its reports, its output, its time. Nothing that a child says ends a run in anything but its own report."""

import json
import os
import re
import selectors
import time
from typing import Any, Dict, List, Optional, Sequence

OUTPUT = 8 * 1024
"""Bytes of output that are kept from the start, and as many from the end."""
LINE = 4 * 1024 * 1024
RESTARTS = 40
_STACK = re.compile(r'File "/work/repository/(.+)", line (\d+) in (\S+)')
_SLACK_S = 0.3
_READY = 3
"""A candidate has so many times a test's limit from start to first test, and from test to test."""


class Watch:
    """One run, over as many children as it takes."""

    def __init__(self, test_s: float, deadline: float, patient: bool) -> None:
        self._test_s, self._deadline, self._patient = test_s, deadline, patient
        self._cases = {}  # type: Dict[str, Dict[str, Any]]
        self._covered = {}  # type: Dict[str, Dict[str, Any]]
        self._children = 0
        self._ended, self._code = "lost", None  # type: str, Optional[int]
        self._problem = ""
        self._changed = []  # type: List[str]
        self._output = Kept()
        self.again = False

    def known(self) -> List[str]:
        """Tests that need not be run again."""
        return list(self._cases)

    def follow(self, pid: int, reports: int, output: int, stack: int, token: str) -> None:
        """Until the child has ended or has been given up."""
        self._children += 1
        self._at, self._since, self._finished = "", time.monotonic(), False
        self._token, self._rest, self._stack = token.encode() + b" ", b"", b""
        self._fds = {reports: self._report, output: self._output.add, stack: self._add_stack}
        with selectors.DefaultSelector() as selector:
            for fd in self._fds:
                os.set_blocking(fd, False)
                selector.register(fd, selectors.EVENT_READ)
            status = self._until_the_end(pid, selector)
        for fd in self._fds:
            self._read(fd)
            os.close(fd)
        self._judge(status)

    def report(self) -> Dict[str, Any]:
        """A Report but for trial, run and seconds; `changed` names parts of the test tool that are not what they were."""
        cases = list(self._cases.values())
        return {
            "ended": self._ended, "exit_code": self._code, "cases": cases, "problem": self._problem, "covered": list(self._covered.values()),
            "output": self._output.text(), "changed": self._changed,
        }

    def _until_the_end(self, pid: int, selector: selectors.BaseSelector) -> Optional[int]:
        """Its wait status; None when it was given up."""
        while True:
            for key, _ in selector.select(0.01):
                if not self._read(key.fd):
                    selector.unregister(key.fd)
            gone, status = os.waitpid(pid, os.WNOHANG)
            if gone:
                return status
            now = time.monotonic()
            if self._finished and now - self._since > 1:
                return 0
            if now >= self._deadline or (not self._finished and now - self._since > self._limit() + _SLACK_S):
                return None

    def _limit(self) -> float:
        if self._at:
            return self._test_s
        return float("inf") if self._patient else _READY * self._test_s

    def _read(self, fd: int) -> bool:
        try:
            data = os.read(fd, 1 << 16)
            while data:
                self._fds[fd](data)
                data = os.read(fd, 1 << 16)
        except BlockingIOError:
            return True
        return False

    def _add_stack(self, data: bytes) -> None:
        self._stack = (self._stack + data)[: 1 << 16]

    def _report(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if not line.startswith(self._token):
                self._tampered()
                continue
            try:
                self._heard(json.loads(line[len(self._token) :]))
            except (ValueError, KeyError, TypeError, AttributeError):
                self._tampered()
        if len(self._rest) > LINE:
            self._rest = b""
            self._tampered()

    def _tampered(self) -> None:
        self._problem = self._problem or "the code wrote to the channel of the test reports"

    def _heard(self, said: Dict[str, Any]) -> None:
        if self._finished:
            self._tampered()
        self._since = time.monotonic()
        if "at" in said:
            self._at = str(said["at"])
        if "case" in said:
            case = said["case"]
            if case["id"] in self._cases:
                case = {**case, "outcome": "error", "message": "it was reported more than once"}
            self._cases[case["id"]] = case
            self._at = ""
        if "covered" in said:
            self._covered[said["covered"]["test"]] = said["covered"]
        self._problem = self._problem or str(said.get("problem", ""))
        if "end" in said:
            self._finished, self._code, self._changed = True, said["end"], [str(name) for name in said["changed"]]

    def _judge(self, status: Optional[int]) -> None:
        self.again = False
        if self._finished:
            self._ended = "finished"
            return
        late = time.monotonic() >= self._deadline
        if status is None and (late or not self._at):
            self._ended = "timed_out"
            self._give_up("timed_out", "the run took longer than it may")
            if not late:
                self._problem = self._problem or f"no test was begun in {_READY * self._test_s:g} s"
            return
        if status is None:
            self._give_up("timed_out", f"took longer than {self._test_s:g} s")
        else:
            why = _how(status)
            self._ended = "out_of_memory" if why.startswith("out of memory") else "lost"
            if not self._at:
                self._problem = self._problem or f"the tests' process ended before its tests did ({why})"
                return
            self._give_up("error", f"the tests' process ended while it ran ({why})")
        self.again = self._children < RESTARTS
        if not self.again:
            self._ended, self._problem = "lost", f"{RESTARTS} tests ended their process or took too long"

    def _give_up(self, outcome: str, message: str) -> None:
        if self._at:
            seconds = round(time.monotonic() - self._since, 3)
            frames = stack_frames(self._stack.decode(errors="replace"))
            self._cases[self._at] = {"id": self._at, "outcome": outcome, "message": message, "frames": frames, "seconds": seconds}


def stack_frames(text: str) -> List[Dict[str, Any]]:
    """Frames in the repository of what faulthandler wrote, innermost last; of the thread that it shows last, the main one."""
    thread = text.split("\n\n")[-1]
    found = [{"path": path, "line": int(line), "function": name} for path, line, name in _STACK.findall(thread)]
    return found[::-1][-40:]


def all_passed(report: Dict[str, Any], only: Sequence[str]) -> bool:
    """Did everything that was to run pass?"""
    outcomes = {case["id"]: case["outcome"] for case in report["cases"]}
    if report["problem"] or report["ended"] != "finished" or not outcomes:
        return False
    if only:
        return all(outcomes.get(test) == "passed" for test in only)
    return all(outcome in ("passed", "skipped") for outcome in outcomes.values())


class Kept:
    """Head and tail of an output."""

    def __init__(self) -> None:
        self._head, self._tail, self._dropped = b"", b"", 0

    def add(self, data: bytes) -> None:
        """One more piece."""
        room = OUTPUT - len(self._head)
        self._head += data[:room]
        tail = self._tail + data[room:]
        self._dropped += max(0, len(tail) - OUTPUT)
        self._tail = tail[-OUTPUT:]

    def text(self) -> str:
        """With a line that says what was left out."""
        gap = b"\n[%d bytes left out]\n" % self._dropped if self._dropped else b""
        return (self._head + gap + self._tail).decode(errors="replace")


def _how(status: int) -> str:
    if os.WIFEXITED(status):
        return "exit code %d" % os.WEXITSTATUS(status)
    number = os.WTERMSIG(status)
    return "out of memory, or killed" if number == 9 else "signal %d" % number
