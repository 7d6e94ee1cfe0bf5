"""Documents on their way to the knowledge room."""

import pytest
from pytest_httpserver import HTTPServer

from autopatch.contract.errors import OperatorError, Unavailable
from services.gateway.adapters.http.knowledge import KnowledgeDoor
from services.gateway.ports import Document

DOCUMENTS = [Document(source="pool.md", text="# Pool", attached={"it/test_it.py": "x"})]
PATH = "/v1/knowledge/ingest"
TOKEN = "shared"


def door(url: str) -> KnowledgeDoor:
    return KnowledgeDoor(url, TOKEN)


async def test_documents_are_handed_on_as_they_are_with_the_token_that_the_room_wants(httpserver: HTTPServer) -> None:
    sent = {"documents": [{"source": "pool.md", "text": "# Pool", "attached": {"it/test_it.py": "x"}}]}
    told = {"Authorization": f"Bearer {TOKEN}"}
    httpserver.expect_oneshot_request(PATH, method="POST", json=sent, headers=told).respond_with_json({"added": 1, "chunks": 2})
    done = await door(httpserver.url_for("")).ingest(DOCUMENTS)
    assert (done.added, done.chunks, done.unchanged) == (1, 2, 0)


async def test_what_the_room_refuses_is_told_with_its_reason(httpserver: HTTPServer) -> None:
    httpserver.expect_request(PATH).respond_with_json({"error": "pool.md: line 3: no such field"}, status=400)
    with pytest.raises(OperatorError, match="line 3"):
        await door(httpserver.url_for("")).ingest(DOCUMENTS)


@pytest.mark.parametrize("url", ["", "http://127.0.0.1:9", "answers with a page"])
async def test_a_room_that_is_not_there_is_unavailable(httpserver: HTTPServer, url: str) -> None:
    httpserver.expect_request(PATH).respond_with_data("<html>")
    with pytest.raises(Unavailable):
        await door(httpserver.url_for("") if " " in url else url).ingest(DOCUMENTS)


async def test_without_a_token_nothing_is_sent_and_one_that_is_not_taken_is_told(httpserver: HTTPServer) -> None:
    httpserver.expect_request(PATH).respond_with_json({"error": "writing needs the gateway's token"}, status=401)
    for token, asked in (("", 0), (TOKEN, 1)):
        with pytest.raises(Unavailable) as caught:
            await KnowledgeDoor(httpserver.url_for(""), token).ingest(DOCUMENTS)
        assert "AUTOPATCH_GATEWAY_KNOWLEDGE_TOKEN" in caught.value.tip and len(httpserver.log) == asked
