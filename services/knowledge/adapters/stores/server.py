"""A Qdrant server or cluster by URL (qdrant-client). In tests the client's own local mode stands in for the server."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import qdrant_edge as qe
from qdrant_client import QdrantClient
from qdrant_client import models as qm
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException, UnexpectedResponse

from autopatch.contract.errors import OperatorError, Unavailable
from services.knowledge.adapters.stores.words import lexical
from services.knowledge.adapters.stores.worker import Worker
from services.knowledge.ports import COLLECTIONS, INDEXED, Collection, Hit, Point, Vector, Where

R = TypeVar("R")
BATCH = 64
PREFETCH = 50
RRF_K = 60
PREFIX = "autopatch_"


class ServerStore:
    """The Store port over a client that `connect` makes; it is called on the thread on which the client then lives."""

    def __init__(self, connect: Callable[[], QdrantClient], size: int = 384) -> None:
        self._connect = connect
        self._size = size
        self._worker = Worker("qdrant")
        self._client: QdrantClient | None = None
        self._bm25 = qe.Bm25()

    async def open(self) -> None:
        """See ports.Store."""
        await self._worker.run(self._guarded, self._opened)

    async def upsert(self, collection: Collection, points: Sequence[Point]) -> None:
        """See ports.Store."""
        for start in range(0, len(points), BATCH):
            batch = [self._made(point) for point in points[start : start + BATCH]]
            await self._on(partial(_upserted, PREFIX + collection, batch))

    async def search(self, collection: Collection, dense: Vector | None, text: str, where: Where, limit: int) -> list[Hit]:
        """See ports.Store."""
        words = self._bm25.embed_query(lexical(text))
        asked: list[tuple[Any, str]] = []
        if words.indices:
            asked.append((qm.SparseVector(indices=words.indices, values=words.values), "bm25"))
        if dense is not None:
            asked.append((list(dense), "dense"))
        if not asked:
            return []
        stages = [
            qm.Prefetch(query=query, using=using, filter=_filter(where), limit=max(PREFETCH, limit)) for query, using in asked
        ]
        fused = qm.RrfQuery(rrf=qm.Rrf(k=RRF_K))
        answer = await self._on(
            lambda client: client.query_points(PREFIX + collection, prefetch=stages, query=fused, limit=limit, with_payload=True)
        )
        return [Hit(_point(found), found.score) for found in answer.points]

    async def get(self, collection: Collection, ids: Sequence[str]) -> list[Point]:
        """See ports.Store."""
        records = await self._on(lambda client: client.retrieve(PREFIX + collection, list(ids), with_payload=True))
        return [_point(record) for record in records]

    async def scroll(self, collection: Collection, where: Where, limit: int | None = None) -> list[Point]:
        """See ports.Store."""
        found: list[Point] = []
        offset: Any = None
        while limit is None or len(found) < limit:
            page = min(256, limit - len(found)) if limit is not None else 256
            records, offset = await self._on(partial(_scrolled, PREFIX + collection, _filter(where), page, offset))
            found += [_point(record) for record in records]
            if offset is None:
                break
        return found

    async def set_payload(self, collection: Collection, payloads: Mapping[str, Mapping[str, Any]]) -> None:
        """See ports.Store."""
        made = [qm.SetPayloadOperation(set_payload=qm.SetPayload(payload=dict(new), points=[id])) for id, new in payloads.items()]
        for start in range(0, len(made), BATCH):
            await self._on(partial(_batched, PREFIX + collection, made[start : start + BATCH]))

    async def delete(self, collection: Collection, where: Where) -> None:
        """See ports.Store."""
        selector = qm.FilterSelector(filter=_filter(where))
        await self._on(lambda client: client.delete(PREFIX + collection, selector, wait=True))

    async def count(self, collection: Collection, where: Where) -> int:
        """See ports.Store."""
        answer = await self._on(lambda client: client.count(PREFIX + collection, count_filter=_filter(where), exact=True))
        return answer.count

    async def optimize(self) -> None:
        """A server does that by itself."""

    async def close(self) -> None:
        """See ports.Store."""
        if self._client is not None and not self._worker.closed:
            await self._worker.run(self._client.close)
        self._worker.close()

    async def _on(self, call: Callable[[QdrantClient], R]) -> R:
        return await self._worker.run(self._guarded, lambda: call(self._opened()))

    def _guarded(self, call: Callable[[], R]) -> R:
        try:
            return call()
        except UnexpectedResponse as error:
            answer = f"the server answered {error.status_code} {error.reason_phrase}"
            raise Unavailable("qdrant", answer, tip=_tip(error)) from error
        except (ApiException, QdrantException) as error:
            raise Unavailable("qdrant", f"no answer from the server: {str(error)[:200]}") from error

    def _opened(self) -> QdrantClient:
        if self._client is not None:
            return self._client
        client = self._connect()
        for name in COLLECTIONS:
            if client.collection_exists(PREFIX + name):
                self._check(client, name)
            else:
                self._create(client, name)
        self._client = client
        return client

    def _create(self, client: QdrantClient, name: Collection) -> None:
        client.create_collection(
            PREFIX + name,
            vectors_config={"dense": qm.VectorParams(size=self._size, distance=qm.Distance.COSINE)},
            sparse_vectors_config={"bm25": qm.SparseVectorParams(modifier=qm.Modifier.IDF)},
        )
        for keyword in INDEXED:
            client.create_payload_index(PREFIX + name, keyword, qm.PayloadSchemaType.KEYWORD)

    def _check(self, client: QdrantClient, name: Collection) -> None:
        vectors = client.get_collection(PREFIX + name).config.params.vectors
        dense = vectors.get("dense") if isinstance(vectors, dict) else None
        if dense is None or dense.size != self._size:
            raise OperatorError(
                f"the Qdrant collection {PREFIX + name} was not made for vectors `dense` of {self._size} numbers",
                tip="set AUTOPATCH_KNOWLEDGE_EMBEDDER back, or use another Qdrant",
            )

    def _made(self, point: Point) -> qm.PointStruct:
        words = self._bm25.embed_document(lexical(point.text))
        vectors: dict[str, Any] = {"bm25": qm.SparseVector(indices=words.indices, values=words.values)}
        if point.dense is not None:
            vectors["dense"] = list(point.dense)
        return qm.PointStruct(id=point.id, vector=vectors, payload={**point.payload, "text": point.text})


def by_url(url: str, api_key: str, timeout_s: float) -> Callable[[], QdrantClient]:
    """What ServerStore connects with."""
    return lambda: QdrantClient(url=url, api_key=api_key or None, timeout=max(1, round(timeout_s)), check_compatibility=False)


def _tip(error: UnexpectedResponse) -> str:
    return "see AUTOPATCH_KNOWLEDGE_API_KEY" if error.status_code in (401, 403) else ""


def _filter(where: Where) -> qm.Filter:
    def conditions(fields: Any) -> list[Any]:
        return [qm.FieldCondition(key=name, match=qm.MatchAny(any=list(values))) for name, values in fields.items()]

    return qm.Filter(must=conditions(where.any_of), must_not=conditions(where.none_of))


def _upserted(name: str, points: list[qm.PointStruct], client: QdrantClient) -> None:
    client.upsert(name, points, wait=True)


def _batched(name: str, operations: Sequence[qm.SetPayloadOperation], client: QdrantClient) -> None:
    client.batch_update_points(name, operations, wait=True)


def _scrolled(name: str, where: qm.Filter, limit: int, offset: Any, client: QdrantClient) -> tuple[list[Any], Any]:
    return client.scroll(name, where, limit=limit, offset=offset, with_payload=True)


def _point(found: Any) -> Point:
    payload = dict(found.payload or {})
    return Point(str(found.id), str(payload.pop("text", "")), payload)
