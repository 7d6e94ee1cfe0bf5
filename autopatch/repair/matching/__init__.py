"""Where a text to be replaced stands in a file: the strictest reading that fits, and never one of two."""

from autopatch.repair.matching.words import AlreadyThere, Ambiguous, Match, Missing

__all__ = ["AlreadyThere", "Ambiguous", "Match", "Missing", "place"]


def place(text: str, search: str, replace: str) -> Match | Ambiguous | Missing | AlreadyThere:
    """Finds `search` in `text` and what the place would read afterwards.

    Tried in order: exact; line ends and trailing spaces; uniform indent; blank lines and comments; Unicode forms, quotes and
    spacing; copied line numbers, + and -; `...` for left-out lines; part of a line; unique near text. The first reading that
    fits decides: several places are a tie.
    """
    raise NotImplementedError
