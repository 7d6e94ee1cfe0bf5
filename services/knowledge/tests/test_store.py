"""The Store port, over the embedded engine and over a client."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

import pytest

from autopatch.contract.errors import OperatorError, Unavailable
from services.knowledge.adapters.stores.edge import EdgeStore
from services.knowledge.adapters.stores.server import ServerStore, by_url
from services.knowledge.ports import Point, Store, Where
from services.knowledge.tests.fakes import Hashing

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect in the local Qdrant")


def _id(name: str) -> str:
    return str(uuid5(NAMESPACE_URL, name))


async def _points(*texts: str, **payload: str) -> list[Point]:
    vectors = await Hashing().embed(texts)
    return [Point(_id(t), t, {"kind": "document", **payload}, v) for t, v in zip(texts, vectors, strict=True)]


async def test_what_shares_words_and_meaning_with_the_question_comes_first(store: Store) -> None:
    await store.upsert("documents", await _points("the connection pool is exhausted", "disk is full", "certificate has expired"))
    question = "connection pool exhausted"
    hits = await store.search("documents", (await Hashing().embed([question]))[0], question, Where(), 2)
    assert [hit.point.text for hit in hits][0] == "the connection pool is exhausted"
    assert hits[0].score == pytest.approx(2 / 61, rel=0.05) and len(hits) == 2


async def test_without_vectors_words_alone_find_a_point(store: Store) -> None:
    await store.upsert("documents", [Point(_id("a"), "pool_size was too small", {"kind": "document"})])
    await store.upsert("documents", [Point(_id("b"), "disk is full", {"kind": "document"})])
    assert [h.point.id for h in await store.search("documents", None, "pool_size", Where(), 5)] == [_id("a")]


async def test_a_question_of_nothing_but_stop_words_finds_nothing(store: Store) -> None:
    await store.upsert("documents", [Point(_id("a"), "the pool", {"kind": "document"})])
    assert await store.search("documents", None, "the of and", Where(), 5) == []


async def test_a_rare_word_weighs_more_than_a_common_one(store: Store) -> None:
    common = [Point(_id(f"c{i}"), f"pool note number{i}", {"kind": "document"}) for i in range(8)]
    await store.upsert("documents", [*common, Point(_id("rare"), "certificate note", {"kind": "document"})])
    assert (await store.search("documents", None, "certificate pool", Where(), 3))[0].point.id == _id("rare")


async def test_points_outside_the_filter_are_never_found(store: Store) -> None:
    await store.upsert("documents", await _points("pool here", target="payments"))
    await store.upsert("documents", await _points("pool there", target="orders"))
    await store.upsert("documents", await _points("pool anywhere", target=""))
    where = Where({"target": ("payments", "")})
    found = await store.search("documents", (await Hashing().embed(["pool"]))[0], "pool", where, 10)
    assert {h.point.text for h in found} == {"pool here", "pool anywhere"}


async def test_lists_match_by_any_of_their_values_and_none_of_keeps_points_without_the_field(store: Store) -> None:
    both = {"causes": ["x", "y"], "embedder": "m"}
    await store.upsert("documents", [Point(_id("a"), "a", both), Point(_id("b"), "b", {"causes": ["z"]})])
    assert [p.id for p in await store.scroll("documents", Where({"causes": ("y",)}))] == [_id("a")]
    assert [p.id for p in await store.scroll("documents", Where(none_of={"embedder": ("m",)}))] == [_id("b")]


async def test_the_same_id_twice_is_one_point_with_the_newer_payload(store: Store) -> None:
    for note in ("old", "new"):
        await store.upsert("incidents", [Point(_id("a"), note, {"kind": "incident", "nested": {"list": [1, 2.5, None, True]}})])
    assert await store.count("incidents", Where()) == 1
    [point] = await store.get("incidents", [_id("a"), _id("missing")])
    assert point.text == "new" and point.payload["nested"] == {"list": [1, 2.5, None, True]}


async def test_collections_are_apart(store: Store) -> None:
    await store.upsert("documents", [Point(_id("a"), "a", {"kind": "outcome"})])
    assert await store.scroll("incidents", Where({"kind": ("outcome",)})) == []


async def test_scrolling_gives_all_pages_or_the_first_few(store: Store) -> None:
    await store.upsert("documents", [Point(_id(str(i)), f"n{i}", {"kind": "document"}) for i in range(600)])
    assert len({p.id for p in await store.scroll("documents", Where())}) == 600
    assert len(await store.scroll("documents", Where(), 7)) == 7


async def test_deleting_by_source_leaves_other_sources(store: Store) -> None:
    await store.upsert("documents", [Point(_id(s), s, {"source": s}) for s in ("a.md", "b.md")])
    await store.delete("documents", Where({"source": ("a.md",)}))
    await store.delete("documents", Where({"source": ("never.md",)}))
    assert [p.text for p in await store.scroll("documents", Where())] == ["b.md"]


async def test_after_optimizing_everything_is_still_found(store: Store) -> None:
    await store.upsert("documents", await _points("the pool is exhausted"))
    await store.optimize()
    assert len(await store.search("documents", None, "exhausted", Where(), 5)) == 1


async def test_the_event_loop_turns_while_the_engine_optimizes(edge: EdgeStore) -> None:
    await edge.upsert("documents", await _points(*(f"text number{i} of many" for i in range(300))))
    begun = last = asyncio.get_running_loop().time()
    longest = 0.0
    optimizing = asyncio.create_task(edge.optimize())
    while not optimizing.done():
        await asyncio.sleep(0.005)
        now = asyncio.get_running_loop().time()
        longest, last = max(longest, now - last), now
    await optimizing
    assert longest < max(0.5, (last - begun) / 2)


async def test_a_second_store_on_the_same_folder_is_refused_with_the_remedy(edge: EdgeStore, tmp_path: Path) -> None:
    second = EdgeStore(tmp_path / "qdrant")
    with pytest.raises(OperatorError, match=f"in use by process {os.getpid()}.*AUTOPATCH_KNOWLEDGE_FOLDER"):
        await second.open()
    with pytest.raises(Unavailable, match="in use"):
        await second.count("documents", Where())
    await second.close()


async def test_a_folder_made_for_another_vector_size_is_named(edge: EdgeStore, tmp_path: Path) -> None:
    await edge.close()
    other = EdgeStore(tmp_path / "qdrant", 768)
    with pytest.raises(OperatorError, match="vectors of 384 numbers, the embedder makes 768"):
        await other.open()
    await other.close()


@pytest.mark.parametrize("damaged", ["edge_config.json", "segments/*/segment.json", "wal/open-*"])
async def test_a_damaged_folder_is_unavailable_and_names_the_remedy(edge: EdgeStore, tmp_path: Path, damaged: str) -> None:
    await edge.upsert("incidents", [Point(_id("a"), "a", {})])
    await edge.close()
    for path in (tmp_path / "qdrant" / "incidents").glob(damaged):
        path.write_bytes(b"garbage " * 8)
    broken = EdgeStore(tmp_path / "qdrant")
    with pytest.raises(Unavailable, match=r"^qdrant: .*incidents.*move the folder away"):
        await broken.open()
    await broken.close()


async def test_a_folder_that_vanishes_while_open_is_unavailable_until_it_is_back(edge: EdgeStore, tmp_path: Path) -> None:
    await edge.upsert("incidents", [Point(_id("a"), "a", {})])
    (tmp_path / "qdrant" / "incidents").rename(tmp_path / "away")
    with pytest.raises(Unavailable, match="gone"):
        await edge.scroll("incidents", Where())
    (tmp_path / "away").rename(tmp_path / "qdrant" / "incidents")
    assert len(await edge.scroll("incidents", Where())) == 1


async def test_a_server_that_does_not_answer_is_unavailable() -> None:
    away = ServerStore(by_url("http://127.0.0.1:9", "", 1))
    with pytest.raises(Unavailable, match="^qdrant: no answer"):
        await away.open()
    with pytest.raises(Unavailable, match="^qdrant: no answer"):
        await away.count("documents", Where())
    await away.close()


async def test_acknowledged_points_survive_kill_9(tmp_path: Path) -> None:
    program = textwrap.dedent("""
        import asyncio, sys, uuid
        from pathlib import Path
        from services.knowledge.adapters.stores.edge import EdgeStore
        from services.knowledge.ports import Point
        async def main():
            store = EdgeStore(Path(sys.argv[1]))
            await store.open()
            for n in range(100000):
                point = Point(str(uuid.uuid5(uuid.NAMESPACE_URL, str(n))), f"n{n}", {"kind": "outcome"})
                await store.upsert("incidents", [point])
                print(n, flush=True)
        asyncio.run(main())
    """)
    command = [sys.executable, "-c", program, str(tmp_path / "q")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if int(line) == 150:
                os.kill(child.pid, signal.SIGKILL)
                break
        rest = [int(line) for line in child.stdout if line.endswith("\n")]
    acknowledged = max([150, *rest])
    store = EdgeStore(tmp_path / "q")
    await store.open()
    texts = {point.text for point in await store.scroll("incidents", Where())}
    await store.close()
    assert {f"n{n}" for n in range(acknowledged + 1)} <= texts
