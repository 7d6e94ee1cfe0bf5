"""What the found lines read afterwards: lines that the edit leaves alone are kept byte by byte."""

import difflib
from collections.abc import Sequence

from autopatch.repair.matching.folding import carry_over, fold_quotes
from autopatch.repair.matching.lines import Lines, indent_of, usual_end
from autopatch.repair.matching.readings import Alignment

Line = tuple[str, str]
"""Body and end; the end is '' where another line's is to be taken."""


def rewrite(lines: Lines, found: Alignment, search: Sequence[str], replace: Sequence[str]) -> str:
    """The text that takes the place of lines `found.first` to `found.last`."""
    edit = _Edit(lines, found, search, replace)
    before, after = [body.rstrip() for body in search], [body.rstrip() for body in replace]
    for what, i, until, j, end in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        for n in range(max(until - i, end - j)):
            line = i + n if i + n < until else None
            if line is not None:
                edit.keep_what_was_skipped(line)
            if what == "equal" and line is not None:
                edit.keep(line)
            elif j + n < end:
                edit.write(j + n, line)
    return _joined(edit.out, lines, found.last)


class _Edit:
    def __init__(self, lines: Lines, found: Alignment, search: Sequence[str], replace: Sequence[str]) -> None:
        self.out: list[Line] = []
        self._lines, self._found, self._search, self._replace = lines, found, search, replace
        self._at = found.first

    def keep_what_was_skipped(self, line: int) -> None:
        """Blank lines and comments of the file, in front of this searched line, that the search did not mention."""
        owner = self._found.owners[line]
        if owner is not None:
            self.out += [(self._lines.bodies[o], self._lines.ends[o]) for o in range(self._at, owner)]
            self._at = owner + 1

    def keep(self, line: int) -> None:
        owner = self._found.owners[line]
        if owner is not None:
            self.out.append((self._lines.bodies[owner], self._lines.ends[owner]))

    def write(self, new: int, instead: int | None) -> None:
        body = self._replace[new]
        owner = self._found.owners[instead] if instead is not None else None
        if not body.strip():
            self.out.append(("", self._lines.ends[owner] if owner is not None else ""))
        elif owner is None or instead is None:
            self.out.append((self._indented(body), ""))
        else:
            self.out.append((self._edited(body, self._lines.bodies[owner], self._search[instead]), self._lines.ends[owner]))

    def _indented(self, body: str) -> str:
        indent = indent_of(body)
        return self._found.indent(indent) + body[len(indent):]

    def _edited(self, body: str, original: str, copied: str) -> str:
        indent = indent_of(original) if indent_of(body) == indent_of(copied) else self._found.indent(indent_of(body))
        if original.strip() != copied.strip() and fold_quotes(original) == fold_quotes(copied):
            return indent + carry_over(original.strip(), copied.strip(), body.strip())
        return indent + body[len(indent_of(body)):]


def _joined(out: Sequence[Line], lines: Lines, last: int) -> str:
    """New lines end as the line before them does. The very last one has no end where the file's had none."""
    text, usual = "", lines.ends[last] or usual_end(lines)
    for body, end in out[:-1]:
        usual = end or usual
        text += body + usual
    return text + (out[-1][0] + (lines.ends[last] and (out[-1][1] or usual)) if out else "")
