"""Readings of "the same lines", from strict to loose, and where they find a text."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from autopatch.repair.matching.folding import fold, fold_quotes
from autopatch.repair.matching.indents import Rule, rule_for
from autopatch.repair.matching.lines import Lines, indent_of, is_comment


@dataclass(frozen=True)
class Alignment:
    """Lines `first` to `last` of a file (from 0, both included) are the searched ones; `owners` says which is which.

    An owner is None for a searched line that the file has not (a blank one or a comment). `indent` is for new lines.
    """

    first: int
    last: int
    owners: tuple[int | None, ...]
    indent: Rule
    how: str


@dataclass(frozen=True)
class Reading:
    """Lines with equal keys are the same. `skips`: lines that do not count. `strict`: the indent is part of the key."""

    how: str
    key: Callable[[str], str]
    skips: Callable[[str], bool] = lambda body: False
    strict: bool = False


def _blank(body: str) -> bool:
    return not body.strip()


def _idle(body: str) -> bool:
    return not body.strip() or is_comment(body)


READINGS = (
    Reading("exact", lambda body: body, strict=True),
    Reading("trailing blanks", str.rstrip, strict=True),
    Reading("indent", str.strip),
    Reading("blank lines", str.strip, _blank),
    Reading("blank lines and comments", str.strip, _idle),
    Reading("look-alike characters", fold, _blank),
    Reading("kind of quotes", fold_quotes, _blank),
    Reading("look-alike characters and comments", fold_quotes, _idle),
)


def align(lines: Lines, search: Sequence[str], replace: Sequence[str], reading: Reading) -> list[Alignment]:
    """Every place where this reading finds the searched lines, with an indent that differs in one uniform way only."""
    ours = [(at, reading.key(body)) for at, body in enumerate(lines.bodies) if not reading.skips(body)]
    theirs = [(at, reading.key(body)) for at, body in enumerate(search) if not reading.skips(body)]
    if not any(key.strip() for _, key in theirs):
        return []
    found = []
    for at in _sublists([key for _, key in ours], [key for _, key in theirs]):
        pairs = [(ours[at + n][0], theirs[n][0]) for n in range(len(theirs))]
        indent = _indent(lines, search, replace, pairs, reading.strict)
        if indent is not None:
            found.append(Alignment(pairs[0][0], pairs[-1][0], _owners(lines, search, pairs), indent, reading.how))
    return found


def _sublists(whole: Sequence[str], part: Sequence[str]) -> Iterator[int]:
    at = -1
    while True:
        try:
            at = whole.index(part[0], at + 1)
        except ValueError:
            return
        if whole[at:at + len(part)] == part:
            yield at


def _indent(
    lines: Lines, search: Sequence[str], replace: Sequence[str], pairs: Sequence[tuple[int, int]], strict: bool
) -> Rule | None:
    if strict:
        return lambda indent: indent
    indents = [(indent_of(lines.bodies[o]), indent_of(search[t])) for o, t in pairs if search[t].strip()]
    return indent_rule(indents, search, replace)


def indent_rule(pairs: Sequence[tuple[str, str]], search: Sequence[str], replace: Sequence[str]) -> Rule | None:
    """The rule for new lines. New lines that begin where the file's do, unlike the searched ones, are right as they are."""
    first = next((indent_of(body) for body in replace if body.strip()), "")
    if pairs[0][0] == first != pairs[0][1]:
        return lambda indent: indent
    return rule_for(pairs, [indent_of(body) for body in (*search, *replace) if body.strip()])


def _owners(lines: Lines, search: Sequence[str], pairs: Sequence[tuple[int, int]]) -> tuple[int | None, ...]:
    """What counts is paired already; of the lines in between, equal ones are paired in order."""
    owners: dict[int, int] = {theirs: ours for ours, theirs in pairs}
    for (ours, theirs), (next_ours, next_theirs) in zip(pairs, pairs[1:], strict=False):
        at = ours + 1
        for line in range(theirs + 1, next_theirs):
            same = [o for o in range(at, next_ours) if lines.bodies[o].strip() == search[line].strip()]
            if same:
                owners[line], at = same[0], same[0] + 1
    return tuple(owners.get(line) for line in range(len(search)))
