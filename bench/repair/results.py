"""What is written down for each case, one line each, so that a run that was stopped goes on where it was."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from autopatch.contract.errors import OperatorError


T = TypeVar("T", bound=BaseModel)


class Setup(BaseModel):
    """The first line. A run goes on only in a file with the same setup, whatever the machine."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    suite: str
    tool: str
    mode: str
    how: str
    seed: int
    limit_s: float
    cases: int
    data: str = ""
    model: str = ""
    judge: str = ""
    machine: dict[str, str] = {}

    def key(self) -> dict[str, object]:
        """What must be equal."""
        return self.model_dump(exclude={"machine", "cases"})


class Result(BaseModel):
    """One case. `right`: solved where a fix was due, else nothing changed and, if the tool gives verdicts, the due one given."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    case: str
    expected: str
    verdict: str = ""
    right: bool
    changed: bool
    plausible: bool
    solved: bool
    attempts: int = 0
    calls: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    diff_lines: int = 0
    touched: tuple[str, ...] = ()
    late: bool = False
    leaked: int = 0
    basis: str = ""
    reason: str = ""

    @property
    def overfit(self) -> bool:
        """The visible tests pass, the hidden ones do not."""
        return self.plausible and not self.solved


class Log:
    """A JSONL file. A line that was not written to its end is taken off when the file is opened again."""

    def __init__(self, path: Path, setup: Setup) -> None:
        """Raises OperatorError when the file holds another setup."""
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        _mend(path)
        if path.exists() and path.stat().st_size:
            before, self.done = read(path)
            if before.key() != setup.key():
                differing = [name for name, value in setup.key().items() if before.key()[name] != value]
                raise OperatorError(f"{path}: was begun with another {differing[0]}", tip="name another folder with --out")
        else:
            self.done = []
            self._write(setup)

    def add(self, result: Result) -> None:
        """Kept once this returns."""
        self._write(result)
        self.done.append(result)

    def _write(self, line: BaseModel) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line.model_dump_json() + "\n")
            file.flush()
            os.fsync(file.fileno())


def _mend(path: Path) -> None:
    if not path.exists():
        return
    data = path.read_bytes()
    whole = data[:data.rfind(b"\n") + 1]
    if whole != data:
        os.truncate(path, len(whole))


def read(path: Path) -> tuple[Setup, list[Result]]:
    """Raises OperatorError that names the line."""
    lines = path.read_text("utf-8").splitlines()
    return next(_parsed(path, lines[:1], Setup, 1)), list(_parsed(path, lines[1:], Result, 2))


def _parsed(path: Path, lines: list[str], kind: type[T], first: int) -> Iterator[T]:
    for number, line in enumerate(lines, first):
        try:
            yield kind.model_validate(json.loads(line))
        except (ValidationError, ValueError) as error:
            raise OperatorError(f"{path}:{number}: no {kind.__name__.lower()}: {str(error).splitlines()[0]}") from error
