"""What knowledge needs from outside: a store of points, and something that turns texts into vectors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Vector = Sequence[float]
Collection = Literal["incidents", "documents", "code"]
COLLECTIONS: tuple[Collection, ...] = ("incidents", "documents", "code")
INDEXED = ("kind", "source", "signature")
"""Payload fields that a filter finds without a scan; whoever filters by another one names one of these too."""


@dataclass(frozen=True)
class Point:
    """`id` is a UUID, the same for the same thing; `text` is searched lexically, `dense` by meaning when it is there."""

    id: str
    text: str
    payload: Mapping[str, Any]
    dense: Vector | None = None


@dataclass(frozen=True)
class Where:
    """Points that have one of the given values in every field of `any_of`, and none of them in any field of `none_of`."""

    any_of: Mapping[str, Sequence[str]] = field(default_factory=dict)
    none_of: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Hit:
    """`score` is that of reciprocal rank fusion: 2/61 for a point that is first by words and by meaning."""

    point: Point
    score: float


class Store(Protocol):
    """Points in collections. What a write returned from survives a crash. Every method raises Unavailable("qdrant")."""

    async def open(self) -> None:
        """Make what is missing. Raises OperatorError when another process has it or it was made for another vector size."""
        ...

    async def upsert(self, collection: Collection, points: Sequence[Point]) -> None:
        """Points with known ids are replaced, payload and vectors."""
        ...

    async def search(self, collection: Collection, dense: Vector | None, text: str, where: Where, limit: int) -> list[Hit]:
        """By words and, with `dense`, by meaning, fused; best first."""
        ...

    async def get(self, collection: Collection, ids: Sequence[str]) -> list[Point]:
        """Those of these points that exist, without their vectors, in no order."""
        ...

    async def scroll(self, collection: Collection, where: Where, limit: int | None = None) -> list[Point]:
        """All points, or the first `limit`, without their vectors, by id."""
        ...

    async def set_payload(self, collection: Collection, payloads: Mapping[str, Mapping[str, Any]]) -> None:
        """By id: these fields become the points' own, their other fields and their vectors stay. The points are there."""
        ...

    async def delete(self, collection: Collection, where: Where) -> None:
        """Nothing there to delete is fine."""
        ...

    async def count(self, collection: Collection, where: Where) -> int:
        """How many, exactly."""
        ...

    async def optimize(self) -> None:
        """Build indices after a bulk ingest. May take seconds per 10,000 points; other calls wait, the event loop does not."""
        ...

    async def close(self) -> None:
        """Give everything back."""
        ...


class Embedder(Protocol):
    """Texts to vectors of unit length."""

    @property
    def name(self) -> str:
        """Vectors of embedders with different names do not mix."""
        ...

    @property
    def size(self) -> int:
        """Length of a vector."""
        ...

    @property
    def ready(self) -> bool:
        """Is it loaded?"""
        ...

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Loads the model first when it must. Raises OperatorError when that fails."""
        ...

    async def close(self) -> None:
        """Waits for what is running."""
        ...
