"""Short names for addresses: `Über uns & mehr` becomes `ueber-uns-mehr`."""

import re
import unicodedata

SPELT = {"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "æ": "ae", "ø": "oe", "å": "aa"}
LONGEST = 60


def fold(text: str) -> str:
    """Lower case letters without accents; German and Scandinavian ones are spelt out."""
    spelt = "".join(SPELT.get(letter, letter) for letter in text.lower())
    return "".join(c for c in unicodedata.normalize("NFKD", spelt) if not unicodedata.combining(c))


def slug(text: str, longest: int = LONGEST) -> str:
    """At most `longest` characters, cut between words where that is possible. Raises ValueError when nothing is left."""
    words = re.findall(r"[a-z0-9]+", fold(text))
    if not words:
        raise ValueError(f"nothing in {text!r} can be part of an address")
    made = words[0][:longest]
    for word in words[1:]:
        if len(made) + 1 + len(word) > longest:
            break
        made += f"-{word}"
    return made


def unique(text: str, taken: set[str]) -> str:
    """A slug that nobody has: with a number behind it when it must be."""
    first = slug(text)
    if first not in taken:
        return first
    number = 2
    while f"{first}-{number}" in taken:
        number += 1
    return f"{first}-{number}"
