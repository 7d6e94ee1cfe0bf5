"""What a result is worth: the visible tests, then the hidden ones, on a copy whose tests are the repository's own."""

from dataclasses import dataclass

from autopatch.repair.tree import Tree
from bench.repair.box import Box
from bench.repair.case import HIDDEN, Case, changed, changed_lines, protected, restored
from bench.repair.counting import Counts, counts
from bench.repair.proc import Ran


@dataclass(frozen=True)
class Judged:
    """`plausible`: all visible tests passed. `solved`: all hidden ones too. `touched`: tests and steering files it changed."""

    changed: bool
    plausible: bool
    solved: bool
    diff_lines: int
    touched: tuple[str, ...] = ()


def judge(case: Case, result: Tree, box: Box, limit_s: float) -> Judged:
    """Exit codes alone are not believed: as many tests as the case has must be reported as passed, and none as failed.

    Where no fix is due, no tests are run: any change is wrong.
    """
    base = case.repository
    differing = [path for path in changed(base, result) if not path.startswith(f"{HIDDEN}/")]
    touched = tuple(path for path in differing if protected(path, base))
    files = restored(base, result)
    own = case.expected in ("fixed", None) and bool(changed(base, files))
    plausible = own and green(box.run(files, case.command, limit_s), case.tests)
    solved = plausible and green(box.run({**files, **case.hidden}, case.hidden_command, limit_s), case.hidden_tests)
    return Judged(bool(differing), plausible, solved, changed_lines(base, files), touched)


def green(ran: Ran, tests: int) -> bool:
    """Did exactly so many tests pass, and nothing fail?"""
    return tests > 0 and ran.code == 0 and counted(ran) == Counts(tests, 0)


def counted(ran: Ran) -> Counts | None:
    """What the runner said; unittest says it on standard error."""
    return counts(ran.stdout) or counts(ran.stderr)


def is_green(case: Case, box: Box, limit_s: float) -> bool:
    """Do the visible tests pass on the repository as it is given?"""
    return green(box.run(case.repository, case.command, limit_s), case.tests)
