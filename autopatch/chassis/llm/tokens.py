"""How many tokens a text has, without a tokenizer: a bound from above for the byte-pair vocabularies in use."""

import re

_PIECES = re.compile(r"[A-Za-z]+|[ \t]+|[\x00-\x7f]|[^\x00-\x7f]+")
CHAT_OVERHEAD = 32  # role markers and the like, per message


def estimate(text: str) -> int:
    """Tokens, rounded up: three letters to a token, digits and signs one each, a run of blanks one, other scripts by byte."""
    return sum(_weight(piece) for piece in _PIECES.findall(text))


def _weight(piece: str) -> int:
    if not piece.isascii():
        return len(piece.encode("utf-8", "replace"))
    return -(-len(piece) // 3) if piece.isalpha() else -(-len(piece) // 16)
