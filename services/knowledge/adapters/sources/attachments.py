"""Tests that a runbook brings: files beside it, and where they belong in the repository of the target."""

from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import Field

from autopatch.contract.errors import OperatorError
from autopatch.contract.target import Strict
from autopatch.repair.paths import is_test
from autopatch.repair.tree import unfit_path

LARGEST = 32_000
"""Bytes of all tests of one runbook: they travel with it."""
Attach = Callable[[str], str]
"""The text of a file, by its path beside the runbook. Raises OperatorError without the runbook's name."""


class Patching(Strict):
    """A runbook's `patch_code`."""

    tests: dict[str, str] = Field(default_factory=dict, description="path in the repository -> file beside the runbook")


def attached(tests: Mapping[str, str], attach: Attach, where: Callable[[str], str]) -> dict[str, str]:
    """The texts by their paths in the repository. `where` tells a path's place in the runbook. Raises OperatorError."""
    found: dict[str, str] = {}
    for path, name in tests.items():
        why = unfit_path(path) or ("" if is_test(path) else "is no test, and nothing else is attached")
        if why:
            raise OperatorError(f"{where(path)}: {path!r} {why}", tip="name it as the repository names tests: tests/test_it.py")
        try:
            found[path] = attach(name)
        except OperatorError as error:
            raise OperatorError(f"{where(path)}: {error.args[0]}", tip=error.tip) from error
    if sum(len(text.encode()) for text in found.values()) > LARGEST:
        where_to = where(next(iter(tests)))
        raise OperatorError(f"{where_to}: more than {LARGEST:,} bytes of tests", tip="attach only what shows the fault")
    return found


def beside(runbook: Path, folder: Path) -> Attach:
    """Files of the folder that the runbooks are in, by their path from this runbook."""
    root = folder.resolve()

    def attach(name: str) -> str:
        file = (runbook.parent / name).resolve()
        if not file.is_relative_to(root):
            raise OperatorError(f"{name}: lies outside of {folder}", tip="put it beside the runbook")
        try:
            if file.stat().st_size > LARGEST:
                raise OperatorError(f"{name}: more than {LARGEST:,} bytes", tip="attach only what shows the fault")
            return file.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise OperatorError(f"{name}: not UTF-8 text, at byte {error.start}") from error
        except OSError as error:
            raise OperatorError(f"{name}: {error.strerror}", tip=f"it would be {file}") from error

    return attach


def sent(files: Mapping[str, str]) -> Attach:
    """Of a text that came without its folder: what was sent with it."""

    def attach(name: str) -> str:
        if name not in files:
            raise OperatorError(f"{name}: was not sent with it", tip="send its text as `attached`, as autopatch kb ingest does")
        return files[name]

    return attach
