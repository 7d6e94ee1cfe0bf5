"""Edits in a model's answer: search/replace blocks, fenced code, unified diffs."""

from collections.abc import Sequence

from autopatch.repair.answers.words import Code, Names, Parsed, Replacement

__all__ = ["Code", "Names", "Parsed", "Replacement", "parse"]


def parse(answer: str, shown: Sequence[str]) -> Parsed:
    """Every edit up to an invented next turn of the user. Raises EditError("format") when there is none."""
    raise NotImplementedError
