"""Secrets are taken out of text at the edge: before log, prompt, event, knowledge or trace sees it.

A secret becomes `[redacted:kind:ab12]`; the last part is a short keyed digest, so that equal secrets still look equal.
"""

import base64
import binascii
import hashlib
import re
import secrets
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote

from autopatch.chassis.redaction_names import PLACEHOLDER, Found, named, secret_name, secrets_in
from autopatch.chassis.redaction_table import PREFIX, SHAPES, TOKENS, Row

_CANDIDATE = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{20,}={0,2}")
_FOLDED = re.compile(r"(?:[A-Za-z0-9+/_-]{60,}\r?\n[ \t]*)+[A-Za-z0-9+/_-]{4,}={0,2}")
_PIECE = re.compile(r"[A-Za-z0-9]{20,}={0,2}")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_DEPTH = 2


class Redactor:
    """Takes out what looks like a secret, and `literals`: values known to be secret, wherever and however encoded."""

    def __init__(self, literals: Iterable[str] = (), *, key: bytes = b"") -> None:
        """`key` keys the digests of placeholders; by default one of this object's own, so digests differ between processes."""
        self._key = (key or secrets.token_bytes(16))[:32]
        self._literals = frozenset(text for text in literals if len(text) >= 4 and not PLACEHOLDER.search(text))
        self._known = _compile(self._literals)

    def knowing(self, literals: Iterable[str]) -> "Redactor":
        """The same with more literals."""
        return Redactor(self._literals | set(literals), key=self._key)

    def redact(self, text: str) -> str:
        """The text without its secrets. Redacting twice changes nothing more."""
        found = self.find(text)
        if not found:
            return text
        parts: list[str] = []
        at = 0
        for one in found:
            parts += (text[at : one.start], self._placeholder(one.kind, text[one.start : one.end]))
            at = one.end
        return "".join((*parts, text[at:]))

    def redact_value(self, value: Any) -> Any:
        """A JSON value without its secrets: texts are redacted, and everything below a name such as `password` is taken out."""
        return self._value(value, "")

    def find(self, text: str) -> list[Found]:
        """Where the secrets are, in order, without overlaps."""
        found = sorted(self._all(text, _DEPTH), key=lambda f: (f.start, -f.end))
        merged: list[Found] = []
        for one in found:
            if merged and one.start < merged[-1].end:
                last = merged[-1]
                merged[-1] = Found(last.start, max(last.end, one.end), last.kind)
            else:
                merged.append(one)
        return merged and list(_outside(merged, [m.span() for m in PLACEHOLDER.finditer(text)]))

    def _all(self, text: str, depth: int) -> Iterator[Found]:
        lower = text.lower()
        if self._known:
            yield from (Found(m.start(), m.end(), "known") for m in self._known.finditer(text))
        yield from _tokens(text)
        yield from _shapes(text, lower)
        yield from named(text, lower if len(lower) == len(text) else text)
        if depth:
            yield from self._wrapped(text, depth)

    def _wrapped(self, text: str, depth: int) -> Iterator[Found]:
        """Base64 that holds secrets; its parts too, for a path or a name may stand right before it."""
        for match in _CANDIDATE.finditer(text):
            found = match.group()
            if found.islower() or found.isupper():
                continue
            folded = len(found) >= 60 and _FOLDED.match(text, match.start())
            whole = folded or match
            inner = _text_of(whole.group())
            if inner and self._any(inner, depth):
                yield Found(whole.start(), whole.end(), "base64")
            elif not inner and not found.isalnum():
                for piece in _PIECE.finditer(found):
                    if (inner := _text_of(piece.group())) and self._any(inner, depth):
                        yield Found(match.start() + piece.start(), match.start() + piece.end(), "base64")

    def _any(self, text: str, depth: int) -> bool:
        return next(self._all(text, depth - 1), None) is not None

    def _value(self, value: Any, kind: str, depth: int = 0) -> Any:
        if depth > 64:
            return "[redacted: nested too deeply]"
        match value:
            case str() if kind:
                return value if not value or PLACEHOLDER.fullmatch(value) else self._placeholder(kind, value)
            case str():
                return self.redact(value)
            case dict():
                return self._mapping(value, kind, depth)
            case list() | tuple():
                return [self._value(item, kind, depth + 1) for item in value]
            case bool() | None:
                return value
            case int() | float() if kind:
                return self._placeholder(kind, str(value))
            case _:
                return value

    def _mapping(self, value: dict[Any, Any], kind: str, depth: int) -> dict[Any, Any]:
        """Also {"name": "DB_PASSWORD", "value": ...}, as environments are listed."""
        listed = secret_name(str(value.get("name") or value.get("key") or ""))
        made = {}
        for key, inner in value.items():
            of = kind or secret_name(str(key)) or (listed if key == "value" else "")
            made[self.redact(key) if isinstance(key, str) else key] = self._value(inner, of, depth + 1)
        return made

    def _placeholder(self, kind: str, secret: str) -> str:
        short = hashlib.blake2s(secret.encode("utf-8", "replace"), key=self._key, digest_size=2).hexdigest()
        return f"[redacted:{kind}:{short}]"


def _tokens(text: str) -> Iterator[Found]:
    done = 0
    for match in PREFIX.finditer(text):
        kind, body = TOKENS[match.group()]
        if match.start() >= done and (rest := body.match(text, match.end())):
            done = rest.end()
            yield Found(match.start(), done, kind)


def _shapes(text: str, lower: str) -> Iterator[Found]:
    for gate, row in [gated for gated in SHAPES if gated[0] in lower]:
        for match in _at(row, gate, text, lower):
            group = match.lastindex or 0
            if row.kind != "basic" or b":" in _decoded(match.group(group)):
                yield Found(match.start(group), match.end(group), row.kind)


def _at(row: Row, gate: str, text: str, lower: str) -> Iterator[re.Match[str]]:
    if not gate or len(lower) != len(text):
        yield from row.pattern.finditer(text)
        return
    at = lower.find(gate)
    while at >= 0:
        match = row.pattern.match(text, max(0, at - row.back))
        if match:
            yield match
        at = lower.find(gate, max(at + len(gate), match.end() if match else 0))


def _outside(found: list[Found], placeholders: list[tuple[int, int]]) -> Iterator[Found]:
    """Without what an earlier redaction put there."""
    for one in found:
        at, kept = one.start, not any(start < one.start < end for start, end in placeholders)
        for start, end in placeholders if kept else ():
            if at < end and start < one.end:
                if at < start:
                    yield Found(at, start, one.kind)
                at = end
        if kept and at < one.end:
            yield Found(at, one.end, one.kind)


def _decoded(candidate: str) -> bytes:
    flat = re.sub(r"\s", "", candidate).rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return binascii.a2b_base64(flat[: len(flat) - (len(flat) % 4 == 1)] + "=" * (-len(flat) % 4 % 3))
    except binascii.Error:
        return b""


def _text_of(candidate: str) -> str:
    """What base64 holds when that is readable text, else ''."""
    try:
        text = _decoded(candidate).decode()
    except UnicodeDecodeError:
        return ""
    return "" if _CONTROL.search(text) else text


def _compile(literals: frozenset[str]) -> re.Pattern[str] | None:
    """One expression for all literals: as they are, percent-encoded, hexadecimal, and in base64 at each of three alignments."""
    forms: set[str] = set()
    for text in literals:
        if len(text) < 8:
            forms.add(rf"(?<!\w){re.escape(text)}(?!\w)")
            continue
        raw = text.encode()
        forms |= {re.escape(form) for form in (text, quote(text, safe=""), raw.hex())}
        for shift in range(3):
            inner = base64.b64encode(b"\0" * shift + raw).decode().rstrip("=")
            core = inner[(0, 2, 3)[shift] : len(inner) - ((shift + len(raw)) % 3 > 0)]
            forms |= {re.escape(core), re.escape(core.replace("+", "-").replace("/", "_"))} if len(core) >= 8 else set()
    return re.compile("|".join(sorted(forms, key=len, reverse=True))) if forms else None


_default: list[Redactor] = []


def know(literals: Iterable[str]) -> None:
    """From now on `redact` takes these out too, in this process."""
    made = _current().knowing(literals)
    _default[:] = [made]


def redact(text: str) -> str:
    """The text without its secrets, by this process's redactor."""
    return _current().redact(text)


def redact_value(value: Any) -> Any:
    """A JSON value without its secrets, by this process's redactor."""
    return _current().redact_value(value)


def _current() -> Redactor:
    if not _default:
        _default.append(Redactor())
    return _default[0]


__all__ = ["Found", "Redactor", "know", "redact", "redact_value", "secret_name", "secrets_in"]
