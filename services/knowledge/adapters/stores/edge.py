"""Qdrant's engine in this process (qdrant-edge-py): one shard per collection, a write-ahead log, one process at a time."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, Any, TypeVar

import qdrant_edge as qe

from autopatch.contract.errors import OperatorError, Unavailable
from services.knowledge.adapters.stores.words import lexical
from services.knowledge.adapters.stores.worker import Worker
from services.knowledge.ports import COLLECTIONS, INDEXED, Collection, Hit, Point, Vector, Where

R = TypeVar("R")
BATCH = 64  # points per call: the engine keeps the interpreter's lock while it writes
PREFETCH = 50
RRF_K = 60
OPTIMIZE = "import sys, qdrant_edge as q; s = q.EdgeShard.load(sys.argv[1]); s.optimize(); s.close()"
MOVE = "move the folder away to begin anew (lessons are then lost), or restore it from a backup"


class EdgeStore:
    """The Store port over a folder. `size` is the length of dense vectors, also while none are written."""

    def __init__(self, folder: Path, size: int = 384) -> None:
        self._folder = folder
        self._size = size
        self._worker = Worker("qdrant")
        self._shards: dict[Collection, qe.EdgeShard] = {}
        self._lock: IO[str] | None = None
        self._bm25 = qe.Bm25()

    async def open(self) -> None:
        """See ports.Store."""
        await self._worker.run(self._open)

    async def upsert(self, collection: Collection, points: Sequence[Point]) -> None:
        """See ports.Store."""
        for start in range(0, len(points), BATCH):
            batch = [self._made(point) for point in points[start : start + BATCH]]
            await self._update(collection, qe.UpdateOperation.upsert_points(batch))

    async def search(self, collection: Collection, dense: Vector | None, text: str, where: Where, limit: int) -> list[Hit]:
        """See ports.Store."""
        only = _filter(where)
        asked = [qe.Query.Nearest(self._bm25.embed_query(lexical(text)), using="bm25")]
        if dense is not None:
            asked.append(qe.Query.Nearest(list(dense), using="dense"))
        stages = [qe.Prefetch(max(PREFETCH, limit), query=query, filter=only) for query in asked]
        fused: Any = qe.Fusion.Rrf(RRF_K)
        request = qe.QueryRequest(limit=limit, query=fused, prefetches=stages, with_payload=True)
        answer = await self._on(collection, lambda shard: shard.query(request))
        return [Hit(_point(found), float(found.score)) for found in answer]

    async def get(self, collection: Collection, ids: Sequence[str]) -> list[Point]:
        """See ports.Store."""
        return [_point(r) for r in await self._on(collection, lambda shard: shard.retrieve(list(ids), True, False))]

    async def scroll(self, collection: Collection, where: Where, limit: int | None = None) -> list[Point]:
        """See ports.Store."""
        found: list[Point] = []
        offset: Any = None
        while limit is None or len(found) < limit:
            page = min(256, limit - len(found)) if limit is not None else 256
            request = qe.ScrollRequest(offset=offset, limit=page, filter=_filter(where), with_payload=True)
            records, offset = await self._on(collection, partial(_scrolled, request))
            found += [_point(record) for record in records]
            if offset is None:
                break
        return found

    async def set_payload(self, collection: Collection, payloads: Mapping[str, Mapping[str, Any]]) -> None:
        """See ports.Store."""
        for id, payload in payloads.items():
            await self._update(collection, qe.UpdateOperation.set_payload([id], dict(payload)))

    async def delete(self, collection: Collection, where: Where) -> None:
        """See ports.Store."""
        await self._update(collection, qe.UpdateOperation.delete_points_by_filter(_filter(where)))

    async def count(self, collection: Collection, where: Where) -> int:
        """See ports.Store."""
        request = qe.CountRequest(exact=True, filter=_filter(where))
        return int(await self._on(collection, lambda shard: shard.count(request)))

    async def optimize(self) -> None:
        """In a process of its own: the engine would keep the interpreter's lock for the whole time."""
        for collection in COLLECTIONS:
            await self._worker.run(self._optimize, collection)

    async def close(self) -> None:
        """See ports.Store."""
        if not self._worker.closed:
            await self._worker.run(self._close)
            self._worker.close()

    async def _update(self, collection: Collection, operation: qe.UpdateOperation) -> None:
        await self._on(collection, lambda shard: shard.update(operation))

    async def _on(self, collection: Collection, call: Callable[[qe.EdgeShard], R]) -> R:
        return await self._worker.run(self._call, collection, call)

    def _call(self, collection: Collection, call: Callable[[qe.EdgeShard], R]) -> R:
        if collection not in self._shards:
            try:
                self._open()
            except OperatorError as error:
                raise Unavailable("qdrant", str(error)) from error
        if not (self._folder / collection / "edge_config.json").exists():
            raise Unavailable("qdrant", f"{self._folder / collection} is gone", tip="put it back; nothing was written since")
        with _EngineFaults(f"{self._folder / collection}"):
            return call(self._shards[collection])

    def _open(self) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._claim()
        except OSError as error:
            raise Unavailable("qdrant", f"{self._folder}: {error.strerror}") from error
        for collection in COLLECTIONS:
            if collection not in self._shards:
                self._shards[collection] = self._shard(self._folder / collection)

    def _claim(self) -> None:
        if self._lock is not None:
            return
        lock = (self._folder / "lock").open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            lock.close()
            raise OperatorError(
                f"the knowledge folder {self._folder} is in use by process {holder}",
                tip="stop that one, or set AUTOPATCH_KNOWLEDGE_FOLDER, or AUTOPATCH_KNOWLEDGE_URL to share a server",
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        self._lock = lock

    def _shard(self, path: Path) -> qe.EdgeShard:
        if not path.exists():
            self._create(path)
        config = path / "edge_config.json"
        with _EngineFaults(f"{path}", tip=MOVE):
            if not config.exists():
                raise Unavailable("qdrant", f"{path} is not a shard: it has no edge_config.json", tip=MOVE)
            made_for = _dense_size(config)
            if made_for != self._size:
                raise OperatorError(
                    f"{path} was made for vectors of {made_for} numbers, the embedder makes {self._size}",
                    tip="set AUTOPATCH_KNOWLEDGE_EMBEDDER back, or another AUTOPATCH_KNOWLEDGE_FOLDER",
                )
            return qe.EdgeShard.load(str(path))

    def _create(self, path: Path) -> None:
        """Under another name first: a crash leaves no half-made shard."""
        new = path.with_name(f"{path.name}.new")
        shutil.rmtree(new, ignore_errors=True)
        dense = {"dense": qe.EdgeVectorParams(size=self._size, distance=qe.Distance.Cosine)}
        sparse = {"bm25": qe.EdgeSparseVectorParams(modifier=qe.Modifier.Idf)}
        with _EngineFaults(f"{path}"):
            shard = qe.EdgeShard.create(str(new), qe.EdgeConfig(vectors=dense, sparse_vectors=sparse))
            for name in INDEXED:
                shard.update(qe.UpdateOperation.create_field_index(name, qe.PayloadSchemaType.Keyword))
            shard.flush()
            shard.close()
        new.rename(path)

    def _optimize(self, collection: Collection) -> None:
        path = self._folder / collection
        self._call(collection, lambda shard: shard.close())
        del self._shards[collection]
        done = subprocess.run([sys.executable, "-c", OPTIMIZE, str(path)], check=False, capture_output=True, text=True)  # noqa: S603
        self._open()
        if done.returncode:
            raise Unavailable("qdrant", f"optimizing {path} failed: {done.stderr.strip()[-200:]}")

    def _close(self) -> None:
        for shard in self._shards.values():
            with _EngineFaults(str(self._folder)):
                shard.close()
        self._shards.clear()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _made(self, point: Point) -> qe.Point:
        vectors: dict[str, Any] = {"bm25": self._bm25.embed_document(lexical(point.text))}
        if point.dense is not None:
            vectors["dense"] = list(point.dense)
        return qe.Point(point.id, vectors, {**point.payload, "text": point.text})


class _EngineFaults:
    """The engine raises bare Exception, or panics: both mean that it cannot answer. Everything else passes."""

    def __init__(self, where: str, tip: str = "") -> None:
        self._where = where
        self._tip = tip

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is Exception or (kind is not None and kind.__name__ == "PanicException"):
            raise Unavailable("qdrant", f"{self._where}: {str(error)[:300]}", tip=self._tip) from error


def _dense_size(config: Path) -> int:
    try:
        return int(json.loads(config.read_text())["vectors"]["dense"]["size"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Unavailable("qdrant", f"{config} is damaged: {error}", tip=MOVE) from error


def _filter(where: Where) -> qe.Filter:
    def conditions(fields: Any) -> list[Any]:
        return [qe.FieldCondition(name, match=qe.MatchAny(list(values))) for name, values in fields.items()]

    return qe.Filter(must=conditions(where.any_of), must_not=conditions(where.none_of))


def _scrolled(request: qe.ScrollRequest, shard: qe.EdgeShard) -> tuple[list[Any], Any]:
    return shard.scroll(request)


def _point(found: Any) -> Point:
    payload = dict(found.payload or {})
    return Point(str(found.id), str(payload.pop("text", "")), payload)
