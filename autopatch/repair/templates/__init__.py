"""Single edits that heal common faults, most likely first, without any model."""

from autopatch.repair.templates.mutant import Mutant
from autopatch.repair.templates.search import mutants, search_order

__all__ = ["Mutant", "mutants", "search_order"]
