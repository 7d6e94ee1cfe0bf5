"""Which of several patches that pass the visible tests is most likely right."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autopatch.contract.code import FileChange, Place
from autopatch.repair.tree import Tree


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
    """Best first; equal ones keep their order."""
    raise NotImplementedError


def change_size(tree: Tree, changes: Sequence[FileChange]) -> int:
    """Characters that differ, over all files, by lines that differ first: 1,000 a line and 1 a character."""
    raise NotImplementedError


def lifts_constants(tree: Tree, changes: Sequence[FileChange], tests: Mapping[str, bytes]) -> bool:
    """Does a change bring in a literal (other than -1, 0, 1, 2, '', a bool, None) that the tests hold and the file did not?"""
    raise NotImplementedError


def probe_inputs(tree: Tree, place: Place, tests: Mapping[str, bytes], *, seed: int = 0) -> str:
    """A Python script that calls the function at `place` with generated inputs and prints one JSON list of outputs (strings).

    To be run in the repository's root, in the sandbox, on each survivor. '' when the place is not a top-level Python function
    or nothing is known of its inputs.
    """
    raise NotImplementedError
