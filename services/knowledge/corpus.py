"""Runbooks and documents, and search over everything that knowledge holds."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import structlog

from autopatch.chassis.telemetry import span
from autopatch.contract.errors import OperatorError, Unavailable
from autopatch.contract.evidence import Similar
from autopatch.contract.requests import Found, RunbookPlan, Search
from services.knowledge.adapters.sources.documents import Document
from services.knowledge.ports import COLLECTIONS, Collection, Embedder, Hit, Point, Store, Where

log = structlog.get_logger("knowledge")

ANSWER_BYTES = 40_000
EMBED_BATCH = 16
FILL_PAGE = 256  # a quarter of a second to find among 50,000
OPTIMIZE_AFTER = 20_000  # chunks written: below, a full scan answers in milliseconds
KINDS: Mapping[Collection, tuple[str, ...]] = {
    "incidents": ("lesson", "incident"), "documents": ("runbook", "document"), "code": ("code",),
}
UNASKED = ("lesson", "incident", "runbook", "document")
"""What is searched when no kind is named."""


@dataclass(frozen=True)
class Ingested:
    """Numbers of documents, and of the chunks that were written."""

    added: int = 0
    unchanged: int = 0
    removed: int = 0
    chunks: int = 0


class Corpus:
    """Writes are found by their words at once; their vectors follow from `fill`, so that nothing waits for a model to load."""

    def __init__(self, store: Store, embedder: Embedder | None, redact: Callable[[str], str]) -> None:
        self.store = store
        self.writing = asyncio.Lock()
        self._embedder = embedder
        self._redact = redact
        self._unfilled = asyncio.Event()
        self._since_optimized = 0

    async def write(self, collection: Collection, points: Sequence[Point]) -> None:
        """Durable when it returns. The caller holds `writing`."""
        await self.store.upsert(collection, [replace(p, payload={**p.payload, "embedder": ""}) for p in points])
        self._unfilled.set()

    async def ingest(self, documents: Sequence[Document], origin: str, *, complete: bool = False) -> Ingested:
        """Write what is new or changed. With `complete`, what else there is of this origin has vanished and is removed.

        New chunks are written before old ones are deleted: a crash in between leaves both, and the next ingest tidies up.
        """
        async with self.writing:
            known = await self._digests(origin)
            fresh = [d for d in documents if known.get(d.source) != {d.digest}]
            points = [point for document in fresh for point in self._points(document, origin)]
            await self.write("documents", points)
            for document in fresh:
                old = known.get(document.source, set()) - {document.digest}
                if old:
                    await self._delete(origin, document.source, sorted(old))
            gone = sorted(known.keys() - {d.source for d in documents}) if complete else []
            for source in gone:
                await self._delete(origin, source, sorted(known[source]))
        self._since_optimized += len(points)
        return Ingested(len(fresh), len(documents) - len(fresh), len(gone), len(points))

    async def remove(self, source: str) -> int:
        """Everything of one source, whatever its origin. Returns the number of chunks."""
        async with self.writing:
            where = Where({"source": (source,)})
            count = await self.store.count("documents", where)
            await self.store.delete("documents", where)
        return count

    async def runbooks(self, cause: str) -> list[RunbookPlan]:
        """Those that name this cause, in the order of their sources."""
        points = await self.store.scroll("documents", Where({"kind": ("runbook",), "causes": (cause,)}))
        books = {str(p.payload["source"]): RunbookPlan.model_validate(p.payload["runbook"]) for p in points}
        return [books[source] for source in sorted(books)]

    async def search(self, question: Search) -> Found:
        """By words, and by meaning once the model is loaded. Another target's lessons, incidents and documents are left out."""
        with span("retrieval knowledge") as current:
            embedder = self._embedder if self._embedder and self._embedder.ready else None
            dense = (await embedder.embed([question.text]))[0] if embedder else None
            hits = [hit for name in COLLECTIONS for hit in await self._hits(name, question, dense)]
            items = _fitting(sorted(hits, key=lambda hit: -hit.score)[: question.limit])
            current.set_attribute("gen_ai.operation.name", "retrieval")
            current.set_attribute("retrieval.by", "words and meaning" if dense else "words")
            current.set_attribute("retrieval.found", [f"{item.kind} {item.id}" for item in items])
        return Found(items=tuple(items))

    async def _hits(self, name: Collection, question: Search, dense: Any) -> list[Hit]:
        kinds = [kind for kind in KINDS[name] if kind in (question.kinds or UNASKED)]
        if not kinds:
            return []
        any_of: dict[str, Sequence[str]] = {"kind": kinds}
        if question.target:
            any_of["target"] = (question.target, "")
        return await self.store.search(name, dense, question.text, Where(any_of), question.limit)

    async def keep_filled(self, sleep: Callable[[float], Any]) -> None:
        """Give new points their vectors, all points if the embedder changed; build indices after much writing.

        For ever, unless the model cannot be loaded: then search goes on by words.
        """
        self._unfilled.set()
        while True:
            await self._unfilled.wait()
            self._unfilled.clear()
            try:
                await self.fill()
                if self._since_optimized >= OPTIMIZE_AFTER:
                    self._since_optimized = 0
                    await self.store.optimize()
            except Unavailable as error:
                log.warning("vectors are late", error=str(error))
                self._unfilled.set()
                await sleep(3)
            except OperatorError as error:
                log.error("search goes on by words only", error=str(error))
                return

    async def fill(self) -> None:
        """Until every point that is searched has a vector of the present embedder."""
        if self._embedder is None:
            return
        if not self._embedder.ready:
            await self._embedder.embed(["warm up"])
        while lacking := await self._lacking(self._embedder.name):
            collection, points = lacking
            for start in range(0, len(points), EMBED_BATCH):
                await self._give_vectors(collection, points[start : start + EMBED_BATCH], self._embedder)

    async def _lacking(self, embedder: str) -> tuple[Collection, list[Point]] | None:
        """Looked for anew after every few, and code last: what is written meanwhile does not wait for a whole repository."""
        for collection in COLLECTIONS:
            without = Where({"kind": KINDS[collection]}, {"embedder": (embedder,)})
            if points := await self.store.scroll(collection, without, FILL_PAGE):
                return collection, points
        return None

    async def close(self) -> None:
        """After the write that is going on."""
        async with self.writing:
            await self.store.close()
        if self._embedder is not None:
            await self._embedder.close()

    async def _give_vectors(self, collection: Collection, points: Sequence[Point], embedder: Embedder) -> None:
        vectors = dict(zip((p.id for p in points), await embedder.embed([p.text for p in points]), strict=True))
        before = {p.id: p for p in points}
        async with self.writing:
            now = await self.store.get(collection, list(before))
            same = [p for p in now if (p.text, p.payload) == (before[p.id].text, before[p.id].payload)]
            named = {"embedder": embedder.name}
            await self.store.upsert(collection, [replace(p, dense=vectors[p.id], payload={**p.payload, **named}) for p in same])

    async def _digests(self, origin: str) -> dict[str, set[str]]:
        known: dict[str, set[str]] = {}
        for point in await self.store.scroll("documents", Where({"kind": KINDS["documents"], "origin": (origin,)})):
            known.setdefault(str(point.payload["source"]), set()).add(str(point.payload["digest"]))
        return known

    async def _delete(self, origin: str, source: str, digests: Sequence[str]) -> None:
        await self.store.delete("documents", Where({"origin": (origin,), "source": (source,), "digest": digests}))

    def _points(self, document: Document, origin: str) -> list[Point]:
        """The first chunk carries the runbook and is written last: with it the document is complete."""
        common = {
            "kind": document.kind, "target": document.target, "title": document.title, "source": document.source,
            "origin": origin, "digest": document.digest,
        }
        made = []
        for number, text in enumerate(document.chunks):
            payload: dict[str, Any] = {**common, "id": f"{document.source}#{number}"}
            if number == 0 and document.runbook:
                payload |= {"causes": list(document.runbook.causes), "runbook": document.runbook.model_dump(mode="json")}
            made.append(Point(point_id(origin, document.source, document.digest, number), self._redact(text), payload))
        return made[::-1]


def point_id(*parts: object) -> str:
    """The same parts make the same UUID."""
    return str(uuid5(NAMESPACE_URL, "autopatch:" + "\0".join(map(str, parts))))


def _fitting(hits: Sequence[Hit]) -> list[Similar]:
    """As many as fit into one answer on the bus."""
    items, size = [], 0
    for hit in hits:
        payload = hit.point.payload
        item = Similar(
            id=str(payload.get("id", hit.point.id)), kind=payload["kind"], title=str(payload.get("title", "")),
            text=hit.point.text, score=hit.score, source=str(payload.get("source", "")),
        )
        size += len(item.model_dump_json().encode())
        if size > ANSWER_BYTES:
            break
        items.append(item)
    return items
