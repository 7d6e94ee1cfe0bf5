"""Texts that look alike: Unicode forms, quotes, blanks. And an edit of one of them carried over to the other."""

import difflib
import re
import unicodedata

_LOOKS_LIKE = str.maketrans({
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032", "'"), **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033", '"'),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"), "\u2026": "...",
    **dict.fromkeys("\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000\t", " "),
    **dict.fromkeys("\u200b\u2060\ufeff", ""),
})
_PIECE = re.compile(r"\s+|\S")


def fold(text: str) -> str:
    """Composed, with typographic quotes, dashes and blanks as plain ones, and one blank for several."""
    return " ".join(unicodedata.normalize("NFC", text).translate(_LOOKS_LIKE).split())


def fold_quotes(text: str) -> str:
    """The same, and both kinds of quotes as one."""
    return fold(text).replace("'", '"')


def carry_over(original: str, copied: str, edited: str) -> str:
    """`copied` is a lookalike of `original`, `edited` is an edit of it: the same edit of the original, its spelling kept.

    Typographic characters that the copy has where the original has none are taken for the copyist's and made plain.
    """
    ours, theirs = _pieces(original), _pieces(copied)
    plain = _is_plain(original) and not _is_plain(copied)
    if [fold(p) for p in ours] != [fold(p) for p in theirs]:
        return edited.translate(_LOOKS_LIKE) if plain else edited
    pieces, out = _pieces(edited), ""
    for what, i, until, j, end in difflib.SequenceMatcher(None, theirs, pieces, autojunk=False).get_opcodes():
        new = "".join(pieces[j:end])
        out += "".join(ours[i:until]) if what == "equal" else new.translate(_LOOKS_LIKE) if plain else new
    return out


def _pieces(text: str) -> list[str]:
    """Runs of blanks, and characters with their combining marks."""
    pieces: list[str] = []
    for piece in _PIECE.findall(text):
        if pieces and unicodedata.combining(piece[0]):
            pieces[-1] += piece
        else:
            pieces.append(piece)
    return pieces


def _is_plain(text: str) -> bool:
    return text.replace("\t", " ") == text.translate(_LOOKS_LIKE)
