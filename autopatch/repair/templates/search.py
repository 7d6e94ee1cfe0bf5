"""Which edits are tried, and in which order."""

from collections.abc import Iterator, Sequence

from autopatch.contract.code import Place
from autopatch.repair.templates.mutant import Mutant
from autopatch.repair.tree import Tree


def mutants(path: str, source: bytes, place: Place) -> Iterator[Mutant]:
    """Edits inside a place, each of which parses, no two with the same syntax tree. None for a file that does not parse."""
    raise NotImplementedError


def search_order(tree: Tree, places: Sequence[Place], limit: int) -> tuple[Mutant, ...]:
    """At most `limit` edits over all places, by suspicion of the line x prior of the template, spread over places."""
    raise NotImplementedError
