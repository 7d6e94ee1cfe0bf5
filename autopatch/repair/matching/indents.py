"""How the indent of a copied text differs from the file's, as a rule that also holds for new lines."""

import math
from collections.abc import Callable, Iterable, Sequence

Rule = Callable[[str], str]
"""From the indent of a line in the answer to its indent in the file."""


def rule_for(pairs: Sequence[tuple[str, str]], others: Iterable[str]) -> Rule | None:
    """The rule that turns each copied indent into the file's: pairs of (in the file, in the copy).

    `others` are the indents of the copy's other lines, which tell its unit. None when no uniform rule does it.
    """
    plain = [(ours, _plain(theirs)) for ours, theirs in pairs]
    ours, theirs = plain[0] if plain else ("", "")
    rules: list[Rule] = [_same]
    if ours.endswith(theirs):
        rules.append(_longer(ours.removesuffix(theirs)))
    if theirs.endswith(ours):
        rules.append(_shorter(theirs.removesuffix(ours)))
    rules += _converting(plain, [_plain(other) for other in others])
    return next((rule for rule in rules if all(rule(t) == o for o, t in plain)), None)


def _plain(indent: str) -> str:
    return indent.replace("\u00a0", " ").replace("\u3000", "  ")


def _same(indent: str) -> str:
    return _plain(indent)


def _longer(prefix: str) -> Rule:
    return lambda indent: prefix + _plain(indent)


def _shorter(prefix: str) -> Rule:
    return lambda indent: _plain(indent).removeprefix(prefix) if _plain(indent).startswith(prefix) else ""


def _converting(pairs: Sequence[tuple[str, str]], others: Sequence[str]) -> list[Rule]:
    """Between tabs and blanks, or between widths: levels of the copy's unit become levels of the file's."""
    our_unit = unit_of([ours for ours, _ in pairs])
    their_unit = unit_of([*(theirs for _, theirs in pairs), *others])
    if not our_unit or not their_unit:
        return []
    rules = []
    for unit in dict.fromkeys((their_unit, "    ", "  ", "\t")):
        levels = [(len(ours) // len(our_unit), len(theirs) // len(unit)) for ours, theirs in pairs]
        rules.append(_levels(unit, our_unit, levels[0][0] - levels[0][1]))
    return rules


def _levels(theirs: str, ours: str, deeper: int) -> Rule:
    def rule(indent: str) -> str:
        level, rest = divmod(len(_plain(indent)), len(theirs))
        if _plain(indent).strip(theirs[0]) or (rest and theirs == "\t"):
            return _plain(indent)
        return ours * max(level + deeper, 0) + " " * rest

    return rule


def unit_of(indents: Iterable[str]) -> str:
    """One step of these indents: a tab, or the blanks that they are multiples of; '' when none is indented or they mix."""
    used = [indent for indent in indents if indent]
    if used and all(set(indent) == {"\t"} for indent in used):
        return "\t"
    if not used or any(set(indent) != {" "} for indent in used):
        return ""
    return " " * math.gcd(*(len(indent) for indent in used))
