"""Reads the policy file anew for every decision, so that a change or repair counts at once."""

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from autopatch.chassis.yaml_text import parsed
from autopatch.contract.errors import OperatorError, Unavailable
from services.executor.policy import Policy


def load_policy(path: Path) -> Policy:
    """Raises Unavailable when there is no such file, OperatorError naming file, line and field of every mistake."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        tip = "set AUTOPATCH_EXECUTOR_POLICY to the policy file"
        raise Unavailable("policy", f"{path} cannot be read: {error}; nothing is applied", tip=tip) from error
    try:
        marked = parsed(text, str(path), kind="rt")
        return Policy.model_validate(parsed(text, str(path)))
    except ValidationError as error:
        faults = [(f["loc"], f["msg"]) for f in error.errors(include_url=False, include_input=False)[:5]]
        lines = [f"{path}:{_line(marked, at)}: {'.'.join(map(str, at)) or 'policy'}: {what}" for at, what in faults]
        raise OperatorError("\n".join(lines), tip="the shipped policy file explains every field") from None


def usable_policy(path: Path) -> Policy:
    """For a running executor a broken policy is a missing one: Unavailable, nothing is applied until it is repaired."""
    try:
        return load_policy(path)
    except OperatorError as error:
        raise Unavailable("policy", str(error)) from error


def _line(node: Any, where: tuple[int | str, ...]) -> int:
    """The line of the deepest part of `where` that the file holds."""
    line = 1
    for part in where:
        try:
            line = (node.lc.item(part) if isinstance(part, int) else node.lc.key(part))[0] + 1
            node = node[part]
        except (AttributeError, KeyError, IndexError, TypeError):
            continue
    return line
