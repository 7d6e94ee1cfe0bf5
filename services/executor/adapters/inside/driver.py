"""Process 1 of a test container: it holds the repository in its own memory, and forks one child for every run of the tests.

A child gets a fresh copy on disk. What it tells comes over a pipe, each line with a token of its own run; when it has ended,
every process but this one is killed and every folder that can be written is emptied. Only this process writes to standard
output, one JSON object a line: {"begin": trial, "run": number}, {"report": Report}, {"done": true}.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from typing import Any

from . import child
from .copies import INSIDE, READY, ROOT, Copies, clean, kill_all, sources
from .listeners import pristine
from .watch import Watch, all_passed


def main(likely: str) -> None:
    """Warms up for commands such as `likely`, waits for the request, tries everything in it, and ends."""
    sys.path[:] = [folder for folder in sys.path if folder not in ("", INSIDE)]
    child.seal()
    ours = sources()
    os.environ.update(child.environment(0))
    child.warm(child.kind_of([likely]))
    while not os.path.exists(READY) or os.path.getmtime(READY):  # its time, 0, is set last
        time.sleep(0.01)
    with open(INSIDE + "/request.json", "rb") as file:
        request = json.load(file)
    runs = Runs(request, child.warm(child.kind_of(request["command"])), Copies(ours))
    passed = 0
    for run in request["runs"]:
        if runs.late():
            break
        tell({"begin": run["trial"], "run": run["run"]})
        report, tidy = runs.judged(run)
        tell({"report": report})
        if not tidy:
            raise SystemExit("what the run left could not be removed")
        passed += bool(run["trial"]) and all_passed(report, request["only"])
        if request["enough"] and passed >= request["enough"]:
            break
    tell({"done": True})


def tell(what: dict[str, Any]) -> None:
    """One line to the host."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


class Runs:
    """One fresh copy and one child for every run."""

    def __init__(self, request: dict[str, Any], kind: str, copies: Copies) -> None:
        self._request, self._kind, self._copies = request, kind, copies
        self._before = pristine.fingerprint()
        self._deadline = time.monotonic() + request["limit_s"]
        self._test_s = request["suite_s"] if kind in ("script", "process") else request["test_s"]
        self._excused: list[str] | None = None
        self._tidy = clean()

    def late(self) -> bool:
        """Has the time for all of it passed?"""
        return bool(time.monotonic() >= self._deadline)

    def judged(self, run: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """A report, and whether nothing is left of the run.

        A candidate that changes parts of the test tool which the unchanged copy leaves alone is not judged by that tool.
        """
        report = self._report(run)
        changed = report.pop("changed")
        if changed and run["trial"] and not report["problem"]:
            if self._excused is None:
                self._excused = self._report({"trial": "", "run": 0, "changes": {}})["changed"]
            names = [name for name in changed if name not in self._excused]
            if names:
                report["problem"] = "the code changes the test tool: " + ", ".join(names[:5])
        return report, self._tidy

    def _report(self, run: dict[str, Any]) -> dict[str, Any]:
        """Runs the tests; a test that takes too long is given up with its child, and another child runs the rest."""
        begun = time.monotonic()
        trial, deadline = bool(run["trial"]), min(self._deadline, begun + self._request["suite_s"])
        watch = Watch(self._test_s, deadline, not trial, trial and bool(self._request["only"]))
        while True:
            problem = self._copies.lay_out(run["changes"], self._kind == "node")
            if problem:
                watch.fail(problem)
            else:
                watch.follow(*self._born(run, watch))
            self._tidy = kill_all() and clean()
            if not (watch.again and self._tidy):
                break
        report = watch.report()
        report.update(trial=run["trial"], run=run["run"], seconds=round(time.monotonic() - begun, 3))
        return report

    def _born(self, run: dict[str, Any], watch: Watch) -> tuple[int, int, int, int, str]:
        """Child, pipes of its reports, its output and its stack, and the token that its reports bear."""
        token = os.urandom(16).hex()
        (reports, reports_in), (output, output_in), (stack, stack_in) = os.pipe(), os.pipe(), os.pipe()
        asked = self._request
        wanted = {
            "command": asked["command"], "kind": self._kind, "only": asked["only"], "skip": watch.known(), "run": run["run"],
            "coverage": asked["coverage"] and not run["trial"], "until_failure": watch.until_failure, "test_s": self._test_s,
        }
        pid = os.fork()
        if pid == 0:
            try:
                child.begin(ROOT, output_in, [reports_in, stack_in])
                if run["run"] and self._kind in child.PYTHON:
                    child.begin_cold(wanted, token, INSIDE, self._copies.ours, reports_in, stack_in)
                child.work(wanted, token, self._before, reports_in, stack_in)
            finally:
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(70)
        for fd in (reports_in, output_in, stack_in):
            os.close(fd)
        return pid, reports, output, stack, token
