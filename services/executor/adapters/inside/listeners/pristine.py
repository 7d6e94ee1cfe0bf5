"""Is the test tool still what it was before any code of the repository ran? Functions and classes are compared by identity."""

from __future__ import annotations

import sys
import types
from typing import Any
from collections.abc import Iterator

_TOOLS = ("_pytest", "pytest", "pluggy", "unittest", "builtins", "json", "os", "autopatch_inside")
_KINDS = (types.FunctionType, types.BuiltinFunctionType, type, classmethod, staticmethod, property)

Marks = dict[str, tuple[int, int]]
"""Dotted name to the identities of object and code."""


def fingerprint() -> Marks:
    """Every function, class and method of the test tool by its dotted name."""
    return dict(_marks())


def changed(before: Marks) -> list[str]:
    """Names that are another object now, run other code, or are gone."""
    now = fingerprint()
    return sorted(name for name, mark in before.items() if now.get(name) != mark)


def _marks() -> Iterator[tuple[str, tuple[int, int]]]:
    for name, module in list(sys.modules.items()):
        if module is not None and name.split(".")[0] in _TOOLS:
            for key, value in list(vars(module).items()):
                if isinstance(value, _KINDS):
                    yield name + "." + key, _mark(value)
                if isinstance(value, type) and value.__module__ == name:
                    for part, member in list(vars(value).items()):
                        if isinstance(member, _KINDS):
                            yield name + "." + key + "." + part, _mark(member)


def _mark(value: Any) -> tuple[int, int]:
    function = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
    return id(value), id(getattr(function, "__code__", None))
