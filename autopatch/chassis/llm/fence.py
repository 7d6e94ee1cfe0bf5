"""Untrusted text in a prompt: it can neither close its fence nor pass for a marker of a chat template."""

import hashlib
import re
import unicodedata

_FENCE = re.compile(r"\[\[(?=\s*/?\s*untrusted)", re.IGNORECASE)
_MARKERS = re.compile(r"<(?=\|)|(?<=\|)>|<(?=/?s>)|<(?=<\s*/?SYS)|\[(?=/?INST\])|<(?=/?tool_(?:call|response)>)|<(?=/?think>)")
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn"}  # control, format (bidi, zero width, tags), surrogate, private, unassigned
_KEPT = "\n\t"
_COPIED = re.compile(r"^[ \t]*\[\[ ?/?untrusted[^\]\n]*\]\][ \t]*$", re.MULTILINE)


def fenced(name: str, text: str) -> str:
    """`text` between markers that its own digest makes: the same text has the same fence, and cannot contain it."""
    clean = harmless(text)
    seal = hashlib.sha256(f"{name}\0{clean}".encode()).hexdigest()[:16]
    return f"[[untrusted {name} {seal}]]\n{clean}\n[[/untrusted {seal}]]"


def unmarked(answer: str) -> str:
    """An answer without markers that a small model copied from its prompt; where they stand for its code block, with one."""
    return _COPIED.sub("" if "```" in answer else "```", answer)


def harmless(text: str) -> str:
    """Without invisible characters; fence-like and template-like markers are broken by a blank, everything else is kept."""
    seen = "".join(c for c in text.replace("\r\n", "\n") if c in _KEPT or unicodedata.category(c) not in _HIDDEN)
    return _MARKERS.sub(lambda m: f" {m[0]}" if m[0] == ">" else f"{m[0]} ", _FENCE.sub("[ [", seen))
