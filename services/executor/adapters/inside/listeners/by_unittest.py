"""unittest's tests, by `python -m unittest` or by a script that calls `unittest.main()`; and scripts that do not."""

from __future__ import annotations

import os
import runpy
import sys
import unittest
from typing import Any

from .telling import COMMAND, Caught, Telling, frames, front

_UNLOADED = "unittest.loader._FailedTest."


def run(telling: Telling) -> int:
    """The exit code of `python -m unittest`."""
    front(".")
    arguments = telling.command[3:]
    with Caught() as caught:
        unittest.main(module=None, argv=["python -m unittest", *arguments], testRunner=runner(telling))
    if not telling.told and not telling.skip:
        telling.send({"problem": "no tests were collected"})
    return exit_code(caught.error)


def run_script(telling: Telling) -> int:
    """The exit code of `python FILE`."""
    path = telling.command[1]
    front(path.rpartition("/")[0] or ".")
    sys.argv = telling.command[1:]
    unittest.runner.TextTestRunner = runner(telling)  # type: ignore[misc]
    telling.begin(COMMAND)
    with Caught() as caught:
        runpy.run_path(os.path.abspath(path), run_name="__main__")
    code = exit_code(caught.error)
    if telling.told or telling.skip:
        if code and not telling.bad:
            telling.tell({"id": COMMAND, "outcome": "failed", "message": f"exit code {code}"})
        return code
    if code and caught.error is not None:
        ended = isinstance(caught.error, SystemExit)
        text = f"exit code {code}" if ended else f"{type(caught.error).__name__}: {caught.error}"
        telling.failed("failed", text, caught.error.__traceback__)
    telling.end()
    return code


def exit_code(error: Any) -> int:
    """What the interpreter would end with."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    return int(error is not None)


def runner(telling: Telling) -> type[unittest.TextTestRunner]:
    """A runner that runs what is wanted and tells it."""

    class Told(unittest.TextTestResult):
        def startTest(self, test: unittest.TestCase) -> None:
            super().startTest(test)
            telling.begin(name(test))

        def stopTest(self, test: unittest.TestCase) -> None:
            super().stopTest(test)
            if telling.end():
                self.stop()

        def addError(self, test: unittest.TestCase, err: Any) -> None:
            if isinstance(test, unittest.TestCase):
                telling.failed("error", _said(err), err[2])
            else:  # "setUpClass (module.Class)"
                around = test.id().partition("(")[2].rstrip(")")
                telling.tell({"id": around, "outcome": "error", "message": _said(err), "frames": frames(err[2])})
            super().addError(test, err)

        def addFailure(self, test: unittest.TestCase, err: Any) -> None:
            telling.failed("failed", _said(err), err[2])  # first: unittest cuts its own frames off the traceback
            super().addFailure(test, err)

        def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
            if err is not None:
                telling.failed("failed", _said(err), err[2])
            super().addSubTest(test, subtest, err)

        def addSkip(self, test: unittest.TestCase, reason: str) -> None:
            super().addSkip(test, reason)
            telling.skipped()

        def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
            super().addExpectedFailure(test, err)
            telling.skipped()

        def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
            super().addUnexpectedSuccess(test)
            telling.failed("failed", "unexpected success")

    class Runner(unittest.TextTestRunner):
        resultclass = Told  # type: ignore[assignment]

        def run(self, test: Any) -> Any:
            return super().run(unittest.TestSuite(case for case in _flat(test) if telling.wants(name(case))))

    return Runner


def name(test: unittest.TestCase) -> str:
    """Its id; of a module that could not be imported the module."""
    return test.id()[len(_UNLOADED) :] if test.id().startswith(_UNLOADED) else test.id()


def _flat(tests: Any) -> list[unittest.TestCase]:
    return [tests] if isinstance(tests, unittest.TestCase) else [case for part in tests for case in _flat(part)]


def _said(err: Any) -> str:
    return f"{err[0].__name__}: {err[1]}"
