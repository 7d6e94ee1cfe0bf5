"""Code in a patch that could forge a verdict, and constants that it lifted from tests. Only what is new counts."""

from autopatch.repair.tree import Tree


def suspicions(path: str, before: bytes, after: bytes) -> tuple[str, ...]:
    """What a changed file newly does that a fix has no need of, one line each with its line number. `before` is b'' if new."""
    raise NotImplementedError


def constants_from_tests(before: bytes, after: bytes, tests: Tree) -> tuple[str, ...]:
    """Literals of `after` that `before` has not and some test has, as written, each with the test's path."""
    raise NotImplementedError
