"""What process 1 sees of a child: its reports, its output, its time. What a child says can end no other run than its own."""

from __future__ import annotations

import json
import os
import selectors
import time
from collections.abc import Sequence
from typing import Any

from .listeners.telling import COMMAND, stack_frames, within

OUTPUT = 8 * 1024
"""Bytes of output that are kept from the start, and as many from the end."""
REPORTS = 16 * 1024 * 1024
"""Bytes that the reports of one child may have."""
RESTARTS = 40
_WORST = ("error", "timed_out", "failed", "skipped", "passed")
_SLACK_S = 0.3
_START_S = 10
_READY = 3
"""A candidate has so many times a test's limit from start to first test, and from test to test, and `_START_S` at least."""


class Watch:
    """One run, over as many children as it takes. `patient`: the time before its first test counts to the whole run only."""

    def __init__(self, test_s: float, deadline: float, patient: bool, until_failure: bool) -> None:
        self._test_s, self._deadline, self._patient, self.until_failure = test_s, deadline, patient, until_failure
        self._cases: dict[str, dict[str, Any]] = {}
        self._covered: dict[str, dict[str, Any]] = {}
        self._ended, self._problem = "lost", ""
        self._code: int | None = None
        self._changed: list[str] = []
        self._output = Kept()
        self._children = 0
        self.again = False

    def known(self) -> list[str]:
        """Tests that need not be run again."""
        return list(self._cases)

    def fail(self, problem: str) -> None:
        """There is nothing to follow."""
        self._ended, self._problem, self.again = "lost", problem, False

    def follow(self, pid: int, reports: int, output: int, stack: int, token: str) -> None:
        """Until the child has ended or has been given up."""
        self._children += 1
        self._at, self._since, self._finished = "", time.monotonic(), False
        self._token, self._rest, self._stack, self._size = token.encode() + b" ", b"", b"", 0
        self._sinks = {reports: self._report, output: self._output.add, stack: self._add_stack}
        with selectors.DefaultSelector() as selector:
            for fd in self._sinks:
                os.set_blocking(fd, False)
                selector.register(fd, selectors.EVENT_READ)
            status = self._until_the_end(pid, selector)
        for fd in self._sinks:
            self._read(fd)
            os.close(fd)
        self._judge(status)

    def report(self) -> dict[str, Any]:
        """A Report but for trial, run and seconds; `changed` names parts of the test tool that are not what they were."""
        return {
            "ended": self._ended, "exit_code": self._code, "cases": list(self._cases.values()), "problem": self._problem,
            "covered": list(self._covered.values()), "output": self._output.text(), "changed": self._changed,
        }

    def _until_the_end(self, pid: int, selector: selectors.BaseSelector) -> int | None:
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
        return float("inf") if self._patient else max(_START_S, _READY * self._test_s)

    def _read(self, fd: int) -> bool:
        """A little at a time: who writes without end must not keep us from the clock."""
        for _ in range(16):
            try:
                data = os.read(fd, 1 << 16)
            except BlockingIOError:
                return True
            if not data:
                return False
            self._sinks[fd](data)
        return True

    def _add_stack(self, data: bytes) -> None:
        self._stack = (self._stack + data)[: 1 << 16]

    def _report(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > REPORTS:
            return self._tampered()
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            try:
                if not line.startswith(self._token):
                    raise ValueError
                self._heard(json.loads(line[len(self._token) :]))
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                self._tampered()

    def _tampered(self) -> None:
        self._problem = self._problem or "the code wrote to the channel of the test reports"

    def _heard(self, said: dict[str, Any]) -> None:
        if self._finished:
            self._tampered()
        self._since = time.monotonic()
        if "at" in said:
            self._at = str(said["at"])
        if "case" in said:
            case = said["case"]
            twice = (self._cases.get(case["id"], case), case)  # as tests in a loop are; one that failed stays so
            self._cases[case["id"]] = min(twice, key=lambda one: _WORST.index(one["outcome"]))
            self._at = ""
        if "covered" in said:
            self._covered[said["covered"]["test"]] = said["covered"]
        self._problem = self._problem or str(said.get("problem", ""))
        if "end" in said:
            self._finished, self._code, self._changed = True, said["end"], [str(name) for name in said["changed"]]

    def _judge(self, status: int | None) -> None:
        """Why the child ended, and whether another one is to run the rest."""
        self.again = False
        late = time.monotonic() >= self._deadline
        if self._finished:
            self._ended = "finished"
        elif status is None and (late or not self._at):
            self._ended = "timed_out"
            self._give_up("timed_out", "the run took longer than it may")
            if not late:
                self._problem = self._problem or f"no test was begun in {self._limit():g} s"
        elif status is None:
            self._next("timed_out", f"it took longer than {self._test_s:g} s")
        else:
            why = _how(status)
            self._ended = "out_of_memory" if "memory" in why else "lost" if self._patient else "finished"
            if self._at:
                self._next("error", f"the tests' process ended while it ran ({why})")
            else:
                self._problem = self._problem or f"the tests' process ended before its tests did ({why})"

    def _next(self, outcome: str, message: str) -> None:
        self._give_up(outcome, message)
        self.again = self._at != COMMAND and not self.until_failure and self._children < RESTARTS
        if self.until_failure:
            self._ended = "finished"  # as after any other failure
        elif self._children >= RESTARTS:
            self._ended, self._problem = "timed_out", f"{RESTARTS} tests ended their process or took too long"

    def _give_up(self, outcome: str, message: str) -> None:
        if self._at:
            seconds = round(time.monotonic() - self._since, 3)
            frames = stack_frames(self._stack.decode(errors="replace"))
            self._cases[self._at] = {"id": self._at, "outcome": outcome, "message": message, "frames": frames, "seconds": seconds}


def all_passed(report: dict[str, Any], only: Sequence[str]) -> bool:
    """Did everything that was to run pass? Of a file, module or class all of its tests."""
    told = {case["id"]: case["outcome"] for case in report["cases"]}
    if report["problem"] or report["ended"] != "finished" or not told:
        return False
    found = [{told[test] for test in told if within(test, one)} for one in only] or [{"passed", *told.values()}]
    return all({"passed"} <= outcomes <= {"passed", "skipped"} for outcomes in found)


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
        gap = f"\n[{self._dropped} bytes left out]\n".encode() if self._dropped else b""
        return (self._head + gap + self._tail).decode(errors="replace")


def _how(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return "killed, perhaps because memory ended" if code == -9 else f"exit code {code}" if code >= 0 else f"signal {-code}"
