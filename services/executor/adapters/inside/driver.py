"""Process 1 of a test container: it holds the repository in its own memory, and forks one child for every run of the tests.

A child gets a fresh copy on disk. What it tells comes over a pipe, each line with a token of its own run; when it has ended,
every process but this one is killed and every folder that can be written is emptied. Only this process writes to standard
output, one JSON object a line: {"begin": trial}, {"report": Report}, {"done": true}.
"""

import base64
import io
import json
import os
import shutil
import sys
import tarfile
import time
import traceback
from typing import Any, Dict, List, Optional, Tuple

from . import child, pristine
from .watch import Watch, all_passed

HOME = "/work"
INSIDE = HOME + "/.autopatch"
ROOT = HOME + "/repository"
WRITABLE = (HOME, "/tmp", "/dev/shm")

Tree = Dict[str, Tuple[bytes, bool]]


def main() -> None:
    """Reads the request, tries everything in it, and ends."""
    sys.path[:] = [folder for folder in sys.path if folder not in ("", INSIDE)]
    child.seal()
    with open(INSIDE + "/request.json", "rb") as file:
        request = json.load(file)
    tree = _tree(INSIDE + "/snapshot.tar.gz")
    sources = _sources()
    os.environ.update(child.environment(0))
    kind = child.warm(request["command"])
    before = pristine.fingerprint()
    deadline = time.monotonic() + request["limit_s"]
    passed, excused = 0, None  # type: int, Optional[List[str]]
    for run in request["runs"]:
        if time.monotonic() >= deadline:
            break
        tell({"begin": run["trial"]})
        workshop = Workshop(request, kind, tree, sources, before, deadline)
        report = workshop.report(run)
        if report["changed"] and run["trial"]:
            if excused is None:
                plain = workshop.report({**run, "trial": "", "changes": {}})
                excused = plain["changed"]
            accuse(report, excused)
        del report["changed"]
        tell({"report": report})
        passed += bool(run["trial"]) and all_passed(report, request["only"])
        if request["enough"] and passed >= request["enough"]:
            break
    tell({"done": True})


def accuse(report: Dict[str, Any], excused: List[str]) -> None:
    """A candidate that changes the test tool where the unchanged copy does not is not judged by it."""
    names = [name for name in report["changed"] if name not in excused]
    if names:
        report["problem"] = report["problem"] or "the code changes the test tool: " + ", ".join(names[:5])


def tell(what: Dict[str, Any]) -> None:
    """One line to the host."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


class Workshop:
    """One fresh copy and one child for every run."""

    def __init__(
        self, request: Dict[str, Any], kind: str, tree: Tree, sources: Dict[str, bytes], before: pristine.Marks, deadline: float
    ) -> None:
        self._request, self._kind, self._tree, self._sources = request, kind, tree, sources
        self._before, self._deadline = before, deadline
        alone = kind in ("script", "process")
        self._test_s = request["suite_s"] if alone else request["test_s"]

    def report(self, run: Dict[str, Any]) -> Dict[str, Any]:
        """Runs the tests; a test that takes too long is given up with its child, and another child runs the rest."""
        begun = time.monotonic()
        watch = Watch(self._test_s, min(self._deadline, begun + self._request["suite_s"]), not run["trial"])
        while True:
            clean()
            self._lay_out(run["changes"])
            watch.follow(*self._born(run, watch.known()))
            kill_all()
            if not watch.again:
                break
        report = watch.report()
        report.update(trial=run["trial"], run=run["run"], seconds=round(time.monotonic() - begun, 3))
        return report

    def _born(self, run: Dict[str, Any], skip: List[str]) -> Tuple[int, int, int, int, str]:
        """Child, pipes of its reports, its output and its stack, and the token that its reports bear."""
        token = os.urandom(16).hex()
        (reports, reports_in), (output, output_in), (stack, stack_in) = os.pipe(), os.pipe(), os.pipe()
        wanted = {
            "command": self._request["command"], "kind": self._kind, "only": self._request["only"], "skip": skip,
            "coverage": self._request["coverage"] and not run["trial"], "until_failure": bool(run["trial"] and self._request["only"]),
            "run": run["run"], "test_s": self._test_s,
        }
        pid = os.fork()
        if pid == 0:
            try:
                child.begin(ROOT, output_in, [reports_in, stack_in])
                if run["run"] and self._kind in child.PYTHON:
                    child.begin_cold(wanted, token, INSIDE, self._sources, reports_in, stack_in)
                child.work(wanted, token, self._before, reports_in, stack_in)
            finally:
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(70)
        for fd in (reports_in, output_in, stack_in):
            os.close(fd)
        return pid, reports, output, stack, token

    def _lay_out(self, changes: Dict[str, Optional[str]]) -> None:
        files = dict(self._tree)
        for path, content in changes.items():
            if content is None:
                files.pop(path, None)
            else:
                files[path] = (base64.b64decode(content), files[path][1] if path in files else False)
        if self._kind == "node":
            os.makedirs(INSIDE)
            with open(INSIDE + "/reporter.mjs", "wb") as file:
                file.write(self._sources["reporter.mjs"])
        for path, (data, executable) in files.items():
            full = os.path.join(ROOT, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "wb") as file:
                file.write(data)
            if executable:
                os.chmod(full, 0o755)


def kill_all() -> None:
    """Every process of this container but this one, however it hides; returns when all are gone (or after two seconds)."""
    patience = time.monotonic() + 2
    while time.monotonic() < patience:
        try:
            os.kill(-1, 9)
        except ProcessLookupError:
            return
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.002)


def clean() -> None:
    """Empties every folder that a run could write to."""
    os.chdir("/")
    for folder in WRITABLE:
        for entry in os.scandir(folder):
            try:
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, onerror=_insist)
                else:
                    os.unlink(entry.path)
            except OSError:
                continue
    os.makedirs(ROOT)


def _insist(function: Any, path: str, _: Any) -> None:
    """A folder without permissions is still ours."""
    try:
        os.chmod(os.path.dirname(path), 0o700)
        os.chmod(path, 0o700)
        shutil.rmtree(path, ignore_errors=True) if function is not os.unlink else os.unlink(path)
    except OSError:
        return


def _tree(path: str) -> Tree:
    """The host has looked at every entry: regular files inside of the repository only."""
    with open(path, "rb") as file:
        data = file.read()
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {entry.name: (tar.extractfile(entry).read(), bool(entry.mode & 0o100)) for entry in tar if entry.isreg()}  # type: ignore[union-attr]


def _sources() -> Dict[str, bytes]:
    """This package's own files, for children that start as processes of their own."""
    folder = os.path.dirname(os.path.abspath(__file__))
    kept = {}
    for name in os.listdir(folder):
        if not name.startswith("__pycache__"):
            with open(os.path.join(folder, name), "rb") as file:
                kept[name] = file.read()
    return kept
