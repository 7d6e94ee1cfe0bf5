"""The base of every word: frozen, tolerant when read, exact when written."""

import hashlib
import json
from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict


class Word(BaseModel):
    """Immutable; fields that a newer writer added are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


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
