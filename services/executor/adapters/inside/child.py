"""A child: one run of the tests on its own copy, in this very process where the command is Python's."""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import time
from typing import Any

from .listeners import pristine
from .listeners.telling import Send, Telling, front

ZONES = ("UTC", "<-07>7", "<+0545>-5:45", "<+13>-13", "<-0330>3:30")
"""POSIX time zones, one for each run of the unchanged copy; candidates have the first."""
PYTHON = ("pytest", "unittest", "script")
"""Kinds of commands that are run in a process of ours."""
_PYTHONS = ("python", "python3")
_NEEDS = {
    "pytest": ("pytest", "unittest.mock", ".listeners.by_pytest"), "unittest": (".listeners.by_unittest",),
    "script": (".listeners.by_unittest",), "node": (".listeners.by_process",), "process": (".listeners.by_process",),
}


def kind_of(command: list[str]) -> str:
    """How a command can be run: by pytest, unittest, as a script, by Node's test runner, or as any process."""
    program, rest = os.path.basename(command[0]), command[1:]
    if program in ("pytest", "py.test"):
        return "pytest"
    if program in _PYTHONS and rest[:2] in (["-m", "pytest"], ["-m", "unittest"]):
        return rest[1]
    if program in _PYTHONS and rest and rest[0].endswith(".py"):
        return "script"
    return "node" if program == "node" and "--test" in rest else "process"


def warm(kind: str) -> str:
    """Imports the test tool and what listens to it, and nothing of the repository. Returns the kind, or "missing ..."."""
    try:
        for name in _NEEDS[kind]:
            importlib.import_module(name, __package__)
    except ImportError as error:
        return "missing " + str(error.name)
    if kind == "pytest":
        _part("by_pytest").warm()
    gc.freeze()
    return kind


def environment(run: int) -> dict[str, str]:
    """Order of hashes and time zone: pinned for a run, others for the next."""
    return {**os.environ, "PYTHONHASHSEED": str(run + 1), "TZ": ZONES[run % len(ZONES)]}


def begin(root: str, output: int, keep: list[int]) -> None:
    """Leaves nothing open of what process 1 has, and is the first to go when memory ends."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for old, new in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(old, new)
    last = 3
    for fd in sorted(keep):
        os.closerange(last, fd)
        last = fd + 1
    os.closerange(last, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    seal(False)
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    seal()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(root)


def seal(closed: bool = True) -> None:
    """Nobody else, of the same user or not, may look into this process or open its descriptors."""
    ctypes.CDLL(None).prctl(4, int(not closed), 0, 0, 0)


def begin_cold(wanted: dict[str, Any], token: str, folder: str, sources: dict[str, bytes], reports: int, stack: int) -> None:
    """Starts the interpreter anew, because the order of hashes is fixed when it starts. Does not return."""
    os.makedirs(folder + "/autopatch_inside/listeners")
    for name, data in sources.items():
        with open(folder + "/autopatch_inside/" + name, "wb") as file:
            file.write(data)
    with open(folder + "/wanted.json", "w") as text:
        json.dump([wanted, token, folder, reports, stack], text)
    for fd in (reports, stack):
        os.set_inheritable(fd, True)
    code = f"import sys; sys.path.insert(0, {folder!r}); from autopatch_inside.child import cold; cold({folder!r})"
    os.execve(sys.executable, [sys.executable, "-s", "-c", code], environment(wanted["run"]))


def cold(folder: str) -> None:
    """Where an interpreter that `begin_cold` started goes on."""
    seal()
    with open(folder + "/wanted.json") as file:
        wanted, token, _, reports, stack = json.load(file)
    sys.path[:] = [entry for entry in sys.path if entry not in ("", folder)]
    warm(wanted["kind"])
    shutil.rmtree(folder)
    for fd in (reports, stack):
        os.set_inheritable(fd, False)
    work(wanted, token, pristine.fingerprint(), reports, stack)


def work(wanted: dict[str, Any], token: str, before: pristine.Marks, reports: int, stack: int) -> None:
    """Never returns."""
    os.environ.update(environment(wanted["run"]))
    time.tzset()
    random.seed(wanted["run"])
    if os.path.isdir("src") and not os.path.exists("src/__init__.py"):
        front("src")  # as if it were installed

    def send(said: dict[str, Any]) -> None:
        data = (token + " " + json.dumps(said) + "\n").encode()
        while data:
            data = data[os.write(reports, data) :]

    gc.disable()  # until the first test begins
    code = _run(wanted, send, stack)
    sys.stdout.flush()
    sys.stderr.flush()
    send({"end": code, "changed": pristine.changed(before)})
    os._exit(0)


def _run(wanted: dict[str, Any], send: Send, stack: int) -> int:
    kind = wanted["kind"]
    if kind.startswith("missing"):
        send({"problem": kind[8:] + " is not in the image"})
        return 127
    telling = Telling(wanted, send, stack)
    if kind == "pytest":
        return int(_part("by_pytest").run(telling))
    if kind == "unittest":
        return int(_part("by_unittest").run(telling))
    if kind == "script":
        return int(_part("by_unittest").run_script(telling))
    return int(_part("by_process").run_node(telling) if kind == "node" else _part("by_process").run(telling))


def _part(name: str) -> Any:
    """A module of ours that was loaded when there were files of ours."""
    return sys.modules[str(__package__) + ".listeners." + name]
