"""Locate one value in a file, splice another one in, and prove by a second parse that nothing else changed."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from autopatch.chassis.redaction import secret_name
from autopatch.contract.actions import Scalar
from autopatch.contract.errors import OperatorError, Refused
from autopatch.contract.target import SECRET_NAMES
from services.executor.adapters.editors.formats import Format, Leaf, Malformed, flatten, number

BOM = "\ufeff"
REPLACED = "replaced-by-autopatch"
"""Stands where a secret was."""


@dataclass(frozen=True)
class Span:
    """`old` are the bytes of a value, from `offset` on."""

    offset: int
    old: bytes


@dataclass(frozen=True)
class Edit:
    """`old` at `offset` becomes `new`; `before` and `after` are the whole file."""

    offset: int
    old: bytes
    new: bytes
    before: bytes
    after: bytes


def edit(data: bytes, form: Format, key: str, value: Scalar, file: str) -> Edit:
    """The edit that sets `key`. Raises OperatorError (file or key unusable), Refused (anything but that value would change)."""
    text, bom = _text(data, file)
    before = _parsed(text, form, file)
    leaf = _leaf(text, form, key, file)
    raw = text[leaf.start : leaf.end]
    new = form.render(value, raw)
    if form.typed and _kind(before.get(key)) != _kind(value):
        raise Refused(f"{file}: {key} is a {_kind(before.get(key))}, {value!r} is a {_kind(value)}")
    changed = text[: leaf.start] + new + text[leaf.end :]
    try:
        after = {} if "\n" in new or "\r" in new else flatten(form.parse(changed))
    except Malformed:
        after = {}
    wanted = value if form.typed or isinstance(value, str) else number(value)
    if after != {**before, key: wanted} or type(after.get(key)) is not type(wanted):
        raise Refused(f"{file}: setting {key} would change more than its value", tip="change it by hand")
    offset = len((bom + text[: leaf.start]).encode())
    return Edit(offset, raw.encode(), new.encode(), data, (bom + changed).encode())


def locate(data: bytes, form: Format, key: str, file: str) -> Span:
    """Where the value of a dotted key is. Raises OperatorError naming file, key, and lines or the nearest key."""
    text, bom = _text(data, file)
    leaf = _leaf(text, form, key, file)
    return Span(len((bom + text[: leaf.start]).encode()), text[leaf.start : leaf.end].encode())


def read_values(data: bytes, form: Format, keys: Iterable[str], file: str) -> dict[str, Scalar]:
    """The values of those keys that are there; in INI and .env what looks like a number or boolean is read as one."""
    text, _ = _text(data, file)
    flat = _parsed(text, form, file)
    found = {key: flat[key] for key in keys if isinstance(flat.get(key), bool | int | float | str)}
    return found if form.typed else {key: _guessed(value) for key, value in found.items()}


def masked(data: bytes, form: Format, file: str) -> tuple[bytes, tuple[str, ...]]:
    """The file with every secret-looking value replaced, wherever it stands, and the secrets themselves."""
    text, bom = _text(data, file)
    flat = _parsed(text, form, file)
    leaves = [leaf for leaf in form.leaves(text) if _is_secret(leaf.path)]
    secrets = sorted({str(v) for k, v in flat.items() if _is_secret(k) and v not in (None, "", {}, [])}, key=len)
    for leaf in sorted(leaves, key=lambda leaf: leaf.start, reverse=True):
        text = text[: leaf.start] + _mask(flat.get(leaf.path), text[leaf.start : leaf.end], form) + text[leaf.end :]
    for secret in reversed(secrets):
        text = text.replace(secret, REPLACED) if len(secret) >= 6 else text
    return (bom + text).encode(), tuple(secrets)


def _is_secret(path: str) -> bool:
    return any(word in path.lower() for word in SECRET_NAMES) or any(map(secret_name, path.split(".")))


def _mask(value: Any, raw: str, form: Format) -> str:
    if isinstance(value, bool) or value is None or not raw:
        return raw
    if isinstance(value, int | float):
        return "0" if isinstance(value, int) else "0.0"
    end = raw[len(raw.rstrip("\r\n")) :]
    return (form.render(REPLACED, raw) if not end else REPLACED) + end


def _text(data: bytes, file: str) -> tuple[str, str]:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise OperatorError(f"{file}: byte {error.start} is not UTF-8", tip="save the file as UTF-8") from None
    return (text[1:], BOM) if text.startswith(BOM) else (text, "")


def _parsed(text: str, form: Format, file: str) -> dict[str, Any]:
    try:
        return flatten(form.parse(text))
    except Malformed as error:
        raise OperatorError(f"{file}:{error.line}: {error}", tip="correct the file at that line") from None
    except RecursionError:
        raise OperatorError(f"{file}: is nested too deeply or refers to itself") from None


def _leaf(text: str, form: Format, key: str, file: str) -> Leaf:
    try:
        leaves = form.leaves(text)
    except Malformed as error:
        raise OperatorError(f"{file}:{error.line}: {error}", tip="correct the file at that line") from None
    parts = key.split(".")
    for path in (".".join(parts[: i + 1]) for i in range(len(parts))):
        lines = [str(leaf.line) for leaf in leaves if leaf.path == path]
        if len(lines) > 1:
            raise OperatorError(f"{file}: {path} is there more than once, in lines {', '.join(lines)}", tip="keep one of them")
    found = next((leaf for leaf in leaves if leaf.path == key), None)
    if found is None:
        near = difflib.get_close_matches(key, [leaf.path for leaf in leaves if not leaf.fixed], n=1, cutoff=0.5)
        raise OperatorError(f"{file}: there is no key {key!r}", tip=f"the nearest is {near[0]!r}" if near else "")
    if found.fixed:
        raise OperatorError(f"{file}:{found.line}: {key} {found.fixed}", tip="change it by hand")
    return found


def _kind(value: Any) -> str:
    kinds = {bool: "boolean", int: "number", float: "number", str: "text"}
    return kinds.get(type(value), "section")


def _guessed(value: Any) -> Scalar:
    text = str(value)
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            number: Scalar = kind(text)
        except ValueError:
            continue
        return number if str(number) == text else text
    return text
