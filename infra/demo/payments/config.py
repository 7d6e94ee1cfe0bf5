"""`config.json`: JSON with comments, checked field by field. A mistake names its field; nothing is guessed."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class ConfigError(Exception):
    """The file cannot be used; `field` is a dotted path, empty when the file as a whole is at fault."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}" if field else reason)
        self.field = field
        self.reason = reason


@dataclass(frozen=True)
class Database:
    """How the database is reached, and how many connections to it are kept."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    pool_size: int
    timeout_ms: int


@dataclass(frozen=True)
class Api:
    """Where the service listens; `max_connections` is the length of the listen queue."""

    port: int
    max_connections: int


@dataclass(frozen=True)
class Config:
    """The whole file."""

    service_name: str
    database: Database
    api: Api


INTEGERS = {
    "database.port": (1, 65535),
    "database.pool_size": (1, 200),
    "database.timeout_ms": (50, 60_000),
    "api.port": (1, 65535),
    "api.max_connections": (1, 4096),
}
TEXTS = ("service_name", "database.host", "database.user", "database.password")
RELOADABLE = ("database.pool_size", "database.timeout_ms")
"""What a running service takes over; a change of anything else needs a restart."""

_STRING_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


def without_comments(text: str) -> str:
    """The same text with comments blanked out, so that positions in error messages stay true."""

    def blank(match: re.Match[str]) -> str:
        found = match.group()
        return found if found.startswith('"') else re.sub(r"[^\n]", " ", found)

    return _STRING_OR_COMMENT.sub(blank, text)


def load(path: Path) -> Config:
    """Reads and checks the file; raises ConfigError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("", f"cannot read {path.name}: {error.__class__.__name__}") from error
    try:
        tree = json.loads(without_comments(text))
    except json.JSONDecodeError as error:
        raise ConfigError("", f"{path.name} line {error.lineno} column {error.colno}: {error.msg}") from error
    values = flatten(tree)
    for name in values.keys() - INTEGERS.keys() - set(TEXTS):
        raise ConfigError(name, "is not a field of this file")
    for name in TEXTS:
        _check_text(name, values)
    for name, (low, high) in INTEGERS.items():
        _check_integer(name, values, low, high)
    return Config(
        service_name=values["service_name"],
        database=Database(**_section("database", values)),
        api=Api(**_section("api", values)),
    )


def flatten(tree: Any, prefix: str = "") -> dict[str, Any]:
    """Nested objects as dotted names."""
    if not isinstance(tree, dict):
        raise ConfigError(prefix, "must be an object")
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{prefix}.{key}" if prefix else key
        if isinstance(value, dict) or name in ("database", "api"):
            flat |= flatten(value, name)
        else:
            flat[name] = value
    return flat


def changes(old: Config, new: Config) -> dict[str, list[int | str]]:
    """Dotted name -> [old, new] of what differs; the password shows as changed only."""
    before, after = public(old), public(new)
    found: dict[str, list[int | str]] = {n: [before[n], after[n]] for n in before if before[n] != after[n]}
    if old.database.password != new.database.password:
        found["database.password"] = ["(hidden)", "(hidden)"]
    return found


def public(config: Config) -> dict[str, int | str]:
    """Every field but the password."""
    parts: dict[str, int | str] = {"service_name": config.service_name}
    for section in ("database", "api"):
        for name, value in vars(getattr(config, section)).items():
            if name != "password":
                parts[f"{section}.{name}"] = value
    return parts


def _section(prefix: str, values: dict[str, Any]) -> dict[str, Any]:
    return {name.split(".")[1]: value for name, value in values.items() if name.startswith(prefix + ".")}


def _check_text(name: str, values: dict[str, Any]) -> None:
    if name not in values:
        raise ConfigError(name, "is missing")
    if not isinstance(values[name], str) or not values[name]:
        raise ConfigError(name, "must be a non-empty string")


def _check_integer(name: str, values: dict[str, Any], low: int, high: int) -> None:
    if name not in values:
        raise ConfigError(name, "is missing")
    value = values[name]
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(name, f"must be a whole number from {low} to {high}")
    if not low <= value <= high:
        raise ConfigError(name, f"must be from {low} to {high}, is {value}")
