"""The JSON schema that an answer is constrained to, in the dialect that both hosted endpoints and llama.cpp take."""

from typing import Any

from pydantic import BaseModel

_DROPPED = ("title", "default", "pattern", "format", "discriminator", "examples")
"""`pattern` makes llama.cpp drop the whole constraint without a word; the others are noise or refused by strict endpoints."""


def schema_of(answer: type[BaseModel]) -> dict[str, Any]:
    """Every field required and nothing else allowed: what a model leaves out must be a choice that validation sees."""
    made = _strict(answer.model_json_schema())
    assert isinstance(made, dict)
    return made


def _strict(node: Any) -> Any:
    if isinstance(node, list):
        return [_strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    made = {
        key: _named(value) if key in ("properties", "$defs") else _strict(value)
        for key, value in node.items()
        if key not in _DROPPED
    }
    if "oneOf" in made:
        made["anyOf"] = made.pop("oneOf")
    if "properties" in made:
        made["required"] = list(made["properties"])
        made["additionalProperties"] = False
    return made


def _named(node: dict[str, Any]) -> dict[str, Any]:
    """Names are not keywords: a field may be called `title`."""
    return {name: _strict(value) for name, value in node.items()}
