"""Ingest, search and vectors that follow later."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from autopatch.contract.errors import OperatorError
from autopatch.contract.requests import Search
from services.knowledge.adapters.sources.documents import read, read_folder
from services.knowledge.adapters.stores.edge import EdgeStore
from services.knowledge.corpus import Corpus
from services.knowledge.ports import Point, Store, Where
from services.knowledge.tests.fakes import Hashing

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect in the local Qdrant")
BOOK = "---\ncauses: [{cause}]\nactions: [{{kind: reload}}]\n---\n# {title}\n{text}\n"


def _corpus(store: Store, embedder: Hashing | None = None) -> Corpus:
    return Corpus(store, embedder, lambda text: text.replace("hunter2", "***"))


def _book(name: str, cause: str = "pool_exhausted", text: str = "raise the pool") -> str:
    return BOOK.format(cause=cause, title=name, text=text)


async def _sources(store: Store) -> set[str]:
    return {str(p.payload["source"]) for p in await store.scroll("documents", Where())}


async def test_ingesting_the_same_again_writes_nothing(store: Store) -> None:
    corpus, documents = _corpus(store), [read("a.md", _book("a")), read("b.md", "words")]
    assert vars(await corpus.ingest(documents, "x")) == {"added": 2, "unchanged": 0, "removed": 0, "chunks": 2}
    assert vars(await corpus.ingest(documents, "x")) == {"added": 0, "unchanged": 2, "removed": 0, "chunks": 0}


async def test_a_changed_file_replaces_its_old_chunks(store: Store) -> None:
    corpus = _corpus(store)
    await corpus.ingest([read("a.md", "# T\none\n## Two\ntwo")], "x")
    assert (await corpus.ingest([read("a.md", "# T\nthree")], "x")).added == 1
    assert [p.text for p in await store.scroll("documents", Where())] == ["T\nthree"]


async def test_vanished_files_of_a_complete_origin_are_removed_and_others_stay(store: Store, tmp_path: Path) -> None:
    corpus = _corpus(store)
    for name in ("a.md", "deep/b.txt", "c.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"about {name}")
    await corpus.ingest([read("other.md", "stays")], "api")
    assert (await corpus.ingest(read_folder(tmp_path), "folder", complete=True)).added == 2
    (tmp_path / "a.md").unlink()
    assert (await corpus.ingest(read_folder(tmp_path), "folder", complete=True)).removed == 1
    assert await _sources(store) == {"other.md", str(tmp_path / "deep/b.txt")}
    assert await corpus.remove("other.md") == 1 and await corpus.remove("other.md") == 0


async def test_an_ingest_that_died_between_two_writes_is_completed_by_the_next(store: Store) -> None:
    corpus, document = _corpus(store), read("a.md", _book("a") + "## More\nmore")
    chunks = corpus._points(document, "x")
    await store.upsert("documents", list(corpus._points(read("a.md", "old"), "x")))
    await store.upsert("documents", chunks[:1])
    await corpus.ingest([document], "x")
    assert len(await store.scroll("documents", Where())) == 2 and [b.name for b in await corpus.runbooks("pool_exhausted")] == [
        "a"
    ]


async def test_secrets_are_redacted_before_they_are_kept(store: Store) -> None:
    await _corpus(store).ingest([read("a.md", "password hunter2")], "x")
    assert "hunter2" not in str(await store.scroll("documents", Where()))


async def test_runbooks_are_found_by_the_cause_that_they_name(store: Store) -> None:
    corpus = _corpus(store)
    await corpus.ingest([read("a.md", _book("a")), read("b.md", _book("b", "disk_full")), read("c.md", "pool_exhausted")], "x")
    assert [book.title for book in await corpus.runbooks("pool_exhausted")] == ["a"]
    assert await corpus.runbooks("nothing") == []


async def test_search_leaves_out_other_targets_and_kinds_that_were_not_asked_for(store: Store) -> None:
    corpus = _corpus(store)
    mine = "---\ntarget: payments\ncauses: [x]\n---\npool of payments"
    theirs = "---\ntarget: orders\ncauses: [x]\n---\npool of orders"
    await corpus.ingest([read("mine.md", mine), read("theirs.md", theirs), read("all.md", "pool in general")], "x")
    found = await corpus.search(Search(text="pool", target="payments"))
    assert {item.source for item in found.items} == {"mine.md", "all.md"}
    found = await corpus.search(Search(text="pool", kinds=("document",)))
    assert [(item.source, item.kind) for item in found.items] == [("all.md", "document")]
    assert (await corpus.search(Search(text="pool", kinds=("code",)))).items == ()


async def test_incidents_and_documents_are_answered_together_best_first(store: Store) -> None:
    corpus = _corpus(store)
    await corpus.ingest([read("a.md", "certificate expired"), read("b.md", "the pool is exhausted")], "x")
    await store.upsert(
        "incidents", [Point("5d3c7d57-6f6f-4e53-8d4e-6d2e8f8f7a01", "pool exhausted", {"kind": "incident", "id": "i1"})]
    )
    found = await corpus.search(Search(text="pool exhausted"))
    assert {item.id for item in found.items[:2]} == {"i1", "b.md#0"}


async def test_an_answer_fits_on_the_bus(store: Store) -> None:
    corpus = _corpus(store)
    await corpus.ingest([read(f"{n}.md", "pool " + "é" * 1100) for n in range(60)], "x")
    found = await corpus.search(Search(text="pool", limit=50))
    assert 10 < len(found.items) < 50 and len(found.model_dump_json().encode()) < 45_000


async def test_vectors_follow_without_anybody_waiting_for_the_model(store: Store) -> None:
    embedder = Hashing(ready=False)
    corpus = _corpus(store, embedder)
    await corpus.ingest([read(f"{n}.md", f"text {n} pool") for n in range(20)], "x")
    assert (await corpus.search(Search(text="pool"))).items and not embedder.ready
    await corpus.fill()
    assert embedder.ready and await store.count("documents", Where({"embedder": ("hashing",)})) == 20
    assert (await corpus.search(Search(text="text 7 pool"))).items[0].source == "7.md"


async def test_another_embedder_gives_every_point_a_new_vector(store: Store) -> None:
    await _corpus(store).ingest([read("a.md", "pool")], "x")
    for name in ("first", "second"):
        await _corpus(store, Hashing(name=name)).fill()
        assert await store.count("documents", Where({"embedder": (name,)})) == 1


async def test_a_point_that_was_deleted_while_its_vector_was_made_does_not_come_back(store: Store) -> None:
    class Slow(Hashing):
        async def embed(self, texts):  # type: ignore[no-untyped-def]
            await corpus.remove("a.md")
            return await super().embed(texts)

    corpus = _corpus(store, Slow())
    await corpus.ingest([read("a.md", "pool"), read("b.md", "pool")], "x")
    await corpus.fill()
    assert await _sources(store) == {"b.md"}


async def test_a_model_that_cannot_be_loaded_leaves_search_by_words(store: Store) -> None:
    class Broken(Hashing):
        async def embed(self, texts: Sequence[str]) -> list[Sequence[float]]:
            raise OperatorError("the model is damaged")

    corpus = _corpus(store, Broken(ready=False))
    await corpus.ingest([read("a.md", "pool")], "x")
    await corpus.keep_filled(_no_sleep)
    assert [item.source for item in (await corpus.search(Search(text="pool"))).items] == ["a.md"]


async def test_vectors_are_made_in_the_background_also_after_qdrant_was_away(edge: EdgeStore, tmp_path: Path) -> None:
    corpus = _corpus(edge, Hashing(ready=False))
    await corpus.ingest([read("a.md", "pool")], "x")
    (tmp_path / "qdrant" / "documents").rename(tmp_path / "away")

    async def put_back(_: float) -> None:
        (tmp_path / "away").rename(tmp_path / "qdrant" / "documents")

    filling = asyncio.create_task(corpus.keep_filled(put_back))
    while not (tmp_path / "qdrant" / "documents").exists() or not await edge.count(
        "documents", Where({"embedder": ("hashing",)})
    ):
        await asyncio.sleep(0.01)
    filling.cancel()


async def _no_sleep(_: float) -> None:
    raise AssertionError
