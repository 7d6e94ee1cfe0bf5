"""Where a fault may be: coverage of failing against passing tests, tracebacks, names, and last of all words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autopatch.contract.code import Covered, Frame, Place, Report
from autopatch.repair.judging import Baseline
from autopatch.repair.tree import Tree

Outline = Mapping[str, Sequence[tuple[str, int, int]]]
"""Functions by path: qualified name, first line, last line."""


@dataclass(frozen=True)
class ReducedCase:
    """One failing test, as small as it can be told. `source` is the test's own text; `frame` the last one in the project's code."""

    test: str
    expected: str
    actual: str
    message: str
    source: str
    frame: Frame | None

    def text(self) -> str:
        """As lines for a prompt or a person."""
        raise NotImplementedError


def places(
    tree: Tree, failing: Report, covered: Sequence[Covered], baseline: Baseline, *, outline: Outline | None = None, issue: str = "",
) -> tuple[Place, ...]:
    """Functions (or lines outside of functions), most suspicious first. Tests and vendored files are never among them.

    `failing` is a run of the unchanged copy; `covered` may be empty. `outline` names functions of languages other than Python.
    """
    raise NotImplementedError


def reduced_case(tree: Tree, failing: Report, baseline: Baseline) -> ReducedCase | None:
    """The failing case that says most in fewest words; None when no always-failing test was reported."""
    raise NotImplementedError
