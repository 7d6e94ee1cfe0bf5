"""Search/replace blocks and hunks of diffs, applied to the files that they mean: all of them or none."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autopatch.repair.answers import Replacement
from autopatch.repair.edits import EditError, Kind
from autopatch.repair.matching import AlreadyThere, Ambiguous, Match, Missing, place
from autopatch.repair.matching.copied import says_elision
from autopatch.repair.paths import resolve, untouchable
from autopatch.repair.tree import Tree

Found = Match | Ambiguous | Missing | AlreadyThere
_SHOWN_LINES = 12
"""Lines of the nearest place that a model is shown."""


@dataclass
class Draft:
    """Texts as they will be, by path, and what there is to say. `texts` gives the file as it is; it raises EditError."""

    tree: Tree
    shown: Sequence[str]
    texts: Mapping[str, str]
    changed: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Failure:
    """One edit that cannot be applied."""

    kind: Kind
    message: str
    feedback: str = ""


def replace_all(draft: Draft, edits: Sequence[Replacement]) -> None:
    """Adds the edits to the draft. Raises one EditError that names every edit that failed; the draft is then worthless."""
    failures: list[Failure] = []
    by_path: dict[str, list[tuple[int, Replacement]]] = {}
    for number, edit in enumerate(edits, 1):
        try:
            by_path.setdefault(target(draft, edit), []).append((number, edit))
        except EditError as error:
            failures.append(Failure(error.kind, f"{_which(number, len(edits))}{error}", error.feedback))
    for path, numbered in by_path.items():
        failures += _replace_in(draft, path, [(f"{_which(number, len(edits))}{path}", edit) for number, edit in numbered])
    if failures:
        _raise(draft, failures, len(edits))


def _raise(draft: Draft, failures: Sequence[Failure], count: int) -> None:
    real = [f for f in failures if f.kind != "already_applied"]
    if not real and len(failures) < count:
        draft.notes += [f.message for f in failures]
        return
    shown = real or failures
    more = f" (and {len(shown) - 1} more)" if len(shown) > 1 else ""
    told = "\n".join(f"{f.message}\n{f.feedback}".strip() for f in shown)
    raise EditError(shown[0].kind, shown[0].message + more, feedback=told + "\nNothing was changed. Send all blocks again.")


def _which(number: int, count: int) -> str:
    return f"block {number} of {count}: " if count > 1 else ""


def target(draft: Draft, edit: Replacement) -> str:
    """The file that an edit means: by its name, else the only one shown, else the only one that holds the searched text.

    Raises EditError.
    """
    if path := _by_name(draft, edit):
        return path
    new = _new_file(draft, edit)
    if new:
        return new
    known = [path for path in dict.fromkeys(draft.shown) if path in draft.tree]
    shown = [path for path in known if not untouchable(path, draft.tree)] or known
    holding = [path for path in shown if _holds(draft, path, edit)]
    if len(shown) == 1 or len(holding) == 1:
        return (holding or shown)[0]
    if len(holding) > 1:
        places = " and ".join(holding)
        raise EditError("path", f"no file is named, and the text is in {places}",
        feedback="Write the file's path above the block.")
    name = next(iter(edit.names.sure), "")
    what = f"there is no file {name!r}" if name else "no file is named"
    listed = ", ".join(shown[:8]) or "none"
    raise EditError("path", f"{what}, and none that was shown holds the text", feedback=f"{what}. The files are: {listed}.")


def _by_name(draft: Draft, edit: Replacement) -> str | None:
    """A file that a sentence mentions counts when it was shown or holds the text."""
    for name in edit.names.sure:
        if path := resolve(name, draft.tree, draft.shown):
            _note_other_name(draft, name, path)
            return path
    for name in edit.names.prose:
        try:
            path = resolve(name, draft.tree, draft.shown)
        except EditError:
            continue
        if path and not untouchable(path, draft.tree) and (path in draft.shown or _holds(draft, path, edit)):
            return path
    return None


def _note_other_name(draft: Draft, name: str, path: str) -> None:
    if not name.replace("\\", "/").endswith(path) and not path.endswith("/" + name):
        draft.notes.append(f"{name!r} was taken for {path}")


def _new_file(draft: Draft, edit: Replacement) -> str:
    """The path of a file that is to be created: nothing is searched, and there is no file with that name."""
    if not edit.names.sure or any(search.strip() for search, _ in edit.splits):
        return ""
    path = edit.names.sure[0].removeprefix("b/").removeprefix("./")
    if why := untouchable(path, draft.tree):
        raise EditError("forbidden", f"{path} {why}: it may not be created")
    return path


def _holds(draft: Draft, path: str, edit: Replacement) -> bool:
    try:
        text = _text(draft, path)
    except EditError:
        return False
    return not isinstance(_best(text, edit)[1], Missing)


def _text(draft: Draft, path: str) -> str:
    return draft.changed[path] if path in draft.changed else draft.texts[path] if path in draft.tree else ""


def _best(text: str, edit: Replacement) -> tuple[tuple[str, str], Found]:
    """Of several readings of a block the one that finds the longest text, else the first one."""
    found = [(split, place(text, *split)) for split in edit.splits]
    fitting = [one for one in found if isinstance(one[1], Match | AlreadyThere)]
    fitting = fitting or [one for one in found if isinstance(one[1], Ambiguous)]
    return max(fitting, key=lambda one: len(one[0][0])) if fitting else found[0]


def _replace_in(draft: Draft, path: str, edits: Sequence[tuple[str, Replacement]]) -> list[Failure]:
    """All edits of one file, each with its name: at once where they stand apart, else one after the other."""
    if why := untouchable(path, draft.tree):
        return [Failure("forbidden", f"{path} {why}: it may not be changed", "Change the code, not what judges it.")]
    text = _text(draft, path)
    found = [(where, *_best(text, edit)) for where, edit in edits]
    matches = sorted((match for _, _, match in found if isinstance(match, Match)), key=lambda match: match.start)
    apart = all(a.end <= b.start for a, b in zip(matches, matches[1:], strict=False))
    if len(matches) < len(found) or not apart:
        return _one_by_one(draft, path, edits)
    for match in reversed(matches):
        text = text[:match.start] + match.new + text[match.end:]
        draft.notes += [f"{path}: {note}" for note in match.notes]
    draft.changed[path] = text
    return [failure for where, split, match in found if (failure := _unwanted(path, where, split, match))]


def _one_by_one(draft: Draft, path: str, edits: Sequence[tuple[str, Replacement]]) -> list[Failure]:
    failures = []
    for where, edit in edits:
        text = _text(draft, path)
        split, match = _best(text, edit)
        if not split[0].strip() and not text.strip():
            draft.changed[path] = split[1] if split[1].endswith("\n") or not split[1] else split[1] + "\n"
        elif failure := _unwanted(path, where, split, match):
            failures.append(failure)
        elif isinstance(match, Match):
            draft.changed[path] = text[:match.start] + match.new + text[match.end:]
            draft.notes += [f"{path}: {note}" for note in match.notes]
    return failures


def _unwanted(path: str, where: str, split: tuple[str, str], found: Found) -> Failure | None:
    """Why an edit cannot be applied; None when it can, or changes nothing."""
    search, replace = split
    first = next((line.strip() for line in search.split("\n") if line.strip()), "")[:80]

    def failure(kind: Kind, message: str, feedback: str = "") -> Failure:
        return Failure(kind, f"{where}: {message}", feedback)

    if not first:
        return failure("format", "the block searches for nothing, but the file is not empty", "Search for the lines to replace.")
    said = [line.strip() for line in replace.split("\n") if says_elision(line)]
    if len(said) > sum(says_elision(line) for line in search.split("\n")):
        return failure("format", f"the new text leaves code out ({said[0]})", "Write every line of it, leave nothing out.")
    match found:
        case Match():
            return None
        case AlreadyThere(line=line):
            return failure("already_applied", f"it already reads so at line {line}", "This change is there already.")
        case Ambiguous(lines=lines):
            at = " and ".join(f"{path}:{line}" for line in lines[:6])
            return failure("ambiguous", f"{first!r} fits {len(lines)} places: {at}",
            "Search for more lines, so that only one place fits.")
        case Missing(nearest=nearest):
            return failure("missing", f"{first!r} is not in the file", _nearest(path, nearest))


def _nearest(path: str, nearest: tuple[int, str] | None) -> str:
    if nearest is None:
        return "Copy the lines to replace exactly as the file has them."
    text = "\n".join(nearest[1].split("\n")[:_SHOWN_LINES])
    return f"Copy the lines exactly. The nearest in {path}, from line {nearest[0]}:\n{text}"
