"""Free text: greedy first, one sample after the other on a local model, counted like every call, never more than the budget."""

import asyncio
import os
from pathlib import Path

import httpx2
import pytest

from autopatch.chassis.llm.autogen import AutogenBackend
from autopatch.chassis.llm.decider import Decider
from autopatch.chassis.llm.endpoint import Endpoint
from autopatch.chassis.llm.errors import BudgetSpent
from autopatch.chassis.llm.ledger import Ledger
from autopatch.chassis.llm.local import LocalServer
from autopatch.chassis.llm.prompt import Prompt
from autopatch.chassis.llm.scripted import Hang, ScriptedLlm
from autopatch.chassis.llm.settings import Limits, LlmSettings
from autopatch.chassis.llm.tests.test_autogen import Stub, model
from autopatch.chassis.llm.tests.test_autogen import stub as stub
from autopatch.contract.errors import Unavailable

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(60)]

PROMPT = Prompt("repair", "d1", "You repair code.", "Here is a function.", 20)


def ledger(**limits: float) -> Ledger:
    return Ledger("i1", Limits.model_validate(limits))


async def test_the_first_sample_is_greedy_and_every_other_one_has_a_seed_of_its_own() -> None:
    llm = ScriptedLlm("a", "b", "c")
    written = await llm.write(PROMPT, incident="i1", budget=ledger(), samples=3, temperature=0.7, max_tokens=50, stop=("User:",))
    assert [one.text for one in written] == ["a", "b", "c"]
    hows = [how for _, how in llm.backend.written]
    assert [how.temperature for how in hows] == [0.0, 0.7, 0.7] and len({how.seed for how in hows}) == 3
    assert {(how.max_tokens, how.stop) for how in hows} == {(50, ("User:",))}


async def test_samples_can_be_asked_for_later_and_are_the_same_as_if_asked_at_once() -> None:
    at_once, later = ScriptedLlm("a", "b", "c"), ScriptedLlm("a", "b", "c")
    await at_once.write(PROMPT, incident="i1", budget=ledger(), samples=3)
    await later.write(PROMPT, incident="i1", budget=ledger(), samples=1)
    await later.write(PROMPT, incident="i1", budget=ledger(), samples=2, start=1)
    assert at_once.backend.written == later.backend.written


async def test_every_sample_is_a_call_of_the_ledger_with_its_own_use() -> None:
    budget = ledger()
    written = await ScriptedLlm("a", "b b b b").write(PROMPT, incident="i1", budget=budget, samples=2)
    assert [one.use.calls for one in written] == [1, 1] and budget.use().calls == 2
    assert written[1].use.output_tokens > written[0].use.output_tokens > 0 and written[0].use.prompt == "d1"


async def test_what_was_said_before_goes_along_and_is_counted() -> None:
    llm, budget = ScriptedLlm("a"), ledger()
    await llm.write(PROMPT, incident="i1", budget=budget, then=("my answer", "it fails"))
    turns, _ = llm.backend.written[0]
    assert turns == ("Here is a function.", "my answer", "it fails")


async def test_thoughts_are_no_part_of_a_text() -> None:
    [one] = await ScriptedLlm("<think>hm</think>\nreturn 1").write(PROMPT, incident="i1", budget=ledger())
    assert one.text == "\nreturn 1"


async def test_the_budget_ends_the_samples_and_those_that_were_paid_for_are_kept() -> None:
    llm = ScriptedLlm("a", "b", "c")
    written = await llm.write(PROMPT, incident="i1", budget=ledger(calls=2), samples=4)
    assert [one.text for one in written] == ["a", "b"] and llm.calls == 2
    with pytest.raises(BudgetSpent):
        await ScriptedLlm("a").write(PROMPT, incident="i1", budget=ledger(calls=0), samples=4)


async def test_a_call_that_could_exceed_the_tokens_is_not_made() -> None:
    llm = ScriptedLlm("a")
    with pytest.raises(BudgetSpent):
        await llm.write(PROMPT, incident="i1", budget=ledger(tokens=300), max_tokens=300)
    assert llm.calls == 0


async def test_an_endpoint_that_goes_away_is_unavailable_when_it_gave_nothing() -> None:
    with pytest.raises(Unavailable):
        await ScriptedLlm().write(PROMPT, incident="i1", budget=ledger(), samples=2)
    assert [one.text for one in await ScriptedLlm("a").write(PROMPT, incident="i1", budget=ledger(), samples=2)] == ["a"]


async def test_cancelling_a_local_model_ends_the_sample_under_way_and_starts_no_other() -> None:
    llm, budget = ScriptedLlm("a", Hang(), "c"), ledger()
    task = asyncio.create_task(llm.write(PROMPT, incident="i1", budget=budget, samples=3))
    while llm.calls < 2:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (llm.calls, llm.backend.cancelled) == (2, 1)
    assert [entry.outcome for entry in budget.entries] == ["answered", "cancelled"]


async def test_a_remote_model_is_asked_for_all_samples_at_once_and_all_end_with_the_task() -> None:
    llm = ScriptedLlm(Hang(), Hang(), Hang(), mode="remote")
    task = asyncio.create_task(llm.write(PROMPT, incident="i1", budget=ledger(), samples=3))
    while llm.calls < 3:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert llm.backend.cancelled == 3


async def test_the_request_is_plain_text_with_its_own_length_and_no_schema(stub: Stub) -> None:
    stub.say("```python\nreturn 1", "length")
    [one] = await model(stub.url).write(PROMPT, incident="i1", budget=ledger(), max_tokens=33, stop=("User:",), then=("a", "b"))
    assert one.text == "```python\nreturn 1" and one.cut
    sent = stub.requests[0]
    assert (sent["max_tokens"], sent["temperature"], sent["stop"]) == (33, 0.0, ["User:"])
    assert [m["role"] for m in sent["messages"]] == ["system", "user", "assistant", "user"]
    assert not {"response_format", "tools", "cache_prompt", "extra_body"} & sent.keys()
    assert not any("name" in m for m in sent["messages"])


async def test_cancelling_closes_the_connection_within_a_second(stub: Stub) -> None:
    task = asyncio.create_task(model(stub.url).write(PROMPT, incident="i1", budget=ledger()))
    while not stub.requests:
        await asyncio.sleep(0.01)
    task.cancel()
    async with asyncio.timeout(1):
        with pytest.raises(asyncio.CancelledError):
            await task
        await stub.gone.wait()


CODE = Prompt(
    "repair", "d1", "You repair Python functions. Answer with the whole corrected function in one fenced block, nothing else.",
    "It should add:\n```python\ndef add(a, b):\n    return a - b\n```\n" + "Both arguments are whole numbers. " * 40, 500,
)


@pytest.mark.model
@pytest.mark.timeout(600)
async def test_the_real_model_writes_code_and_reads_the_common_beginning_once(model_file: Path, tmp_path: Path) -> None:
    settings = LlmSettings(mode="local", model_dir=model_file.parent, run_dir=tmp_path / "run", timeout_s=300)
    server = LocalServer.of(settings)
    llm = Decider(AutogenBackend(server, settings), settings, mode="local", model=model_file.stem)
    budget = ledger()
    try:
        endpoint = await server.ready()
        [greedy] = await llm.write(CODE, incident="i1", budget=budget, max_tokens=40)
        assert "def add(a, b):" in greedy.text
        assert await read_anew(endpoint, CODE) < 10, "the same beginning was read again"
        task = asyncio.create_task(llm.write(CODE, incident="i1", budget=budget, samples=4, max_tokens=300))
        await asyncio.sleep(1)
        task.cancel()
        async with asyncio.timeout(3 * max(1.0, os.getloadavg()[0])):
            with pytest.raises(asyncio.CancelledError):
                await task
    finally:
        await llm.close()


async def read_anew(endpoint: Endpoint, prompt: Prompt) -> int:
    """Tokens of the prompt that the server had to read, as it tells."""
    said = [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}]
    headers = {"Authorization": f"Bearer {endpoint.api_key.get_secret_value()}"}
    async with httpx2.AsyncClient(trust_env=False, timeout=120, headers=headers) as client:
        body = {"model": endpoint.model, "messages": said, "max_tokens": 1, "temperature": 0}
        answer = (await client.post(f"{endpoint.base_url}/chat/completions", json=body)).json()
    assert answer["usage"]["prompt_tokens"] > 200
    return int(answer["timings"]["prompt_n"])
