"""Runs a tool on cases, one after the other, and writes down each before the next begins."""

import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from bench.repair.box import Box
from bench.repair.case import Case
from bench.repair.judge import Judged, is_green, judge
from bench.repair.results import Log, Result
from bench.repair.tools import Attempted, Tool

JUDGE_S = 60.0
"""For one run of visible or hidden tests when a result is judged."""

Seen = Callable[[Result | None, int, int], None]
"""Told the result of a case, how many are finished and how many there are; None for what was finished before."""


def chosen(cases: Sequence[Case], number: int, seed: int) -> list[Case]:
    """So many cases, drawn by the seed, in their own order; all when `number` is 0 or more than there are.

    A smaller draw is part of a larger one.
    """
    if not 0 < number < len(cases):
        return list(cases)
    names = sorted(case.id for case in cases)
    random.Random(seed).shuffle(names)
    return [case for case in cases if case.id in names[:number]]


def run_all(cases: Sequence[Case], tool: Tool, box: Box, log: Log, limit_s: float, seen: Seen) -> None:
    """Cases that the log has are not run again. Raises what the tool raises when it cannot be run at all."""
    known = {result.case for result in log.done}
    finished = sum(case.id in known for case in cases)
    seen(None, finished, len(cases))
    for case in cases:
        if case.id in known:
            continue
        result = one(case, tool, box, limit_s)
        log.add(result)
        finished += 1
        seen(result, finished, len(cases))


def one(case: Case, tool: Tool, box: Box, limit_s: float) -> Result:
    """The tool's work on one case, judged."""
    if case.expected is None:
        case = replace(case, expected="not_reproduced" if is_green(case, box, JUDGE_S) else "fixed")
    with tempfile.TemporaryDirectory(prefix="bench-repair-") as folder:
        attempted = tool.repair(case, Path(folder), limit_s)
    judged = judge(case, attempted.tree, box, JUDGE_S)
    return Result(
        case=case.id, expected=case.expected or "", verdict=attempted.verdict, right=_right(case, attempted, judged),
        changed=judged.changed, plausible=judged.plausible, solved=judged.solved, attempts=attempted.attempts,
        calls=attempted.calls, prompt_tokens=attempted.prompt_tokens, output_tokens=attempted.output_tokens,
        seconds=round(attempted.seconds, 2), diff_lines=judged.diff_lines, touched=judged.touched, late=attempted.late,
        leaked=attempted.leaked, basis=attempted.basis[:200], reason=attempted.reason[:300],
    )


def _right(case: Case, attempted: Attempted, judged: Judged) -> bool:
    if case.expected == "fixed":
        return judged.solved
    return not judged.changed and attempted.verdict in ("", case.expected)
