"""What an answer is read into."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Names:
    """File names near an edit, nearest first. `sure` stood where a name belongs; `prose` was found in a sentence."""

    sure: tuple[str, ...] = ()
    prose: tuple[str, ...] = ()


@dataclass(frozen=True)
class Replacement:
    """One search/replace block, or one hunk of a diff.

    `splits` are the possible readings as (search, replace), the most usual first: several only where a line of the text
    looks like the divider. `line` is where it begins in the answer, from 1.
    """

    names: Names
    splits: tuple[tuple[str, str], ...]
    line: int = field(compare=False)


@dataclass(frozen=True)
class Code:
    """One fenced block without markers: a function or a file. `language` is the fence's tag, '' without one."""

    names: Names
    text: str
    language: str
    line: int = field(compare=False)


@dataclass(frozen=True)
class Parsed:
    """Edits in the order of the answer, and what was ignored."""

    edits: tuple[Replacement | Code, ...]
    notes: tuple[str, ...] = ()
