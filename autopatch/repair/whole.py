"""Fenced code without markers: a corrected function, several, or a whole file."""

import difflib
import textwrap
from collections.abc import Sequence

from autopatch.repair.answers import Code, Replacement
from autopatch.repair.edits import EditError
from autopatch.repair.matching.copied import says_elision
from autopatch.repair.matching.lines import split
from autopatch.repair.paths import untouchable
from autopatch.repair.replacing import Draft, target
from autopatch.repair.splicing import replace_lines, splice_lines, splice_python
from autopatch.repair.syntax import Definition, as_far_as_python, definitions, loses, parse_python, parses, rebinds

ALIKE = 0.4
"""Least similarity of lines (difflib ratio, 0 to 1) at which code without definitions passes for the whole file."""


def put_function(draft: Draft, codes: Sequence[Code], path: str, name: str, span: tuple[int, int] | None) -> None:
    """The last block that holds this function, and a change of it, replaces it. Raises EditError."""
    if why := untouchable(path, draft.tree):
        raise EditError("forbidden", f"{path} {why}: it may not be changed")
    text, errors, echoed = draft.texts[path], [], False
    for code in reversed(codes):
        try:
            new, notes = _spliced(path, text, name, code.text, span)
        except EditError as error:
            errors.append(error)
            continue
        if new != text:
            draft.changed[path] = new
            draft.notes += [f"{path}: {note}" for note in notes]
            return
        echoed = True
    if echoed:
        raise EditError("unchanged", f"{name} comes back as it was: nothing would change",
        feedback=f"Change {name} so that the test passes.")
    raise next((error for error in errors if error.kind != "missing"), errors[0])


def _spliced(path: str, text: str, name: str, code: str, span: tuple[int, int] | None) -> tuple[str, tuple[str, ...]]:
    if path.endswith((".py", ".pyi")) and (span is None or parses(text)):
        return splice_python(text, name, code)
    if span is None:
        raise EditError("missing", f"{path}: where {name} stands is not known", feedback="Answer with search/replace blocks.")
    last = name.rpartition(".")[2]
    if last and last not in code:
        raise EditError("missing", f"the answer does not hold {last}", feedback=f"Answer with the whole function {last}.")
    return splice_lines(text, span, code), ()


def put_all(draft: Draft, codes: Sequence[Code]) -> None:
    """Every block becomes the whole file, or the functions, that it holds. Raises EditError."""
    errors: list[EditError] = []
    serious = False
    for code in codes:
        try:
            path = _defining(draft, code) or target(draft, Replacement(code.names, ((code.text, ""),), code.line))
            if why := untouchable(path, draft.tree):
                raise EditError("forbidden", f"{path} {why}: it may not be changed")
            _put(draft, path, code)
        except EditError as error:
            errors.append(error)
            tagged = bool(code.language or code.names.sure)
            serious = serious or error.kind in ("forbidden", "ambiguous") or (error.kind == "syntax" and tagged)
    if errors and (serious or not draft.changed):
        raise next((error for error in errors if error.kind in ("forbidden", "ambiguous", "syntax")), errors[0])
    draft.notes += [f"a block was ignored: {error}" for error in errors]


def _defining(draft: Draft, code: Code) -> str | None:
    """The one shown file that defines what a nameless block defines."""
    if code.names.sure or not parses(textwrap.dedent(code.text)):
        return None
    wanted = {name for name, _ in definitions(parse_python(textwrap.dedent(code.text)))}
    shown = [path for path in dict.fromkeys(draft.shown) if path.endswith(".py") and not untouchable(path, draft.tree)]
    found = [path for path in shown if path in draft.tree and wanted & set(_defined(draft.texts[path]))]
    return found[0] if len(found) == 1 else None


def _defined(text: str) -> list[str]:
    """Qualified names, and those of methods by themselves."""
    names = [name for name, _ in definitions(parse_python(text))] if parses(text) else []
    return [*names, *(name.rpartition(".")[2] for name in names)]


def _put(draft: Draft, path: str, code: Code) -> None:
    text = draft.changed.get(path, draft.texts[path])
    if path.endswith((".py", ".pyi")):
        plain = textwrap.dedent(code.text).rstrip("\n").split("\n")
        new, notes = _python(path, text, "\n".join(as_far_as_python(plain)) + "\n")
    else:
        new, notes = _whole_file(path, text, code.text), ()
    if new != text:
        draft.changed[path] = new
        draft.notes += [f"{path}: {note}" for note in notes]


def _python(path: str, text: str, code: str) -> tuple[str, tuple[str, ...]]:
    """A whole file when all that the file's top binds and does is there, else the functions and classes that it holds."""
    try:
        answer = parse_python(code)
    except SyntaxError as error:
        raise EditError("syntax", f"{path}: the new code does not parse, line {error.lineno} of it: {error.msg}") from error
    try:
        file = parse_python(text)
    except SyntaxError:
        return _whole_file(path, text, code), ()
    old, new = dict(definitions(file)), dict(definitions(answer))
    if not (old or new) or (old and not loses(file, answer) and not _lost_methods(old, new)):
        return _whole_file(path, text, code), ()
    if other := rebinds(file, answer):
        raise EditError("ambiguous", f"{path}: the answer changes {', '.join(other[:3])} too, and is not the whole file",
        feedback="Write functions only, or the whole file with all that stands around its functions.")
    notes, spliced = tuple[str, ...](), text
    for name in _to_splice(path, old, new):
        spliced, more = splice_python(spliced, name, code)
        notes += more
    if spliced == text:
        raise EditError("unchanged", f"{path}: its functions come back as they were, and it is not the whole file",
        feedback="Change a function, or write the whole file with all that stands around its functions.")
    return spliced, notes


def _lost_methods(old: dict[str, Definition], new: dict[str, Definition]) -> list[str]:
    return [name for name in old if name not in new and name.count(".") == 1 and name.partition(".")[0] in new]


def _to_splice(path: str, old: dict[str, Definition], new: dict[str, Definition]) -> list[str]:
    """Qualified names in the file of what the answer defines: a class only where it has all of its methods."""
    wanted: list[str] = []
    lost = {name.partition(".")[0] for name in _lost_methods(old, new)}
    for name in new:
        outer = name.rpartition(".")[0]
        if outer and (outer in wanted or outer not in lost):
            continue
        alike = [name] if name in old else [known for known in old if known.endswith("." + name) and "." not in name]
        if name in lost:
            continue
        if len(alike) > 1:
            raise EditError("ambiguous", f"{path}: {name} could be {' or '.join(alike)}",
            feedback="Write the class around the method.")
        wanted += alike
    if not wanted:
        has = ", ".join(list(new)[:5]) or "no function"
        raise EditError("missing", f"{path}: the answer holds {has}, which the file does not define, and is not the whole file")
    return wanted


def _whole_file(path: str, text: str, code: str) -> str:
    """The new text, in which lines that stay keep every byte. Raises EditError when it seems to be a part only."""
    lines, fresh = split(text), list(split(code).bodies)
    if fresh and lines.bodies and path in fresh[0] and fresh[0].strip() != lines.bodies[0].strip():
        fresh.pop(0)
    said = [body.strip() for body in fresh if says_elision(body) and body not in lines.bodies]
    if said:
        raise EditError("format", f"{path}: the answer leaves code out ({said[0]})",
        feedback="Write every line of it, leave nothing out.")
    alike = difflib.SequenceMatcher(None, [b.strip() for b in lines.bodies], [b.strip() for b in fresh], autojunk=False).ratio()
    if lines.bodies and len(lines.bodies) > 3 and alike < ALIKE:
        raise EditError("missing", f"{path}: the code is not the whole file",
        feedback="Answer with search/replace blocks, or the whole file.")
    if not lines.bodies:
        return code
    return replace_lines(lines, 0, len(lines.bodies) - 1, [*_blanks(lines.bodies), *fresh, *_blanks(lines.bodies[::-1])])


def _blanks(bodies: Sequence[str]) -> Sequence[str]:
    """Blank lines at the front, which no answer repeats."""
    filled = next((n for n, body in enumerate(bodies) if body.strip()), 0)
    return bodies[:filled]
