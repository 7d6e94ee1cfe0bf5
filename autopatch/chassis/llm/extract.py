"""One JSON object out of what a model said: fenced, chatty or cut off. Nothing that it did not say is made up."""

import json
import re
from collections.abc import Iterator
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from autopatch.chassis.llm.errors import Unreadable

T = TypeVar("T", bound=BaseModel)

LONGEST = 1 << 16  # characters; no answer is that long
_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
_OBJECT = re.compile(r'\{(?=\s*["}])')
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|"|[{}\[\],]', re.DOTALL)
_CLOSES = {"{": "}", "[": "]"}


def thoughtless(text: str) -> str:
    """What a reply says, without what the model thought before."""
    return _THOUGHT.sub("", text)


def extract(text: str, answer: type[T]) -> T:
    """The one object in `text` that is an `answer`.

    Of a reply that was cut off only what is complete counts: whole fields of the outer object and whole elements of its lists.
    Raises Unreadable when there is none, or when there are two that differ. Its message names fields, never values
    (but for what a validator of `answer` itself says).
    """
    if len(text) > LONGEST:
        raise Unreadable(f"the reply is longer than {LONGEST:,} characters")
    found: list[T] = []
    faults: list[str] = []
    for source in _objects(thoughtless(text)):
        try:
            found.append(_validated(source, answer))
        except (ValueError, RecursionError) as error:
            faults.append(_fault(error))
    if not found:
        raise Unreadable(faults[-1] if faults else "there is no JSON object in the reply")
    if any(other != found[0] for other in found[1:]):
        raise Unreadable("the reply holds several different answers")
    return found[0]


def _validated(source: str, answer: type[T]) -> T:
    data = json.loads(source, strict=False, object_pairs_hook=_no_repeats, parse_constant=_no_constant)
    names = set(answer.model_fields) | {f.alias for f in answer.model_fields.values() if f.alias}
    if names and not names & data.keys():
        raise ValueError("the object has none of the wanted fields")
    return answer.model_validate_json(json.dumps(data))


def _objects(text: str) -> Iterator[str]:
    """Outermost objects, from left to right; the last may have been cut off."""
    position = 0
    while match := _OBJECT.search(text, position):
        end, rescued = _extent(text, match.start())
        if end is None:
            if rescued:
                yield rescued
            return
        yield text[match.start() : end]
        position = end


def _extent(text: str, start: int) -> tuple[int | None, str]:
    """Where the object that begins at `start` ends. If it never does: None, and its complete part, closed ("" if nothing is)."""
    stack: list[str] = []
    inner = 0  # objects that are open inside the outer one: what they hold is lost with them
    safe = (start, 0)
    for token in _TOKEN.finditer(text, start):
        sign = token[0]
        if sign == '"':  # a string without an end
            break
        if sign in _CLOSES:
            inner += sign == "{" and bool(stack)
            stack.append(sign)
        elif sign in "}]":
            opened = stack.pop()
            if _CLOSES[opened] != sign or not stack:
                return token.end(), ""
            inner -= opened == "{"
            safe = (token.end(), len(stack)) if not inner else safe
        elif sign == "," and not inner:
            safe = (token.start(), len(stack))
    end, depth = safe
    return None, text[start:end] + "]" * (depth - 1) + "}" if depth else ""


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a field occurs twice in one object")
    return made


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _fault(error: ValueError | RecursionError) -> str:
    if isinstance(error, ValidationError):
        first = [
            f"{'.'.join(map(str, e['loc'])) or 'the object'}: {e['msg']}"
            for e in error.errors(include_input=False, include_url=False)
        ]
        return "; ".join(first[:5])
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON at character {error.pos}: {error.msg}"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)
