"""Unified diffs in git's format, byte by byte."""

from collections.abc import Mapping
from dataclasses import dataclass

from autopatch.repair.tree import Tree


@dataclass(frozen=True)
class Hunk:
    """Lines with their ends, first character ' ', '-' or '+'. A line without a newline is the last of its file."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    lines: tuple[bytes, ...]


@dataclass(frozen=True)
class FileDiff:
    """One file. `old` is None for a new file, `new` is None for a removed one. Modes are git's, '' where none is written."""

    old: str | None
    new: str | None
    old_mode: str
    new_mode: str
    hunks: tuple[Hunk, ...]
    extras: tuple[str, ...] = ()
    """Header lines that we never write: renames, copies, binary data."""

    @property
    def path(self) -> str:
        """The file's path after the change, or before its removal."""
        return self.new if self.new is not None else self.old or ""


def make_diff(before: Tree, after: Tree) -> bytes:
    """What `git apply` turns `before` into `after` with; b'' when they are equal.

    Modes stay as `before` has them and new files have 100644. Raises ContractError for a path that git would not take.
    """
    raise NotImplementedError


def parse_diff(diff: bytes) -> tuple[FileDiff, ...]:
    """The files of a diff. Raises ContractError that names the line for whatever is not exactly such a diff."""
    raise NotImplementedError


def apply_diff(diff: bytes, tree: Tree) -> Mapping[str, bytes | None]:
    """New contents by path, None for removed files. Exact: no offset, no fuzz. Raises ContractError where it does not fit."""
    raise NotImplementedError
