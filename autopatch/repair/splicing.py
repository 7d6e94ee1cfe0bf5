"""A whole corrected function takes the place of the old one, in the file's own indent and line ends."""

import ast
import io
import textwrap
import tokenize
from collections.abc import Sequence

from autopatch.repair.edits import EditError
from autopatch.repair.matching.copied import says_elision
from autopatch.repair.matching.indents import Rule, rule_for
from autopatch.repair.matching.lines import Lines, indent_of, split
from autopatch.repair.matching.readings import Alignment
from autopatch.repair.matching.rewriting import rewrite
from autopatch.repair.syntax import Definition, as_far_as_python, definitions, parse_python, start_of, with_what_it_needs



def splice_python(text: str, name: str, code: str) -> tuple[str, tuple[str, ...]]:
    """`text` with the function or class of this qualified name replaced by the one in `code`, and notes. Raises EditError.

    Decorators and a docstring that the answer left out stay; imports and helpers that it brings and uses are added; other
    definitions are ignored.
    """
    name = name.replace("<locals>.", "")
    code = textwrap.dedent(code)
    answer, code = _parsed_answer(code, name)
    old, new = _find_old(text, name, answer), _find_new(answer, name)
    lines, theirs = split(text), split(code)
    rule = _indent_rule(lines, old, theirs, new)
    start = start_of(new) if new.decorator_list else new.lineno
    fresh = _indented(lines, theirs, start, new.end_lineno or start, rule)
    notes: list[str] = []
    docstring = _docstring_lines(lines, old, new)
    if docstring:
        at = start_of(new.body[0]) - start
        fresh[at:at] = docstring
        notes.append(f"{name}: its docstring, which the answer left out, was kept")
    first = (start_of(old) if new.decorator_list or not old.decorator_list else old.lineno) - 1
    last = (old.end_lineno or old.lineno) - 1
    _refuse_elisions(fresh, lines.bodies[first:last + 1], name)
    spliced = replace_lines(lines, first, last, fresh)
    changed = text[:lines.starts[first]] + spliced + text[lines.stop(last):]
    with_needs, added = with_what_it_needs(changed, answer, new, theirs)
    return with_needs, (*notes, *added)


def _parsed_answer(code: str, name: str) -> tuple[ast.Module, str]:
    """The answer's tree, and its text as far as it is code."""
    code = "\n".join(as_far_as_python(code.rstrip("\n").split("\n"))) + "\n"
    try:
        return parse_python(code), code
    except SyntaxError as error:
        where = f"line {error.lineno} of the answer: {error.msg}" if error.lineno else error.msg
        raise EditError("syntax", f"the new {name} does not parse: {where}") from error


def _find_old(text: str, name: str, answer: ast.Module) -> Definition:
    try:
        tree = parse_python(text)
    except SyntaxError as error:
        where = f"line {error.lineno}: {error.msg}"
        raise EditError("syntax", f"{name} cannot be found: the file itself does not parse, {where}") from error
    found = [node for known, node in definitions(tree) if known == name]
    if len(found) > 1:
        decorators = [ast.dump(d) for d in _find_new(answer, name).decorator_list]
        same = [node for node in found if [ast.dump(d) for d in node.decorator_list] == decorators]
        found = same if len(same) == 1 else found
    if len(found) > 1:
        at = " and ".join(str(node.lineno) for node in found)
        raise EditError("ambiguous", f"{name} is defined several times, at lines {at}")
    if not found:
        raise EditError("missing", f"the file defines no {name}")
    return found[0]


def _find_new(answer: ast.Module, name: str) -> Definition:
    """By its qualified name, else by its own name at the top or in one class."""
    every = list(definitions(answer))
    outer, _, last = name.rpartition(".")
    for wanted in dict.fromkeys((name, ".".join(name.split(".")[-2:]), last)):
        found = [node for known, node in every if known == wanted]
        if found:
            return found[-1]
    found = [node for known, node in every if known.rpartition(".")[2] == last and known.count(".") == 1]
    if len(found) == 1:
        return found[0]
    has = ", ".join(known for known, _ in every[:5]) or "nothing"
    raise EditError("missing", f"the answer defines {has}, not {name}",
        feedback=f"Answer with the whole function {last}, from its def on.")


def _indent_rule(lines: Lines, old: Definition, theirs: Lines, new: Definition) -> Rule:
    """From both functions' first line, and from the first line of both bodies."""
    pairs = [(indent_of(lines.bodies[old.lineno - 1]), indent_of(theirs.bodies[new.lineno - 1]))]
    if old.body[0].lineno > old.lineno and new.body[0].lineno > new.lineno:
        pairs.append((indent_of(lines.bodies[old.body[0].lineno - 1]), indent_of(theirs.bodies[new.body[0].lineno - 1])))
    rule = rule_for(pairs, ()) or rule_for(pairs[:1], ())
    return rule or (lambda indent: pairs[0][0] + indent)


def _indented(lines: Lines, theirs: Lines, start: int, end: int, rule: Rule) -> list[str]:
    """Lines `start` to `end` of the answer in the file's indent.

    Lines inside of a text of several lines follow, unless the file knows more of them as they are in the answer.
    """
    known, inside = set(lines.bodies), _inside_strings("".join(b + "\n" for b in theirs.bodies))
    numbers = range(start, end + 1)
    given = {number: theirs.bodies[number - 1] for number in numbers}
    shifted = {n: rule(indent_of(body)) + body[len(indent_of(body)):] if body.strip() else "" for n, body in given.items()}
    texts = [number for number in numbers if number in inside and given[number].strip()]
    as_given = sum(given[n] in known for n in texts) > sum(shifted[n] in known for n in texts)
    return [given[n] if n in inside and (as_given or not given[n].strip()) else shifted[n] for n in numbers]


def _inside_strings(code: str) -> set[int]:
    """Numbers of lines that begin inside of a string."""
    inside: set[int] = set()
    opened: list[int] = []
    begins, ends = getattr(tokenize, "FSTRING_START", -1), getattr(tokenize, "FSTRING_END", -1)
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type == begins:
                opened.append(token.start[0])
            first = opened.pop() if token.type == ends and opened else token.start[0]
            if token.type in (tokenize.STRING, ends):
                inside.update(range(first + 1, token.end[0] + 1))
    except (tokenize.TokenError, SyntaxError):
        return inside
    return inside


def _docstring_lines(lines: Lines, old: Definition, new: Definition) -> list[str]:
    """Those of the old docstring, when it stands on lines of its own and the new function has none but could."""
    first = old.body[0]
    if ast.get_docstring(old, clean=False) is None or ast.get_docstring(new, clean=False) is not None:
        return []
    signature = max([old.lineno, *(a.end_lineno or 0 for a in ast.walk(old) if isinstance(a, ast.arg))])
    shared = any(node.lineno <= (first.end_lineno or 0) for node in old.body[1:])
    if shared or first.lineno <= signature or new.body[0].lineno <= new.lineno:
        return []
    return list(lines.bodies[first.lineno - 1:first.end_lineno])


def _refuse_elisions(fresh: Sequence[str], old: Sequence[str], name: str) -> None:
    said = [body.strip() for body in fresh if says_elision(body) and body.strip() not in {line.strip() for line in old}]
    if said:
        raise EditError("format", f"{name}: the answer leaves code out ({said[0]})",
        feedback="Write every line of it, leave nothing out.")


def replace_lines(lines: Lines, first: int, last: int, fresh: Sequence[str]) -> str:
    """What lines `first` to `last` (from 0, both included) become; those that stay the same keep every byte."""
    old = lines.bodies[first:last + 1]
    whole = Alignment(first, last, tuple(range(first, last + 1)), lambda indent: indent, "position")
    return rewrite(lines, whole, old, fresh)


def splice_lines(text: str, span: tuple[int, int], code: str) -> str:
    """`text` with these lines (from 1, both included) replaced by `code`, indented as the first of them was."""
    lines, fresh = split(text), textwrap.dedent(code).rstrip().split("\n")
    first, last = span[0] - 1, min(span[1], len(lines.bodies)) - 1
    if not 0 <= first <= last:
        raise EditError("missing", f"the file has no lines {span[0]} to {span[1]}")
    old = lines.bodies[first:last + 1]
    pairs = [(indent_of(old[0]), indent_of(fresh[0]))]
    deeper = [next((indent_of(b) for b in side if b.strip() and len(indent_of(b)) > len(indent_of(side[0]))),
        None) for side in (old, fresh)]
    if deeper[0] is not None and deeper[1] is not None:
        pairs.append((deeper[0], deeper[1]))
    rule = rule_for(pairs, ()) or rule_for(pairs[:1], ()) or (lambda indent: pairs[0][0] + indent)
    _refuse_elisions(fresh, old, f"lines {span[0]}-{span[1]}")
    new = [rule(indent_of(body)) + body[len(indent_of(body)):] if body.strip() else "" for body in fresh]
    return text[:lines.starts[first]] + replace_lines(lines, first, last, new) + text[lines.stop(last):]
