"""The AutoGen adapter over real HTTP, against an endpoint that says what the test wants."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio
from pydantic import BaseModel, SecretStr

from autopatch.chassis.llm.errors import Unreadable
from autopatch.chassis.llm.factory import build
from autopatch.chassis.llm.ledger import Ledger
from autopatch.chassis.llm.port import Llm
from autopatch.chassis.llm.prompt import Prompt
from autopatch.chassis.llm.settings import Limits, LlmSettings
from autopatch.contract.errors import AutoPatchError, Unavailable

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(30)]

PROMPT = Prompt("rank", "d1", "You rank causes.", "Evidence: e1", 20)


class Answer(BaseModel):
    cause: str


@dataclass
class Stub:
    """An endpoint. Each reply is (status, body); no reply left means that it keeps the client waiting."""

    replies: list[tuple[int, bytes]] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = ""

    def say(self, text: str | None, finish: str = "stop", **message: Any) -> None:
        choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, **message}}
        usage = {"prompt_tokens": 31, "completion_tokens": 7, "total_tokens": 38}
        whole = {"id": "x", "object": "chat.completion", "created": 1, "model": "other-name", "choices": [choice], "usage": usage}
        self.replies.append((200, json.dumps(whole).encode()))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.split("content-length:")[1].split("\r\n")[0])
        self.keys.append(head.split("authorization:")[1].split("\r\n")[0].strip())
        self.requests.append(json.loads(await reader.readexactly(length)))
        if self.replies:
            status, body = self.replies.pop(0)
            kind = "content-type: application/json\r\nconnection: close"
            writer.write(f"HTTP/1.1 {status} X\r\n{kind}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
            await writer.drain()
        elif not await reader.read(1):
            self.gone.set()
        writer.close()


@pytest_asyncio.fixture
async def stub() -> AsyncIterator[Stub]:
    made = Stub()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    async with server:
        yield made


def model(url: str, **changed: Any) -> Llm:
    made = build(
        LlmSettings.model_validate({"mode": "remote", "base_url": url, "model": "m-1", "api_key": SecretStr("k-123"), **changed})
    )
    assert made is not None
    return made


def ledger() -> Ledger:
    return Ledger("i1", Limits())


async def test_the_request_is_bounded_typed_and_carries_no_names(stub: Stub) -> None:
    stub.say('{"cause": "pool"}')
    decision = await model(stub.url).decide(PROMPT, Answer, incident="i1", budget=ledger())
    assert decision.answer.cause == "pool"
    assert (decision.use.mode, decision.use.input_tokens, decision.use.output_tokens) == ("remote", 31, 7)
    sent = stub.requests[0]
    assert (sent["model"], sent["max_tokens"], sent["temperature"], sent["seed"]) == ("m-1", 400, 0.0, 7)
    assert sent["response_format"]["json_schema"]["schema"]["required"] == ["cause"]
    assert [m["role"] for m in sent["messages"]] == ["system", "user"]
    assert "tools" not in sent and not any("name" in m for m in sent["messages"])
    assert stub.keys == ["bearer k-123"]


async def test_the_repair_retry_is_part_of_the_same_conversation(stub: Stub) -> None:
    stub.say("dunno")
    stub.say('{"cause": "pool"}')
    assert (await model(stub.url).decide(PROMPT, Answer, incident="i1", budget=ledger())).answer.cause == "pool"
    assert [m["role"] for m in stub.requests[1]["messages"]] == ["system", "user", "assistant", "user"]


async def test_the_next_decision_remembers_nothing_of_the_last(stub: Stub) -> None:
    llm = model(stub.url)
    for cause in ("pool", "release"):
        stub.say(json.dumps({"cause": cause}))
        assert (await llm.decide(PROMPT, Answer, incident="i1", budget=ledger())).answer.cause == cause
    assert [len(r["messages"]) for r in stub.requests] == [2, 2]


async def test_a_schema_is_not_sent_to_an_endpoint_that_takes_none(stub: Stub) -> None:
    stub.say('Sure: {"cause": "pool"}')
    await model(stub.url, json_schema=False).decide(PROMPT, Answer, incident="i1", budget=ledger())
    assert "response_format" not in stub.requests[0]


async def test_cancelling_the_task_closes_the_connection_within_a_second(stub: Stub) -> None:
    task = asyncio.create_task(model(stub.url).decide(PROMPT, Answer, incident="i1", budget=ledger()))
    while not stub.requests:
        await asyncio.sleep(0.01)
    task.cancel()
    async with asyncio.timeout(1):
        with pytest.raises(asyncio.CancelledError):
            await task
        await stub.gone.wait()


async def test_a_timeout_closes_the_connection_within_a_second(stub: Stub) -> None:
    budget = ledger()
    with pytest.raises(Unavailable, match="no answer"):
        await model(stub.url, timeout_s=0.5).decide(PROMPT, Answer, incident="i1", budget=budget)
    async with asyncio.timeout(1):
        await stub.gone.wait()
    assert len(stub.requests) == 1 and budget.use().calls == 1


@pytest.mark.parametrize(
    ("status", "kind", "why"),
    [
        (401, Unavailable, "API_KEY"),
        (403, Unavailable, "API_KEY"),
        (404, Unavailable, "LLM_MODEL"),
        (429, Unavailable, "429"),
        (500, Unavailable, "500"),
        (400, Unreadable, "too many tokens"),
        (422, Unreadable, "too many tokens"),
    ],
)
async def test_each_refusal_of_the_endpoint_says_whose_move_it_is(
    stub: Stub, status: int, kind: type[AutoPatchError], why: str
) -> None:
    budget = ledger()
    stub.replies = [(status, b'{"error": {"message": "too many tokens", "type": "x", "code": null}}')] * 2
    with pytest.raises(kind, match=why):
        await model(stub.url).decide(PROMPT, Answer, incident="i1", budget=budget)
    assert len(stub.requests) == budget.use().calls == (1 if kind is Unavailable else 2), "a call that the ledger does not know"


@pytest.mark.parametrize("body", [b"<html>login</html>", b"{}", b"[]", b'{"choices": []}', b'{"choices": null}', b"", b"null"])
async def test_what_is_no_chat_completion_is_no_answer(stub: Stub, body: bytes) -> None:
    stub.replies = [(200, body)] * 2
    budget = ledger()
    with pytest.raises(Unreadable):
        await model(stub.url).decide(PROMPT, Answer, incident="i1", budget=budget)
    assert all(e.outcome == "unreadable" for e in budget.entries)


async def test_a_tool_call_that_nobody_asked_for_is_no_answer(stub: Stub) -> None:
    for _ in range(2):
        stub.say(None, "tool_calls", tool_calls=[{"id": "1", "type": "function", "function": {"name": "rm", "arguments": "{}"}}])
    with pytest.raises(Unreadable):
        await model(stub.url).decide(PROMPT, Answer, incident="i1", budget=ledger())


async def test_nobody_listening_is_unavailable_and_names_the_setting(unused_tcp_port: int) -> None:
    budget = ledger()
    with pytest.raises(Unavailable, match="AUTOPATCH_LLM_BASE_URL"):
        await model(f"http://127.0.0.1:{unused_tcp_port}/v1").decide(PROMPT, Answer, incident="i1", budget=budget)
    assert (budget.use().calls, budget.use().input_tokens) == (1, 0)


async def test_logs_hold_no_content(stub: Stub, caplog: pytest.LogCaptureFixture) -> None:
    stub.say('{"cause": "very-secret-cause"}')
    with caplog.at_level(logging.DEBUG):
        await model(stub.url).decide(PROMPT, Answer, incident="i1", budget=ledger())
    assert "very-secret-cause" not in caplog.text and "You rank causes" not in caplog.text
    assert "k-123" not in caplog.text
