"""Any other command: one test, by its exit code. Node's own test runner is asked for its events."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from typing import Any

from .telling import COMMAND, FRAMES, MESSAGE, ROOT, VALUE, Telling

_REPORTER, _COVERED = "/work/.autopatch/reporter.mjs", "/work/.autopatch/covered.mjs"


def run(telling: Telling) -> int:
    """The command's exit code; 127 when there is no such program."""
    telling.begin(COMMAND)
    try:
        code = subprocess.call(telling.command, stdin=subprocess.DEVNULL)
    except OSError as error:
        telling.send({"problem": f"cannot run {telling.command[0]}: {error.strerror}"})
        return 127
    if code == 127:
        telling.send({"problem": "the command was not found, or did not find what it runs (exit code 127)"})
    if code:
        telling.failed("failed", f"signal {-code}" if code < 0 else f"exit code {code}")
    telling.end()
    return code


def run_node(telling: Telling) -> int:
    """Its exit code. A test file that is silent for longer than one test may take is killed; the others still run."""
    token = os.urandom(16).hex()
    program, *rest = telling.command
    command, env = ["--test-reporter", _REPORTER, "--test-reporter-destination", "stdout", *rest], dict(os.environ)
    if telling.coverage:
        command, env["AUTOPATCH_COVERED"] = ["--import", _COVERED, *command], tempfile.mkdtemp()
    try:
        node = subprocess.Popen([program, *command], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    except OSError as error:
        telling.send({"problem": f"cannot run {program}: {error.strerror}"})
        return 127
    assert node.stdin and node.stdout
    node.stdin.write(token.encode())
    node.stdin.close()
    _Node(telling, node, token).listen()
    code = node.wait()
    if not telling.told:
        telling.send({"problem": "no tests were found" if not code else f"node ended with exit code {code} before any test"})
    return code


class _Node:
    """Node's events on its standard output."""

    def __init__(self, telling: Telling, node: subprocess.Popen[bytes], token: str) -> None:
        self._telling, self._node, self._token = telling, node, token.encode() + b" "
        self._slow: set[str] = set()

    def listen(self) -> None:
        """To the end of its output."""
        assert self._node.stdout
        rest, since, out = b"", time.monotonic(), self._node.stdout.fileno()
        with selectors.DefaultSelector() as selector:
            selector.register(out, selectors.EVENT_READ)
            while True:
                if not selector.select(0.05):
                    if time.monotonic() - since > self._telling.test_s:
                        since = time.monotonic()
                        self._kill_files()
                    continue
                data = os.read(out, 1 << 16)
                if not data:
                    return
                since = time.monotonic()
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._heard(line)

    def _heard(self, line: bytes) -> None:
        if line.startswith(self._token):
            said = json.loads(line[len(self._token) :])
            if "covered" in said:
                return self._telling.send(said)
            case = _case(said)
            if case["id"] in self._slow:
                case.update(outcome="timed_out", message=f"it took longer than {self._telling.test_s:g} s")
            if self._telling.wants(case["id"]):
                self._telling.tell(case)
        elif line.strip():
            self._telling.send({"problem": "the code wrote to the channel of the test reports"})

    def _kill_files(self) -> None:
        """Node runs every test file in a process of its own."""
        for pid in children(self._node.pid):
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().decode(errors="replace").split("\0")
            self._slow |= {os.path.relpath(word, ROOT) for word in words if os.path.isfile(word) and word.startswith(ROOT)}
            os.kill(pid, signal.SIGKILL)


def children(parent: int) -> list[int]:
    """Ids of its child processes."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{entry}/stat") as file:
            if int(file.read().rpartition(")")[2].split()[1]) == parent:
                found.append(int(entry))
    return found


def _case(said: dict[str, Any]) -> dict[str, Any]:
    """A case of what the reporter wrote."""
    case = {name: said[name] for name in ("id", "outcome", "seconds")}
    case |= {name: said[name][:VALUE] for name in ("expected", "actual") if said.get(name) is not None}
    return {**case, "message": said.get("message", "")[:MESSAGE], "frames": said.get("frames", [])[-FRAMES:]}
