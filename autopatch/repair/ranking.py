"""Which of several patches that pass the visible tests is most likely right."""

import base64
import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autopatch.contract.code import FileChange
from autopatch.repair.forgeries import constants_from_tests
from autopatch.repair.probes import probe_inputs
from autopatch.repair.tree import Tree

__all__ = ["Survivor", "change_size", "lifts_constants", "probe_inputs", "rank"]

LINE = 1000


@dataclass(frozen=True)
class Survivor:
    """A candidate that passed. `prior` is 0 to 1; `size` is `change_size` of it; `whole` when the whole suite was run and passed.

    `lifted`: it holds constants that only the tests hold. `fingerprint`: outputs of the patched function for generated inputs,
    one a probe, in the order of `probe_inputs`; empty when there are none.
    """

    id: str
    changes: tuple[FileChange, ...]
    description: str
    origin: str
    prior: float
    lifted: bool = False
    fingerprint: tuple[str, ...] = ()
    size: int = 0
    whole: bool = True


def rank(candidates: Sequence[Survivor]) -> tuple[Survivor, ...]:
    """Best first; equal ones keep their order.

    The whole suite counts before all else, then that no constants were lifted from the tests, then one figure: the prior, by how
    many other survivors (weighed by their priors) gave the same outputs, by how seldom the function fails on generated inputs,
    by how small the change is.
    """
    return tuple(sorted(candidates, key=lambda c: (not c.whole, c.lifted, -_merit(c, candidates))))


def _merit(candidate: Survivor, candidates: Sequence[Survivor]) -> float:
    lines = max(1, candidate.size // LINE)
    return candidate.prior * agreement(candidate, candidates) ** 2 * (1 - failures(candidate) / 2) / math.sqrt(lines)


def failures(candidate: Survivor) -> float:
    """Share of generated inputs on which the patched function raises."""
    return sum(o.startswith("!") for o in candidate.fingerprint) / max(1, len(candidate.fingerprint))


def agreement(candidate: Survivor, candidates: Sequence[Survivor]) -> float:
    """Mean over generated inputs of the share of survivors, weighed by prior, that give the same output. 1 without inputs.

    0 where others answered and this one did not."""
    voters = [c for c in candidates if len(c.fingerprint) == len(candidate.fingerprint)]
    total = sum(c.prior for c in voters)
    if not candidate.fingerprint or not total:
        return 0.0 if any(c.fingerprint for c in candidates) else 1.0
    same = sum(c.prior for c in voters for a, b in zip(c.fingerprint, candidate.fingerprint, strict=True) if a == b)
    return same / total / len(candidate.fingerprint)


def change_size(tree: Tree, changes: Sequence[FileChange]) -> int:
    """1,000 for each line and 1 for each character that a change removes or adds, over all files, whichever side is larger."""
    size = 0
    for change in changes:
        before = tree.get(change.path, b"").decode("latin-1").splitlines(keepends=True)
        after = base64.b64decode(change.content or "").decode("latin-1").splitlines(keepends=True)
        for tag, a, b, c, d in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
            if tag != "equal":
                size += LINE * max(b - a, d - c) + _characters("".join(before[a:b]), "".join(after[c:d]))
    return size


def _characters(before: str, after: str) -> int:
    start = next((i for i, (x, y) in enumerate(zip(before, after, strict=False)) if x != y), min(len(before), len(after)))
    rest = list(zip(before[start:][::-1], after[start:][::-1], strict=False))
    end = next((i for i, (x, y) in enumerate(rest) if x != y), len(rest))
    return max(len(before), len(after)) - start - end


def lifts_constants(tree: Tree, changes: Sequence[FileChange], tests: Mapping[str, bytes]) -> bool:
    """Does a change bring in a telling literal that the tests hold and the file did not?"""
    return any(
        constants_from_tests(tree.get(change.path, b""), base64.b64decode(change.content or ""), tests)
        for change in changes if change.path not in tests
    )
