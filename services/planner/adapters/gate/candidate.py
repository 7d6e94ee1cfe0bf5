"""Changed files that may heal the tests, and what was seen when they ran. Pure."""

import ast
import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from autopatch.contract.code import FileChange, Report, Trial
from autopatch.contract.model import canonical, digest

Changes = Mapping[str, bytes | None]
"""New contents by path, relative to the snapshot; None removes a file."""
Origin = Literal["lesson", "template", "model"]


@dataclass(frozen=True)
class Candidate:
    """`ref` names the lesson, template or model; `prior` is how likely it was before anything ran, 0 to 1."""

    id: str
    changes: Changes
    origin: Origin
    ref: str
    description: str
    prior: float = 0.5

    @property
    def files(self) -> tuple[FileChange, ...]:
        """As the sandbox takes them."""
        return tuple(
            FileChange(path=path, content=None if data is None else base64.b64encode(data).decode())
            for path, data in self.changes.items()
        )

    @property
    def trial(self) -> Trial:
        """As a run of tests takes it."""
        return Trial(id=self.id, changes=self.files)


@dataclass(frozen=True)
class Tried:
    """A candidate and its run. `failing` are the tests to be healed that did not pass; `whole`: all tests ran, and none broke."""

    candidate: Candidate
    report: Report
    failing: frozenset[str]
    why: str = ""
    whole: bool = False

    @property
    def passed(self) -> bool:
        """All that was run and had to pass did."""
        return not self.why


def key_of(changes: Changes) -> str:
    """Equal for changes whose Python has the same syntax trees, whatever its layout and comments; others by their bytes."""
    return digest(canonical([[path, _meaning(path, data)] for path, data in sorted(changes.items())]))


def _meaning(path: str, data: bytes | None) -> str:
    if data is None:
        return ""
    if path.endswith(".py"):
        try:
            return ast.dump(ast.parse(data))
        except (SyntaxError, ValueError, RecursionError):
            pass
    return digest(data)
