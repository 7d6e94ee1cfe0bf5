"""Which file a model meant, and which files no patch may touch."""

from collections.abc import Collection, Sequence

from autopatch.repair.tree import Tree


def resolve(name: str, tree: Tree, shown: Sequence[str] = ()) -> str | None:
    """The one file of the tree that is meant: backslashes, `a/`, an absolute or placeholder folder, a typo. None if unclear.

    Raises EditError("forbidden") for a name that leads out of the repository or into `.git`.
    """
    raise NotImplementedError


def is_test(path: str) -> bool:
    """Is it a test, or made for tests only (fixtures, snapshots of outputs)?"""
    raise NotImplementedError


def steers_tools(path: str, known: Collection[str] = ()) -> bool:
    """Could it change what the test runner, git, an installer or CI does?

    Module names of the standard library count where Python would find them first, unless the path is in `known`, the
    snapshot's files: what was there already shadows nothing new.
    """
    raise NotImplementedError


def untouchable(path: str, tree: Tree) -> str:
    """Why a patch may not touch this path, in a few words; '' when it may. `tree` is the snapshot."""
    raise NotImplementedError
