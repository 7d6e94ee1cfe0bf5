"""Text that is nearly the searched one: taken only when nothing else in the file comes close."""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from autopatch.repair.matching.folding import fold_quotes
from autopatch.repair.matching.lines import Lines, indent_of, is_comment, word_characters
from autopatch.repair.matching.readings import Alignment, indent_rule

NEAR = 0.85
"""Least similarity (difflib ratio, 0 to 1) of lines that may be taken for the searched ones."""
NEAR_ONE_LINE = 0.9
MARGIN = 0.1
"""By how much they must be more similar than anything else in the file."""
MISSPELT = 0.75
"""Least similarity of a word to the one that is meant."""
TELLING = 8
"""Letters, digits and underscores that it takes to recognise near text."""
SHOWN = 0.5
"""Least similarity of lines that are shown to a model as the nearest ones."""
_LONGEST = 4000
"""Characters of a text that is looked for by likeness; a longer one is not."""
_COMPARED = 20_000
"""Characters that are compared one by one, over all windows: what likeness may cost."""
_FEW = 4
"""Lines from which on a window must share one with the text."""
_LOOKED_AT = 100
_DEFINES = re.compile(r"^\s*(?:async\s+)?(?:def|class|function|func|fn|interface|struct)\s+(\w+)", re.M)


@dataclass(frozen=True)
class Near:
    """Lines `numbers` of the file, compared with the searched ones in `wanted`, and how similar they are."""

    score: float
    numbers: tuple[int, ...]
    wanted: tuple[int, ...]


def nearest(lines: Lines, search: Sequence[str]) -> list[Near]:
    """The most similar places, best first, none overlapping. Blank lines and comments do not count."""
    ours = [(at, fold_quotes(body)) for at, body in enumerate(lines.bodies) if body.strip() and not is_comment(body)]
    theirs = [(at, fold_quotes(body)) for at, body in enumerate(search) if body.strip() and not is_comment(body)]
    wanted = "\n".join(key for _, key in theirs)
    if not theirs or len(wanted) > _LONGEST:
        return []
    matcher = difflib.SequenceMatcher(None, "", wanted, autojunk=False)
    windows = []
    for at in _worth_a_look([key for _, key in ours], [key for _, key in theirs]):
        matcher.set_seq1("\n".join(key for _, key in ours[at:at + len(theirs)]))
        if matcher.real_quick_ratio() >= SHOWN and (score := matcher.quick_ratio()) >= SHOWN:
            windows.append((score, at))
    scored = []
    for _, at in sorted(windows, key=lambda window: (-window[0], window[1]))[:max(3, _COMPARED // len(wanted))]:
        window = ours[at:at + len(theirs)]
        matcher.set_seq1("\n".join(key for _, key in window))
        scored.append(Near(matcher.ratio(), tuple(o for o, _ in window), tuple(t for t, _ in theirs)))
    return _apart(sorted(scored, key=lambda near: (-near.score, near.numbers)))


def _worth_a_look(ours: Sequence[str], theirs: Sequence[str]) -> list[int]:
    """Where windows begin. Of a longer text some lines are right, and only the windows with most of those are compared."""
    starts = list(range(len(ours) - len(theirs) + 1))
    if len(theirs) < _FEW:
        return starts
    wanted = set(theirs)
    right = list(accumulate((key in wanted for key in ours), initial=0))
    shared = {at: right[at + len(theirs)] - right[at] for at in starts}
    return sorted((at for at in starts if shared[at]), key=lambda at: (-shared[at], at))[:_LOOKED_AT]


def _apart(scored: Sequence[Near]) -> list[Near]:
    kept: list[Near] = []
    for near in scored:
        if near.score >= SHOWN and not any(set(near.numbers) & set(other.numbers) for other in kept):
            kept.append(near)
    return kept


def only_near(lines: Lines, found: Sequence[Near], search: Sequence[str], replace: Sequence[str]) -> Alignment | None:
    """The best place as an alignment, when it is good, well before the next, and defines the same names.

    Lines that the edit changes may differ in the spelling of words only: not in a number, an operator or another word.
    """
    if not found:
        return None
    best, least = found[0], NEAR if len(found[0].numbers) > 1 else NEAR_ONE_LINE
    if best.score < least or (len(found) > 1 and best.score - found[1].score < MARGIN):
        return None
    ours, theirs = [lines.bodies[o] for o in best.numbers], [search[t] for t in best.wanted]
    if _DEFINES.findall("\n".join(ours)) != _DEFINES.findall("\n".join(theirs)) or word_characters("".join(theirs)) < TELLING:
        return None
    kept = {fold_quotes(body) for body in replace}
    changed = [(fold_quotes(o), fold_quotes(t)) for o, t in zip(ours, theirs, strict=True) if fold_quotes(t) not in kept]
    if not all(_is_misspelt(o, t) for o, t in changed):
        return None
    indents = [(indent_of(o), indent_of(t)) for o, t in zip(ours, theirs, strict=True)]
    rule = indent_rule(indents, search, replace)
    if rule is None:
        return None
    owners = dict(zip(best.wanted, best.numbers, strict=True))
    return Alignment(
        best.numbers[0], best.numbers[-1], tuple(owners.get(t) for t in range(len(search))), rule,
        f"near text ({best.score:.0%} alike)",
    )


def _is_misspelt(ours: str, theirs: str) -> bool:
    if re.findall(r"[\d]+|[^\w\s]", ours) != re.findall(r"[\d]+|[^\w\s]", theirs):
        return False
    words = re.findall(r"[^\W\d]+", ours), re.findall(r"[^\W\d]+", theirs)
    return len(words[0]) == len(words[1]) and all(
        o == t or difflib.SequenceMatcher(None, o, t, autojunk=False).ratio() >= MISSPELT for o, t in zip(*words, strict=True)
    )
