"""Tools that are given a broken repository. None of them is believed: what counts is what it leaves behind."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from autopatch.repair.tree import Tree
from bench.repair.case import Case
from bench.repair.proxy import Proxy


@dataclass(frozen=True)
class Attempted:
    """`tree` is the repository as the tool would have it. `verdict` is what it says itself, where it says anything.

    Tokens are as the model server told them. `attempts` is 0 where the tool has no such thing.
    """

    tree: Tree
    verdict: str = ""
    reason: str = ""
    attempts: int = 0
    calls: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    basis: str = ""
    late: bool = False
    leaked: int = 0


class Tool(Protocol):
    """One way to repair."""

    @property
    def name(self) -> str:
        """As on the command line."""
        ...

    @property
    def how(self) -> str:
        """How it was run, for the report."""
        ...

    def repair(self, case: Case, folder: Path, limit_s: float) -> Attempted:
        """`folder` is an empty one of the tool's own. Raises OperatorError or Unavailable when it cannot be run at all."""
        ...


GRACE_S = 5.0
"""A tool that reaches the limit is interrupted, and killed so much later: it may clean up."""
Counting = Callable[[], Proxy]
"""A proxy before the model server, new for each case."""
