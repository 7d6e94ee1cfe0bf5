"""Secrets that are known by the name before them: in JSON, YAML, TOML, INI, env files, XML, flags, headers and code."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from autopatch.chassis.redaction_table import ANCHORS, HARMLESS, NAMES, SEPARATED

PLACEHOLDER = re.compile(r"\[redacted:[a-z0-9_]+:[0-9a-f]{4}\]")
_WORD_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
_SEPARATOR = re.compile(
    r"[\\\"'`\])]{0,8}(?:\s{0,64},?\s{0,64}[\\\"']{0,4}value[\\\"']{0,4})?\s{0,64}"
    r"(?:=>|:=|->|==(?=[ \t]*[\"'])|(?!==)[:=])[ \t]*(?:[bruf]{1,2}(?=[\"']))?"
    r"|>|[\\\"']{1,8}\s{0,64},[ \t]*(?=[\\\"'])"
)
_QUOTED = re.compile(r"([\"'`])((?:\\.|(?!\1)[^\\\n])*)")
_ESCAPED = re.compile(r"\\+([\"'])((?:(?!\\+\1)[^\n])*)")
_LIST = re.compile(r"\[([^\[\]{}]*)")
_BLOCK = re.compile(r"[|>][+-]?\d?[ \t]*\r?\n([ \t]+)([^\n]*(?:\r?\n(?:\1[^\n]*|(?=\r?\n)))*)")
_CONTINUED = re.compile(r"\\\r?\n[ \t]*(\S+)")
_BARE = re.compile(r"(?:(?![,;&]\s{0,8}[\"']?[\w.-]{1,64}[\"']?\s{0,8}[=:])[^\s\"'<>`]){1,2000}")
_SPACELESS = re.compile(r"\S+")
_PAIR = re.compile(r"[\s,;&][\"']?[\w.-]{1,64}[\"']?\s{0,8}[=:]")
_COMMENT = re.compile(r"[ \t]#")
_BEGINS = re.compile(r"[ \t\"'-]*(?:(?:export|set|ENV)[ \t]+)?[\"']?\Z")
_PUBLIC = re.compile(
    r"(?i:true|false|none|null|nil|undefined|str|string|bytes|int|bool|secretstr|required|optional|yes|no"
    r"|return|raise|continue|break|and|or|not|\*+|x{3,}|\.+|-+|[|>][+-]?)\Z"
    r"|\$\{|\$\(|\$[A-Z_]+\Z|\{\{|%\(|<[\w -]+>?\Z"
    r"|(?:self|cls|this|config|cfg|settings|args|kwargs|request|req|os|env|process|ctx|options|opts|params|user|data)[.\[]"
    r"|[A-Za-z_][\w.]*\(|(?:Optional|Annotated|Union|list|dict|tuple)\["
)


@dataclass(frozen=True)
class Found:
    """A secret in a text."""

    start: int
    end: int
    kind: str


def secret_name(name: str) -> str:
    """The kind of secret that a field of this name holds; '' when it holds none."""
    lower = name.lower()
    flat = re.sub(r"[^a-z0-9]", "", lower)
    if flat.endswith(HARMLESS):
        return ""
    for kind, endings in NAMES:
        if flat.endswith(endings):
            return kind
    return "password" if flat == "pwd" or lower.endswith(SEPARATED) else ""


def secrets_in(value: Any) -> frozenset[str]:
    """What stands under secret-looking names in a configuration (its text or its parsed values): literals for a Redactor."""
    if isinstance(value, str):
        return frozenset(value[f.start : f.end] for f in named(value, value.lower()) if f.end - f.start >= 4)
    return frozenset(_leaves(value, ""))


def _leaves(value: Any, kind: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, kind or secret_name(str(key)))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item, kind)
    elif kind and value is not None and not isinstance(value, bool) and len(str(value)) >= 4 and not _PUBLIC.match(str(value)):
        yield str(value)


def named(text: str, lower: str) -> Iterator[Found]:
    """Values that follow a secret-looking name. `lower` is the text in small letters."""
    for anchor in ANCHORS:
        at = lower.find(anchor)
        while at >= 0:
            start, end = _word(text, at, at + len(anchor))
            at = end
            if kind := _kind(lower, start, end):
                span = _value_after(text, start, end)
                if span:
                    at = max(at, span[1])
                    if not _public(text[span[0] : min(span[1], span[0] + 2000)], lower[start:end]):
                        yield Found(*span, kind)
            at = lower.find(anchor, at)


def _kind(lower: str, start: int, end: int) -> str:
    name = lower[start:end]
    return "key" if name == "key" and lower[max(0, start - 4) : start] == "api " else secret_name(name)


def _word(text: str, start: int, end: int) -> tuple[int, int]:
    least, most = max(0, start - 64), min(len(text), end + 64)
    while start > least and text[start - 1] in _WORD_CHARS:
        start -= 1
    while end < most and text[end] in _WORD_CHARS:
        end += 1
    return start, end


def _value_after(text: str, start: int, end: int) -> tuple[int, int] | None:
    """Where the value of the name at start..end is."""
    separator = _SEPARATOR.match(text, end)
    if separator:
        at = separator.end()
    elif text.startswith("--", start) and text[end : end + 1] in (" ", "\t"):
        at = end + 1
    else:
        return None
    span = _literal(text, at) or _bare(text, start if separator else at, end, at)
    return span if span and span[0] < span[1] else None


def _public(value: str, name: str) -> bool:
    """Is it a reference, a type, code, a switch or a count rather than a secret?"""
    number = name.endswith("token") and value.isdigit() and len(value) < 6
    folder = name == "pwd" and value.startswith("/")
    return number or folder or value.lower() == name or bool(_PUBLIC.match(value) or PLACEHOLDER.match(value))


def _literal(text: str, at: int) -> tuple[int, int] | None:
    """A value that says itself where it ends; one that is cut off ends with its line."""
    for shape in (_ESCAPED, _QUOTED, _BLOCK, _LIST, _CONTINUED):
        if match := shape.match(text, at):
            return match.span(1 if shape in (_LIST, _CONTINUED) else 2)
    return None


def _bare(text: str, start: int, end: int, at: int) -> tuple[int, int] | None:
    """A value without quotes: up to the next space, or its line's rest when its name begins the line and no pair follows."""
    if text[at : at + 1] in ("{", "\n", "\r", ""):
        return None
    _, newline, before = text[max(0, start - 80) : start].rpartition("\n")
    if (newline or start < 80) and _BEGINS.match(before):
        if text[start:end].isupper() and (whole := _SPACELESS.match(text, at)):
            return whole.span()
        stop = text.find("\n", at)
        line = text[at : min(len(text) if stop < 0 else stop, at + 4000)]
        if not _PAIR.search(line):
            comment = _COMMENT.search(line)
            return at, at + len(line[: comment.start() if comment else None].rstrip())
    match = _BARE.match(text, at)
    if match and match.end() - at == 2000:
        match = _SPACELESS.match(text, at)
    return (at, at + len(match.group().rstrip(",;)]}."))) if match else None
