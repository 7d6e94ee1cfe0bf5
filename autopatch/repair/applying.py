"""A model's answer becomes changed files: all of it or nothing, and not a byte outside of it."""

from collections.abc import Sequence

from autopatch.repair.edits import Edited, EditError
from autopatch.repair.tree import Tree

__all__ = ["EditError", "Edited", "apply_answer"]


def apply_answer(
    answer: str, tree: Tree, shown: Sequence[str], *, function: tuple[str, str] | None = None, span: tuple[int, int] | None = None
) -> Edited:
    """Finds the edits in an answer and applies them.

    `shown`: paths that the model was shown, the most likely one first. `function=(path, qualified name)`: the answer is that
    whole function, corrected; it is spliced by its position in the syntax tree (Python), or over `span`, its first and
    last line counted from 1 (any language, needed where it is not Python). Raises EditError.
    """
    raise NotImplementedError
