"""The code that a model gets to read: whole functions before fragments, within a budget."""

from collections.abc import Sequence

from autopatch.contract.code import Frame, Place
from autopatch.repair.tree import Tree

CHARACTERS_PER_TOKEN = 3.2
"""Estimate for code; tokenizers of code models lie between 3 and 4. No tokenizer is at hand here, so it is kept low."""


def estimate_tokens(text: str) -> int:
    """About how many tokens a text has, by its length."""
    return -int(-len(text) // CHARACTERS_PER_TOKEN)


def choose(
    tree: Tree, places: Sequence[Place], frames: Sequence[Frame], similar: Sequence[Place] = (), *,
    tokens: int | None = None, lines: int | None = None,
) -> str:
    """Code for a prompt: what is suspicious, what the traceback names, then what is similar, with imports, under a heading a file.

    At most `tokens` (estimated) and `lines`; the first place is cut around its suspicious lines when it alone is too long.
    """
    raise NotImplementedError
