"""Is the test tool still what it was before any code of the repository ran? Functions and classes are compared by identity."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

_TOOLS = ("_pytest", "pytest", "pluggy", "unittest", "builtins", "json", "os", "autopatch_inside")
_KINDS = (types.FunctionType, types.BuiltinFunctionType, type, classmethod, staticmethod, property)

Marks = list[tuple[str, Mapping[str, Any], str, Any, Any, Any]]
"""Dotted name, where it is kept and under which key, what is kept there, its function if it has one, and the code of that."""


def fingerprint() -> Marks:
    """Every function, class and method of the test tool."""
    found: Marks = []
    for owner, kept in _owners():
        for key, value in list(kept.items()):
            if isinstance(value, _KINDS):
                function = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
                code = getattr(function, "__code__", None)
                found.append((f"{owner}.{key}", kept, key, value, function if code else None, code))
    return found


def changed(before: Marks) -> list[str]:
    """Names that are another object now, run other code, or are gone."""
    return sorted(
        name for name, kept, key, value, function, code in before
        if kept.get(key) is not value or (function is not None and function.__code__ is not code)
    )


def _owners() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Modules and their classes, with what they hold."""
    for name, module in list(sys.modules.items()):
        if module is not None and name.split(".")[0] in _TOOLS:
            yield name, vars(module)
            for key, value in list(vars(module).items()):
                if isinstance(value, type) and value.__module__ == name:
                    yield f"{name}.{key}", vars(value)
