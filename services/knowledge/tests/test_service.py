"""The room as it is built: its HTTP side, its answers, and what happens when Qdrant is away."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fastapi.testclient import TestClient
from httpx2 import ASGITransport, AsyncClient
from qdrant_client import QdrantClient

from autopatch.chassis.chassis import Chassis
from autopatch.chassis.http import application
from autopatch.chassis.room import Room
from autopatch.contract import events as ev
from autopatch.contract.catalogue import ENDINGS, SERVES
from autopatch.contract.code import CodeJob
from autopatch.contract.errors import OperatorError, Unavailable
from autopatch.contract.evidence import BlobRef
from autopatch.contract.requests import IndexCode, Indexed, Recall, Recalled, Search
from autopatch.repair.tree import write_archive
from services.knowledge.adapters.stores.edge import EdgeStore
from services.knowledge.adapters.stores.server import ServerStore, by_url
from services.knowledge.service import build
from services.knowledge.settings import Settings
from services.knowledge.tests.fakes import SIGNATURE, Clock, heard, until_applied

BOOK = "---\ncauses: [pool_exhausted]\nservice: payment_processor\nactions: [{kind: reload}]\n---\n# Pool exhausted\nraise it\n"
TOKEN = "what-only-the-gateway-knows"
QUESTION = Recall(signature=SIGNATURE, target="payments", cause="pool_exhausted")


def _chassis() -> Chassis:
    target = SimpleNamespace(match={"service": "payment_processor"})
    return cast(
        Chassis,
        SimpleNamespace(
            clock=Clock(),
            targets=SimpleNamespace(get=lambda name: target if name == "payments" else None),
            blobs=SimpleNamespace(),
        ),
    )


def _settings(tmp_path: Path, **given: Any) -> Settings:
    return Settings(**{"folder": str(tmp_path / "qdrant"), "embedder": "none", "runbooks": "", "token": TOKEN, **given})


async def _ask(room: Room, question: Recall | Search) -> Any:
    return await room.responders[type(question)](question)


async def _close(room: Room) -> None:
    for hook in room.on_stop:
        await hook()


async def _ready() -> dict[str, str]:
    return {}


def _served(room: Room, token: str = TOKEN) -> TestClient:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return TestClient(application("knowledge", room.routers, _ready), headers=headers)


def test_the_room_hears_and_serves_what_the_contract_says(tmp_path: Path) -> None:
    room = build(_settings(tmp_path), _chassis())
    assert set(room.handlers) == set(ENDINGS) and set(room.responders) == set(SERVES["knowledge"]) and room.historian


async def test_runbooks_of_the_folder_are_recalled_right_after_the_start_by_the_labels_of_the_target(tmp_path: Path) -> None:
    (tmp_path / "books").mkdir()
    (tmp_path / "books" / "pool.md").write_text(BOOK)
    room = build(_settings(tmp_path, runbooks=str(tmp_path / "books")), _chassis())
    await room.on_start[0]()
    assert [b.name for b in (await _ask(room, QUESTION)).runbooks] == ["pool"]
    assert (await _ask(room, Search(text="raise"))).items[0].kind == "runbook"
    await _close(room)


def test_a_mistake_in_a_runbook_stops_the_start_and_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "pool.md").write_text(BOOK.replace("reload", "explode"))
    with pytest.raises(OperatorError, match=r"pool\.md: line 4: actions\.0\.kind: 'explode'"):
        build(_settings(tmp_path, runbooks=str(tmp_path)), _chassis())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"runbooks": "/nowhere"}, "AUTOPATCH_KNOWLEDGE_RUNBOOKS: /nowhere is not a folder"),
        ({"embedder": "/nowhere"}, "AUTOPATCH_KNOWLEDGE_EMBEDDER=/nowhere: /nowhere holds no model"),
    ],
)
def test_a_setting_that_names_nothing_is_told_with_its_name(tmp_path: Path, given: dict[str, str], message: str) -> None:
    with pytest.raises(OperatorError, match=message):
        build(_settings(tmp_path, **given), _chassis())


async def test_a_second_room_on_the_folder_is_refused_at_start(tmp_path: Path) -> None:
    first, second = build(_settings(tmp_path), _chassis()), build(_settings(tmp_path), _chassis())
    await first.on_start[0]()
    with pytest.raises(OperatorError, match="in use by process"):
        await second.on_start[0]()
    await _close(first)
    await _close(second)


async def test_with_qdrant_away_the_room_starts_and_says_what_is_missing(tmp_path: Path) -> None:
    room = build(_settings(tmp_path, url="http://127.0.0.1:9"), _chassis())
    await room.on_start[0]()
    for question in (QUESTION, Search(text="pool")):
        with pytest.raises(Unavailable) as caught:
            await _ask(room, question)
        assert caught.value.service == "qdrant"
    with pytest.raises(Unavailable):
        await room.handlers[ev.Recovered](heard([*until_applied(), ev.Recovered(comparisons=())]))
    await _close(room)


@pytest.mark.filterwarnings("ignore:Payload indexes have no effect in the local Qdrant")
async def test_when_qdrant_comes_back_the_runbooks_are_there_before_the_first_answer(tmp_path: Path) -> None:
    (tmp_path / "pool.md").write_text(BOOK)
    connections: Iterator[Callable[[], QdrantClient]] = iter(
        [by_url("http://127.0.0.1:9", "", 1), lambda: QdrantClient(":memory:")]
    )
    store = ServerStore(lambda: next(connections)())
    room = build(_settings(tmp_path, runbooks=str(tmp_path)), _chassis(), store=store)
    await room.on_start[0]()
    assert [b.name for b in (await _ask(room, QUESTION)).runbooks] == ["pool"]
    await _close(room)


def test_over_http_documents_are_ingested_searched_and_removed(tmp_path: Path) -> None:
    room = build(_settings(tmp_path), _chassis(), store=EdgeStore(tmp_path / "qdrant"))
    with _served(room) as http:
        body = {
            "documents": [{"source": "a.md", "text": BOOK}, {"source": "b.md", "text": "the disk is full"}],
            "origin": "kb",
            "complete": True,
        }
        assert http.post("/v1/knowledge/ingest", json=body).json() == {"added": 2, "unchanged": 0, "removed": 0, "chunks": 2}
        found = http.get(
            "/v1/knowledge/search", params={"q": "disk", "kind": ["document", "incident"], "target": "payments", "limit": 3}
        )
        assert [item["source"] for item in found.json()["items"]] == ["b.md"]
        assert http.delete("/v1/knowledge/documents", params={"source": "b.md"}).json()["removed"] == 1
        assert http.get("/v1/knowledge/lessons").json() == []
        wrong = http.post("/v1/knowledge/ingest", json={"documents": [{"source": "x.md", "text": "---\nnonsense: 1\n---\n"}]})
        assert wrong.status_code == 400 and wrong.json()["error"].startswith("x.md: line 2: nonsense:")
        assert http.get("/v1/knowledge/search", params={"q": "x", "kind": "outcome"}).status_code == 422


def test_whoever_writes_without_the_gateways_token_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    room = build(_settings(tmp_path), _chassis(), store=EdgeStore(tmp_path / "qdrant"))
    body = {"documents": [{"source": "pool.md", "text": BOOK}]}
    with _served(room) as http:
        http.post("/v1/knowledge/ingest", json={"documents": [{"source": "disk.md", "text": "the disk is full"}]})
        for sent in ("", "Bearer", "Bearer wrong", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}"):
            http.headers["Authorization"] = sent
            for answer in (
                http.post("/v1/knowledge/ingest", json=body), http.post("/v1/knowledge/ingest", content="{SECRETINPUT"),
                http.delete("/v1/knowledge/documents", params={"source": "disk.md"}),
                http.delete("/v1/knowledge/code", params={"repository": "shop"}),
            ):
                assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
                assert "AUTOPATCH_GATEWAY_KNOWLEDGE_TOKEN" in answer.json()["tip"]
        found = http.get("/v1/knowledge/search", params={"q": "disk pool"}).json()["items"]
        recalled = http.get("/v1/knowledge/recall", params=QUESTION.model_dump()).json()
    assert [item["source"] for item in found] == ["disk.md"] and recalled["runbooks"] == []


def test_without_a_token_of_its_own_the_room_lets_nobody_write(tmp_path: Path) -> None:
    room = build(_settings(tmp_path, token=""), _chassis(), store=EdgeStore(tmp_path / "qdrant"))
    with _served(room, "") as http:
        for header in ({}, {"Authorization": "Bearer "}, {"Authorization": "Bearer"}, {"Authorization": f"Bearer {TOKEN}"}):
            answer = http.post("/v1/knowledge/ingest", json={"documents": [{"source": "a.md", "text": BOOK}]}, headers=header)
            assert answer.status_code == 401 and "AUTOPATCH_KNOWLEDGE_TOKEN" in answer.json()["tip"]
        assert http.get("/v1/knowledge/search", params={"q": "pool"}).json()["items"] == []


def test_every_route_that_writes_was_tried_without_a_token(tmp_path: Path) -> None:
    paths = application("knowledge", build(_settings(tmp_path), _chassis()).routers, _ready).openapi()["paths"]
    writing = {(method, path) for path, methods in paths.items() for method in methods if method != "get"}
    assert writing == {
        ("post", "/v1/knowledge/ingest"), ("delete", "/v1/knowledge/documents"), ("delete", "/v1/knowledge/code"),
    }


def test_recall_over_http_answers_as_over_the_bus(tmp_path: Path) -> None:
    room = build(_settings(tmp_path), _chassis(), store=EdgeStore(tmp_path / "qdrant"))
    with _served(room) as http:
        http.post("/v1/knowledge/ingest", json={"documents": [{"source": "pool.md", "text": BOOK}]})
        http.portal.call(room.handlers[ev.Recovered], heard([*until_applied(), ev.Recovered(comparisons=())]))  # type: ignore[union-attr]
        asked = {"target": "payments", "signature": SIGNATURE, "cause": "pool_exhausted"}
        recalled = Recalled.model_validate(http.get("/v1/knowledge/recall", params=asked).json())
        assert recalled == http.portal.call(_ask, room, QUESTION)  # type: ignore[union-attr]
        assert http.get("/v1/knowledge/recall", params={"target": "payments", "signature": SIGNATURE}).status_code == 422
    assert [lesson.recovered for lesson in recalled.lessons] == [1] and [b.name for b in recalled.runbooks] == ["pool"]


async def test_a_job_is_indexed_found_over_http_and_forgotten(tmp_path: Path) -> None:
    chassis, store = _chassis(), EdgeStore(tmp_path / "qdrant")
    archive = write_archive({"pay.py": b"def refund(total):\n    return total\n"})

    async def get(_: BlobRef) -> bytes:
        return archive

    vars(chassis.blobs)["get"] = get
    room = build(_settings(tmp_path), chassis, store=store)
    job = CodeJob(repository="shop", snapshot=BlobRef(name="n", size=1, digest="d"), tree="t", command=("pytest",))
    assert (await room.responders[IndexCode](IndexCode(job=job))) == Indexed(chunks=1, changed=1)
    served = ASGITransport(application("knowledge", room.routers, _ready))
    async with AsyncClient(transport=served, base_url="http://room", headers={"Authorization": f"Bearer {TOKEN}"}) as http:
        found = await http.get("/v1/knowledge/search", params={"q": "refund", "kind": "code", "target": "shop"})
        assert [item["id"] for item in found.json()["items"]] == ["pay.py:1-2"]
        gone = await http.delete("/v1/knowledge/code", params={"repository": "shop"})
        assert gone.json() == {"repository": "shop", "removed": 1}
    await _close(room)


@pytest.mark.slow
async def test_minilm_finds_by_meaning_what_shares_no_word(tmp_path: Path) -> None:
    room = build(_settings(tmp_path, embedder="minilm", folder=str(tmp_path / "q")), _chassis())
    await room.on_start[0]()
    with _served(room) as http:
        texts = [
            "All database connections are in use and callers queue.",
            "The TLS certificate has expired.",
            "The disk has no space left.",
        ]
        documents = [{"source": f"{n}.txt", "text": text} for n, text in enumerate(texts)]
        assert http.post("/v1/knowledge/ingest", json={"documents": documents}).json()["added"] == 3
    corpus = room.on_stop[0].__self__  # type: ignore[attr-defined]
    await corpus.fill()
    for question, source in (
        ("pool exhaustion", "0.txt"),
        ("SSL handshake problem", "1.txt"),
        ("storage volume out of room", "2.txt"),
    ):
        found = await _ask(room, Search(text=question))
        assert found.items[0].source == source, question
    await _close(room)
