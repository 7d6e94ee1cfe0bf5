"""Repositories in the collection `code`, over both stores."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from autopatch.chassis.outline import Definition, outline
from autopatch.chassis.redaction import redact
from autopatch.contract.code import CodeJob
from autopatch.contract.errors import ContractError, Unavailable
from autopatch.contract.evidence import BlobRef, Similar
from autopatch.contract.model import digest
from autopatch.contract.requests import Search
from autopatch.repair.tree import write_archive
from services.knowledge.adapters.code.index import CodeIndex
from services.knowledge.adapters.embedder import embedder
from services.knowledge.adapters.sources.documents import read
from services.knowledge.adapters.stores.edge import EdgeStore
from services.knowledge.corpus import Corpus
from services.knowledge.ports import Point, Store, Where
from services.knowledge.tests.fakes import Hashing

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect in the local Qdrant")
CART = """\
package shop

// Add puts one more item into the cart.
func (c *Cart) Add(item Item) {
	c.items = append(c.items, item)
}

func (c *Cart) refundTotal() int {
	return c.paid
}
"""
TREE = {
    "pay/ledger.py": b"import decimal\n\n\ndef balance(rows):\n    return sum(rows)\n\n\ndef close(rows):\n    rows.clear()\n",
    "pay/__init__.py": b"",
    "shop/cart.go": CART.encode(),
    "README.md": b"# Shop\n\nHow customers pay.\n",
    "node_modules/left/index.js": b"module.exports = function left() {}\n",
    "logo.png": b"\x89PNG\0",
}


class _Blobs:
    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    async def put(self, data: bytes) -> BlobRef:
        self.kept[digest(data)] = data
        return BlobRef(name=digest(data), size=len(data), digest=digest(data))

    async def get(self, ref: BlobRef) -> bytes:
        return self.kept[ref.name]


class _Dying:
    """The store, until the power fails after so many writes."""

    def __init__(self, store: Store, writes: int) -> None:
        self._store = store
        self._writes = writes

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._store, name)
        if name not in ("upsert", "delete", "set_payload"):
            return call

        async def counted(*given: Any) -> Any:
            self._writes -= 1
            if self._writes < 0:
                raise Unavailable("qdrant", "the power failed")
            return await call(*given)

        return counted


def _here(files: Sequence[tuple[str, bytes]]) -> list[tuple[Definition, ...]]:
    """Without a process of its own, which would cost more than the tests."""
    return [outline(path, data) for path, data in files]


def _index(store: Store, made: Hashing | None = None, **limits: int) -> CodeIndex:
    return CodeIndex(Corpus(store, made, redact), _Blobs(), redact, outlining=_here, **limits)


async def _held(store: Store, repository: str = "shop") -> dict[tuple[str, str], tuple[int, int]]:
    points = await store.scroll("code", Where({"kind": ("code",), "target": (repository,)}))
    return {(p.payload["source"], p.payload["name"]): (p.payload["start"], p.payload["end"]) for p in points}


async def _search(index: CodeIndex, text: str, target: str = "shop") -> list[Similar]:
    return list((await index._corpus.search(Search(text=text, kinds=("code",), target=target))).items)


async def test_the_snapshot_of_a_job_is_read_and_each_chunk_says_where_it_is_from(store: Store) -> None:
    index = _index(store)
    ref = await index._blobs.put(write_archive(TREE))
    done = await index.index(CodeJob(repository="shop", snapshot=ref, tree="t", command=("pytest",)))
    assert (done.chunks, done.changed) == (7, 7)
    assert await _held(store) == {
        ("README.md", ""): (1, 3), ("pay/ledger.py", ""): (1, 1), ("pay/ledger.py", "balance"): (4, 5),
        ("pay/ledger.py", "close"): (8, 9), ("shop/cart.go", ""): (1, 1), ("shop/cart.go", "Cart.Add"): (3, 6),
        ("shop/cart.go", "Cart.refundTotal"): (8, 10),
    }
    [found] = await _search(index, "balance")
    assert (found.kind, found.id, found.title, found.source) == ("code", "pay/ledger.py:4-5", "function balance", "pay/ledger.py")
    assert found.text == "pay/ledger.py balance\ndef balance(rows):\n    return sum(rows)"


async def test_an_archive_that_is_none_is_named(store: Store) -> None:
    index = _index(store)
    ref = await index._blobs.put(b"no archive")
    with pytest.raises(ContractError, match="an archive of files"):
        await index.index(CodeJob(repository="shop", snapshot=ref, tree="t", command=("pytest",)))


async def test_the_same_again_reads_nothing_and_writes_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await _index(store).replace("shop", TREE)
    again = _index(_Dying(store, 0))
    monkeypatch.setattr(again, "_read", lambda files: pytest.fail(f"{files} were read") if files else {})
    assert (await again.replace("shop", TREE)).changed == 0


async def test_only_changed_chunks_are_written_and_moved_ones_keep_their_vectors(store: Store) -> None:
    embedding = Counting()
    index = _index(store, embedding)
    await index.replace("shop", TREE)
    await index._corpus.fill()
    assert embedding.texts == 7
    ledger = b"import os\n" + TREE["pay/ledger.py"].replace(b"clear()", b"clear()\n    rows.sort()")
    done = await index.replace("shop", {**TREE, "pay/ledger.py": ledger})
    assert (done.chunks, done.changed) == (7, 2)
    held = await _held(store)
    assert held["pay/ledger.py", "balance"] == (5, 6) and held["pay/ledger.py", "close"] == (9, 11) and len(held) == 7
    assert await store.count("code", Where({"kind": ("code",)}, {"embedder": ("hashing",)})) == 2
    await index._corpus.fill()
    assert embedding.texts == 9
    found = await store.search("code", (await Hashing().embed(["sum rows balance"]))[0], "", Where({"kind": ("code",)}), 1)
    assert found[0].point.payload["name"] == "balance"


class Counting(Hashing):
    def __init__(self) -> None:
        super().__init__()
        self.texts = 0

    async def embed(self, texts: Sequence[str]) -> list[Sequence[float]]:
        self.texts += len(texts)
        return await super().embed(texts)


async def test_vanished_files_and_functions_are_removed_and_other_repositories_stay(store: Store) -> None:
    index = _index(store)
    for repository in ("shop", "other"):
        await index.replace(repository, TREE)
    rest = {"pay/ledger.py": b"def balance(rows):\n    return sum(rows)\n", "pay/__init__.py": b""}
    assert vars(await index.replace("shop", rest)) == {"chunks": 1, "changed": 0}
    assert await _held(store) == {("pay/ledger.py", "balance"): (1, 2)}
    assert len(await _held(store, "other")) == 7
    assert await index.forget("other") == 7 and await index.forget("other") == 0
    assert await store.count("code", Where({"target": ("other",)})) == 0 and await store.count("code", Where()) == 3


async def test_a_file_that_was_renamed_is_found_under_its_new_name_only(store: Store) -> None:
    index = _index(store)
    await index.replace("shop", {"a.py": b"def f():\n    return 1\n"})
    await index.replace("shop", {"b.py": b"def f():\n    return 1\n"})
    assert list(await _held(store)) == [("b.py", "f")]


@pytest.mark.parametrize("writes", range(9))
async def test_an_index_that_died_between_two_writes_is_completed_by_the_next(edge: EdgeStore, writes: int) -> None:
    """Whichever tree comes next: the new one, the old one again, or one without the file."""
    old = {"a.py": b"def f(): pass\n\ndef g(): pass\n", "gone.py": b"def h(): pass\n"}
    new = {"a.py": b"# moved\n\ndef f(): pass\n\ndef g(): return 1\n", "new.py": b"def n(): pass\n"}
    for repository, then in (("one", new), ("two", old), ("three", {"b.py": b"def i(): pass\n"})):
        await _index(edge).replace(repository, old)
        dying = _Dying(edge, writes)
        died = False
        try:
            await _index(dying).replace(repository, new)
        except Unavailable:
            died = True
        assert died == (writes < 8), "the last one is the one that does not die"
        done = await _index(edge).replace(repository, then)
        fresh = f"{repository}-fresh"
        expected = await _index(edge).replace(fresh, then)
        assert await _held(edge, repository) == await _held(edge, fresh) and done.chunks == expected.chunks
        assert await edge.count("code", Where({"target": (repository,)})) == await edge.count("code", Where({"target": (fresh,)}))
        assert (await _index(edge).replace(repository, then)).changed == 0


async def test_secrets_are_redacted_before_they_are_kept(store: Store) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0a1B2c3D4e5F6g7H8"
    source = f'def pay():\n    token = "{token}"\n'.encode()
    tree = {"a.py": source, f"{token}.py": b"def x(): pass\n", "b.md": f"use {token}\n".encode()}
    index = _index(store)
    assert (await index.replace("shop", tree)).chunks == 2
    assert token not in str(await store.scroll("code", Where())) and len(await _search(index, "pay")) == 1


async def test_a_function_is_found_by_words_also_by_those_of_its_mixed_case_name(store: Store) -> None:
    index = _index(store)
    await index.replace("shop", TREE)
    for question, name in (("refund total", "Cart.refundTotal"), ("one more item", "Cart.Add"), ("sum of rows", "balance")):
        assert (await _search(index, question))[0].title.split()[-1] == name, question


async def test_code_is_searched_when_it_is_asked_for_and_other_repositories_are_left_out(store: Store) -> None:
    index = _index(store)
    await index.replace("shop", {"a.py": b"def pool(): pass\n"})
    await index.replace("bank", {"b.py": b"def pool(): pass\n"})
    await index._corpus.ingest([read("a.md", "pool")], "x")
    corpus = index._corpus
    assert [item.kind for item in (await corpus.search(Search(text="pool"))).items] == ["document"]
    both = await corpus.search(Search(text="pool", kinds=("code", "document")))
    assert sorted(item.source for item in both.items) == ["a.md", "a.py", "b.py"]
    assert [item.source for item in await _search(index, "pool", "bank")] == ["b.py"]


async def test_a_broken_file_does_not_stop_the_rest(store: Store) -> None:
    tree = {"bad.py": b"def broken(:\n  x = [\n", "worse.ts": b"class {{{ =>\n", "good.py": b"def good():\n    return 1\n"}
    index = _index(store)
    await index.replace("shop", tree)
    assert (await _search(index, "good"))[0].title == "function good"
    assert {path for path, _ in await _held(store)} == set(tree)


async def test_sources_in_other_encodings_are_found_as_they_read(edge: EdgeStore) -> None:
    index = _index(edge)
    await index.replace("shop", {
        "old.py": "def café():\n    return 'crème'\n".encode("latin-1"),
        "cyrillic.py": "# -*- coding: cp1251 -*-\ndef счёт():\n    return 1\n".encode("cp1251"),
    })
    assert ("old.py", "café") in await _held(edge) and ("cyrillic.py", "счёт") in await _held(edge)
    assert "crème" in (await _search(index, "café"))[0].text


async def test_beyond_the_limits_of_files_and_chunks_the_top_of_the_repository_is_kept(edge: EdgeStore) -> None:
    tree = {f"{'deep/' * n}f{n}.py": f"def f{n}(): pass\n\ndef g{n}(): pass\n".encode() for n in range(6)}
    assert (await _index(edge, files=3).replace("shop", tree)).chunks == 6
    assert {path for path, _ in await _held(edge)} == {"f0.py", "deep/f1.py", "deep/deep/f2.py"}
    assert (await _index(edge, most=5).replace("shop", tree)).chunks == 4
    assert {path for path, _ in await _held(edge)} == {"f0.py", "deep/f1.py"}
    done = await _index(edge).replace("shop", tree)
    assert (done.chunks, done.changed) == (12, 8)


async def test_two_snapshots_at_once_leave_one_of_them_whole(edge: EdgeStore) -> None:
    index, jobs = _index(edge), []
    trees: list[Mapping[str, bytes]] = [{f"{name}{n}.py": b"def f(): pass\n" for n in range(20)} for name in "ab"]
    for tree in trees:
        ref = await index._blobs.put(write_archive(tree))
        jobs.append(CodeJob(repository="shop", snapshot=ref, tree="t", command=("pytest",)))
    await asyncio.gather(*(index.index(job) for job in jobs))
    assert {path for path, _ in await _held(edge)} in [set(tree) for tree in trees]


async def test_what_is_written_while_a_repository_gets_its_vectors_does_not_wait_for_all_of_it(edge: EdgeStore) -> None:
    order: list[str] = []

    class Noting(Hashing):
        async def embed(self, texts: Sequence[str]) -> list[Sequence[float]]:
            order.extend(texts)
            if len(order) == 16:
                await edge.upsert("documents", [Point("5d3c7d57-6f6f-4e53-8d4e-6d2e8f8f7a01", "a runbook", {"kind": "runbook"})])
            return await super().embed(texts)

    index = _index(edge, Noting())
    await index.replace("shop", {f"a{n}.py": f"def f{n}(): pass\n".encode() for n in range(600)})
    await index._corpus.fill()
    assert len(order) == 601 and order.index("a runbook") == 256


@pytest.mark.long
async def test_two_thousand_files_are_indexed_in_seconds(edge: EdgeStore) -> None:
    chosen = random.Random(7)
    names = ["amount", "rate", "row", "total", "customer", "order", "limit", "price", "day", "batch"]

    def function(number: int) -> str:
        said = [f"    {chosen.choice(names)} = {chosen.choice(names)} + {chosen.randrange(99)}\n" for _ in range(8)]
        return f"def step_{number}({chosen.choice(names)}):\n{''.join(said)}    return {chosen.choice(names)}\n\n\n"

    tree = {f"src/part{n % 40}/module_{n}.py": "".join(function(n * 10 + k) for k in range(4)).encode() for n in range(2000)}
    index, began = CodeIndex(Corpus(edge, None, redact), _Blobs(), redact), time.process_time()
    assert (await index.replace("shop", tree)).chunks == 8000
    spent = time.process_time() - began
    assert (await _search(index, "step_12341"))[0].title == "function step_12341"
    began = time.process_time()
    assert (await index.replace("shop", tree)).changed == 0
    again = time.process_time() - began
    print(f"2,000 files, 8,000 chunks: {spent:.1f} s of processor, again {again:.1f} s")
    assert spent < 20 and again < 5


@pytest.fixture
async def meaning(edge: EdgeStore) -> AsyncIterator[CodeIndex]:
    made = embedder("minilm", 1)
    assert made is not None
    corpus = Corpus(edge, made, redact)
    yield CodeIndex(corpus, _Blobs(), redact)
    await made.close()


@pytest.mark.slow
async def test_minilm_finds_a_function_by_a_paraphrase_that_shares_no_word_with_it(meaning: CodeIndex) -> None:
    tree = {
        "a.py": b"def reimburse(buyer, amount):\n    buyer.wallet += amount\n",
        "b.py": b"def encrypt(plain, key):\n    return cipher(key).seal(plain)\n",
        "c.py": b"def connect(host, port):\n    return socket.create_connection((host, port))\n",
    }
    await meaning.replace("shop", tree)
    await meaning._corpus.fill()
    for question, path in (
        ("give money back to the customer", "a.py"),
        ("protect a secret message", "b.py"),
        ("open a network link to a server", "c.py"),
    ):
        assert (await _search(meaning, question))[0].source == path, question


def test_the_room_counts_with_real_limits() -> None:
    index = CodeIndex(None, None, redact)  # type: ignore[arg-type]
    assert (index._files, index._most) == (5_000, 50_000)
    assert Path(__file__).parents[1].joinpath("README.md").read_text().count("5,000 files") == 1
