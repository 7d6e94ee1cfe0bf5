"""Which diffs are refused before git sees them."""

from autopatch.repair.tree import Tree


def refusals(diff: bytes, tree: Tree) -> tuple[str, ...]:
    """Why this diff may not be applied to the snapshot `tree`, one line a reason; empty when it may."""
    raise NotImplementedError
