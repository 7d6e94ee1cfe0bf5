"""A child: one run of the tests on its own copy, in this very process where the command is Python's."""

import ctypes
import importlib
import json
import os
import random
import resource
import signal
import sys
import time
from typing import Any, Callable, Dict, List

from . import pristine

ZONES = ("UTC", "<-07>7", "<+0545>-5:45", "<+13>-13", "<-0330>3:30")
"""POSIX time zones, one for each run of the unchanged copy; candidates have the first."""
_PYTHONS = ("python", "python3")
_NEEDS = {"pytest": ("pytest", "_pytest.assertion.rewrite", "_pytest._io.saferepr", "unittest.mock", ".by_pytest", ".tracing")}
Send = Callable[[Dict[str, Any]], None]


def kind_of(command: List[str]) -> str:
    """How a command can be run: pytest, unittest, script, or as a process."""
    program, rest = os.path.basename(command[0]), command[1:]
    if program in ("pytest", "py.test"):
        return "pytest"
    if program in _PYTHONS and rest[:2] in (["-m", "pytest"], ["-m", "unittest"]):
        return rest[1]
    if program in _PYTHONS and rest and rest[0].endswith(".py"):
        return "script"
    return "process"


def warm(command: List[str]) -> str:
    """Imports the test tool and what listens to it, and nothing of the repository."""
    kind = kind_of(command)
    try:
        for name in _NEEDS.get(kind, ()):
            importlib.import_module(name, __package__)
    except ImportError as error:
        return "missing " + str(error.name)
    return kind


def begin(root: str, output: int, keep: List[int]) -> None:
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
    control = ctypes.CDLL(None).prctl
    control(4, 1, 0, 0, 0)
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    control(4, 0, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(root)


def work(wanted: Dict[str, Any], token: str, before: pristine.Marks, reports: int, stack: int) -> None:
    """Never returns."""
    os.environ["TZ"] = ZONES[wanted["run"] % len(ZONES)]
    time.tzset()
    random.seed(wanted["run"])

    def send(said: Dict[str, Any]) -> None:
        data = (token + " " + json.dumps(said) + "\n").encode()
        while data:
            data = data[os.write(reports, data) :]

    code = _run(wanted, send, stack)
    sys.stdout.flush()
    sys.stderr.flush()
    send({"end": code, "changed": pristine.changed(before)})
    os._exit(0)


def _run(wanted: Dict[str, Any], send: Send, stack: int) -> int:
    kind = wanted["kind"]
    if kind.startswith("missing"):
        send({"problem": kind[8:] + " is not in the image"})
        return 127
    if kind == "pytest":
        code = sys.modules[__package__ + ".by_pytest"].run(wanted, send, stack)
        return int(code)
    raise NotImplementedError(kind)
