"""Files of tests that could not be read: does the environment lack something, or is it the repository's own fault?"""

import re
from collections.abc import Collection

from autopatch.contract.code import Report, TestCase
from autopatch.repair.paths import is_test

_NO_MODULE = re.compile(
    r"No module named ['\"]([\w.]+)['\"]|Cannot find (?:module|package) ['\"]([^'\"]+)['\"]|: No module named ([\w.]+)$", re.M
)
_NO_NAME = re.compile(
    r"cannot import name ['\"]\w+['\"] from (?:partially initialized module )?['\"]([\w.]+)['\"]"
    r"|requested module ['\"]([^'\"]+)['\"] does not provide"
)
_SYNTAX = re.compile(r"\b(?:SyntaxError|IndentationError|TabError)\b")
_FILE = re.compile(r"""File ["'](.+?)["'], line \d+|\((?:detected at )?([\w./-]+\.\w+), line \d+\)""")
_A_FILE = re.compile(r"^[^:>]+\.(?:py|[cm]?[jt]sx?)$")
COMMAND = "command"
"""The id of a command whose tests have no ids of their own."""


def lacking_in(report: Report, test: str, own: Collection[str]) -> bool:
    """Was this a whole file of tests that failed to load, for something that no edit of the repository's sources can cure?"""
    cases = [_told(case, report) for case in report.cases if case.id == test]
    return bool(cases) and all(_unread(case) and not _blames_source(case, own) for case in cases)


def last_line(report: Report) -> str:
    """What the run printed last; '' for nothing."""
    return next((line.strip() for line in reversed(report.output.splitlines()) if line.strip()), "")


def _told(case: TestCase, report: Report) -> TestCase:
    """Of a command only its output tells why it failed."""
    return case.model_copy(update={"message": f"{case.message}\n{last_line(report)}"}) if case.id == COMMAND else case


def _unread(case: TestCase) -> bool:
    if case.outcome not in ("error", "failed"):
        return False
    if case.id == COMMAND:
        return bool(_NO_MODULE.search(case.message))
    return bool(_A_FILE.match(case.id)) or "Failed to import test module" in case.message


def _blames_source(case: TestCase, own: Collection[str]) -> bool:
    if _NO_MODULE.search(case.message) or _SYNTAX.search(case.message) or _NO_NAME.search(case.message):
        return own_fault(case.message, own) or (not _NO_MODULE.search(case.message) and _ends_in_source(case))
    return _ends_in_source(case)


def _ends_in_source(case: TestCase) -> bool:
    """Is the innermost frame, or the last file that the message names, one of the repository's and no test?"""
    if case.frames:
        return not is_test(case.frames[-1].path)
    files = _files(case.message)
    return bool(files) and _is_source(files[-1])


def own_fault(text: str, own: Collection[str]) -> bool:
    """Does an error that kept tests from being read lie in a source file of the repository? `own` are its paths, if known."""
    missing, name = _NO_MODULE.findall(text), _NO_NAME.findall(text)
    if missing:
        return _is_own("".join(missing[-1]), own)
    if name:
        return not own or _is_own(name[-1][0] or name[-1][1], own)
    files = _files(text)
    return bool(_SYNTAX.search(text) and files) and _is_source(files[-1])


def _files(text: str) -> list[str]:
    return [a or b for a, b in _FILE.findall(text)]


def _is_source(path: str) -> bool:
    outside = "site-packages" in path or "/lib/python" in path or path.startswith("<")
    return not outside and not is_test(path.lstrip("/"))


def _is_own(module: str, own: Collection[str]) -> bool:
    """Is the module, or a package around it, among the repository's files? What is named by a path is."""
    if module.startswith((".", "/")):
        return True
    parts = {part.removesuffix(".py") for path in own for part in path.split("/")[:2]}
    return re.split(r"[./]", module)[0] in parts
