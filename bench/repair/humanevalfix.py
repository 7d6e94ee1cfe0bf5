"""HumanEvalFix in Python, from a folder that holds `cases.jsonl`. Nothing of it is part of this repository.

`prompt` and `buggy_solution` become solution.py, `example_test` the visible test, `test` the hidden one.
"""

import re
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from autopatch.contract.errors import OperatorError
from bench.repair.case import HIDDEN, Case

COMMAND = ("python3", "-m", "pytest", "-q")


class Line(BaseModel):
    """One line of the file, as far as it is needed. The right solution is read by tests of this loader only."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    task_id: str
    prompt: str
    buggy_solution: str
    canonical_solution: str
    entry_point: str
    example_test: str
    test: str
    bug_type: str = ""


def lines(folder: Path) -> list[Line]:
    """Raises OperatorError that names the file, the line and the field."""
    file = folder / "cases.jsonl"
    try:
        texts = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise OperatorError(f"{file}: {error}", tip="name the folder of the data with --data") from error
    return [_line(file, number, text) for number, text in enumerate(texts, 1) if text.strip()]


def _line(file: Path, number: int, text: str) -> Line:
    try:
        found = Line.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        raise OperatorError(f"{file}:{number}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    if not found.entry_point.isidentifier():
        raise OperatorError(f"{file}:{number}: entry_point: {found.entry_point!r} is no name of a function")
    return found


def load(folder: Path) -> list[Case]:
    """All cases, in the file's order. Raises OperatorError."""
    cases = [_case(line) for line in lines(folder)]
    if len({case.id for case in cases}) < len(cases):
        raise OperatorError(f"{folder / 'cases.jsonl'}: a task_id is there twice")
    return cases


def _case(line: Line) -> Case:
    return Case(
        id=re.sub(r"[^A-Za-z0-9._-]", "-", line.task_id), command=COMMAND, tests=1,
        repository={
            "solution.py": (line.prompt + line.buggy_solution).encode(),
            "tests/test_solution.py": test_module(line.example_test, line.entry_point).encode(),
        },
        hidden={f"{HIDDEN}/test_hidden.py": test_module(line.test, line.entry_point).encode()},
        hidden_command=(*COMMAND, HIDDEN), hidden_tests=1, kinds=(line.bug_type,) if line.bug_type else (),
    )


def test_module(text: str, name: str) -> str:
    """The assertions as one test. The call at the end is made by the test, not when the module is imported.

    Where there are no assertions, the test only looks for the function.
    """
    call = re.compile(rf"^check\({name}\)\s*\Z", re.M)
    body = call.sub("", text).rstrip()
    if not re.search(r"^def check\(", body, re.M):
        return f"import solution\n\n\ndef test_{name}_is_there():\n    assert callable(solution.{name})\n"
    return f"from solution import *\nfrom solution import {name}\n\n\n{body.strip()}\n\n\ndef test_{name}():\n    check({name})\n"
