"""What runs of the unchanged copy teach to expect, and whether a later run keeps to it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from autopatch.contract.code import Report, TestTable
from autopatch.contract.evidence import BlobRef


@dataclass(frozen=True)
class Baseline:
    """What several runs of the unchanged copy have in common. Ids of tests, each kind sorted.

    `failing` failed in every run and `passing` passed in every run; `flaky` did now this and now that; `skipped` never ran.
    Only `red` may be repaired.
    """

    verdict: Literal["red", "green", "flaky", "environment_error"]
    reason: str
    failing: tuple[str, ...] = ()
    passing: tuple[str, ...] = ()
    flaky: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True)
class Judged:
    """One run held against a baseline: what it fixed, what it broke, and what it did not report."""

    ok: bool
    reason: str
    fixed: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def expected(reports: Sequence[Report]) -> Baseline:
    """What runs of the unchanged copy agree on. No reports at all is an environment error: nothing was seen."""
    raise NotImplementedError


def judge(baseline: Baseline, report: Report) -> Judged:
    """Does every always-failing test pass now, does every always-passing one still, and was each reported and not skipped?"""
    raise NotImplementedError


def table(report: Report, ref: BlobRef | None = None) -> TestTable:
    """A run in short. `failing` holds the first 20 of its cases that failed, erred or timed out."""
    raise NotImplementedError
