"""The base of every word: frozen, tolerant when read, exact when written."""

import hashlib
import json
from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

_LATER: dict[str, Any] = {"later": True}


class Word(BaseModel):
    """Immutable; fields that a newer writer added are ignored, and written only where they say something (see `later`)."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    @model_serializer(mode="wrap")
    def _exactly(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        for name, field in type(self).model_fields.items():
            if field.json_schema_extra == _LATER and name in data and getattr(self, name) == field.default:
                del data[name]
        return data


def later(default: Any, description: str = "") -> Any:
    """A field that joined a word after events with that word were written: left out while it has its default.

    So what an older writer wrote is written again byte for byte, and its hash still fits.
    """
    return Field(default=default, description=description, json_schema_extra=_LATER)


def _aware(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError("a time needs its zone")
    return value


Moment = Annotated[datetime, AfterValidator(_aware)]
"""A point in time with its zone."""


def canonical(value: Any) -> bytes:
    """JSON with sorted keys and no spaces: the form that digests are taken of."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest(data: bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(data).hexdigest()
