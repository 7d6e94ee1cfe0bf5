import asyncio

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import BaseModel

from autopatch.chassis.llm import names
from autopatch.chassis.llm.cores import LeasedCores, MemoryStore
from autopatch.chassis.llm.errors import BudgetSpent, Unreadable
from autopatch.chassis.llm.factory import build
from autopatch.chassis.llm.ledger import Ledger
from autopatch.chassis.llm.port import Llm
from autopatch.chassis.llm.prompt import Prompt
from autopatch.chassis.llm.scripted import Hang, ScriptedLlm
from autopatch.chassis.llm.settings import Limits, LlmSettings
from autopatch.contract.errors import Unavailable

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(20)]

PROMPT = Prompt("rank", "d1", "You rank causes.", "Evidence: secret-evidence", 20)


class Answer(BaseModel):
    cause: str


def ledger(**limits: float) -> Ledger:
    return Ledger("i1", Limits.model_validate(limits))


async def test_an_answer_comes_with_what_it_took() -> None:
    llm: Llm = ScriptedLlm(Answer(cause="pool"))
    decision = await llm.decide(PROMPT, Answer, incident="i1", budget=ledger())
    assert decision.answer == Answer(cause="pool")
    assert (decision.use.mode, decision.use.model, decision.use.calls, decision.use.prompt) == ("local", "scripted", 1, "d1")
    assert decision.use.input_tokens > 0 and decision.use.output_tokens > 0


async def test_garbage_is_sent_back_once_with_what_was_wrong() -> None:
    llm = ScriptedLlm("no idea", '```json\n{"cause": "pool"}\n```')
    decision = await llm.decide(PROMPT, Answer, incident="i1", budget=ledger())
    assert decision.answer.cause == "pool" and decision.use.calls == 2
    assert "there is no JSON object in the reply" in llm.backend.heard[1]


async def test_garbage_twice_is_unreadable_and_still_paid_for() -> None:
    llm, budget = ScriptedLlm("no idea", "none at all", Answer(cause="never asked for")), ledger()
    with pytest.raises(Unreadable):
        await llm.decide(PROMPT, Answer, incident="i1", budget=budget)
    assert llm.calls == 2
    assert [e.outcome for e in budget.entries] == ["unreadable", "unreadable"]
    assert budget.use(note="unreadable").calls == 2


async def test_a_spent_budget_is_refused_before_anything_is_said() -> None:
    llm = ScriptedLlm(Answer(cause="pool"))
    with pytest.raises(BudgetSpent):
        await llm.decide(PROMPT, Answer, incident="i1", budget=ledger(calls=0))
    assert llm.calls == 0


async def test_the_repair_is_not_asked_for_when_the_budget_ends_before_it() -> None:
    llm = ScriptedLlm("no idea", Answer(cause="pool"))
    with pytest.raises(BudgetSpent):
        await llm.decide(PROMPT, Answer, incident="i1", budget=ledger(calls=1))
    assert llm.calls == 1


async def test_a_missing_endpoint_is_unavailable_and_not_asked_again() -> None:
    llm, budget = ScriptedLlm(Unavailable("model endpoint", "down"), Answer(cause="pool")), ledger()
    with pytest.raises(Unavailable, match="down"):
        await llm.decide(PROMPT, Answer, incident="i1", budget=budget)
    assert llm.calls == 1 and budget.entries[0].outcome == "unavailable"


async def test_a_model_that_hangs_is_given_up_in_time() -> None:
    llm, budget = ScriptedLlm(Hang(), settings=LlmSettings(timeout_s=0.05)), ledger()
    with pytest.raises(Unavailable, match="no answer within"):
        await llm.decide(PROMPT, Answer, incident="i1", budget=budget)
    assert llm.backend.cancelled == 1 and budget.entries[0].outcome == "timeout"
    assert budget.entries[0].output_tokens == 400


async def test_cancelling_the_task_gives_up_the_call() -> None:
    llm, budget = ScriptedLlm(Hang(), Answer(cause="pool")), ledger()
    task = asyncio.create_task(llm.decide(PROMPT, Answer, incident="i1", budget=budget))
    while not llm.calls:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert llm.backend.cancelled == 1 and budget.entries[0].outcome == "cancelled"
    assert (await llm.decide(PROMPT, Answer, incident="i1", budget=budget)).answer.cause == "pool"


async def test_a_local_model_holds_one_conversation_at_a_time() -> None:
    llm = ScriptedLlm(Hang(), Answer(cause="pool"))
    first = asyncio.create_task(llm.decide(PROMPT, Answer, incident="i1", budget=ledger()))
    second = asyncio.create_task(llm.decide(PROMPT, Answer, incident="i2", budget=ledger()))
    await asyncio.sleep(0.05)
    assert llm.calls == 1
    first.cancel()
    assert (await second).answer.cause == "pool"


async def test_remote_conversations_run_side_by_side() -> None:
    llm = ScriptedLlm(Hang(), Answer(cause="pool"), mode="remote")
    first = asyncio.create_task(llm.decide(PROMPT, Answer, incident="i1", budget=ledger()))
    await asyncio.sleep(0.05)
    assert (await llm.decide(PROMPT, Answer, incident="i2", budget=ledger())).answer.cause == "pool"
    first.cancel()


async def test_a_local_model_waits_for_a_soak_and_says_so_when_that_lasts() -> None:
    cores = LeasedCores(MemoryStore())
    llm, budget = ScriptedLlm(Answer(cause="pool"), cores=cores, settings=LlmSettings(cores_wait_s=0.1)), ledger()
    async with cores.measuring("i9"):
        with pytest.raises(Unavailable, match="soak"):
            await llm.decide(PROMPT, Answer, incident="i1", budget=budget)
        assert llm.calls == 0 and budget.entries == ()
    assert (await llm.decide(PROMPT, Answer, incident="i1", budget=budget)).answer.cause == "pool"


async def test_every_call_is_a_span_that_counts_what_the_ledger_counts(spans: InMemorySpanExporter) -> None:
    budget = ledger()
    await ScriptedLlm("no idea", Answer(cause="pool")).decide(PROMPT, Answer, incident="i1", budget=budget)
    first, second = spans.get_finished_spans()
    assert first.name == second.name == "chat scripted"
    assert [facts(s)[names.OUTCOME] for s in (first, second)] == ["unreadable", "answered"]
    assert [facts(s)[names.ATTEMPT] for s in (first, second)] == [1, 2]
    for recorded, entry in zip((first, second), budget.entries, strict=True):
        found = facts(recorded)
        assert (found[names.INPUT_TOKENS], found[names.OUTPUT_TOKENS]) == (entry.input_tokens, entry.output_tokens)
        assert found["incident.id"] == found["gen_ai.conversation.id"] == "i1"
        assert (found["gen_ai.operation.name"], found["gen_ai.request.model"], found[names.PROMPT_DIGEST]) == (
            "chat",
            "scripted",
            "d1",
        )


async def test_traces_hold_no_content_unless_told(spans: InMemorySpanExporter) -> None:
    await ScriptedLlm("secret-reply", Answer(cause="secret-cause")).decide(PROMPT, Answer, incident="i1", budget=ledger())
    assert "secret" not in "".join(s.to_json() for s in spans.get_finished_spans())
    spans.clear()
    told = LlmSettings(capture_content=True)
    await ScriptedLlm(Answer(cause="secret-cause"), settings=told).decide(PROMPT, Answer, incident="i1", budget=ledger())
    text = spans.get_finished_spans()[0].to_json()
    assert "secret-evidence" in text and "secret-cause" in text


async def test_the_model_is_told_the_schema_of_the_answer() -> None:
    llm = ScriptedLlm(Answer(cause="pool"))
    await llm.decide(PROMPT, Answer, incident="i1", budget=ledger())
    assert llm.backend.systems[0].startswith("You rank causes.") and '"cause"' in llm.backend.systems[0]


async def test_mode_off_has_no_model() -> None:
    assert build(LlmSettings(mode="off")) is None


async def test_a_model_file_that_is_missing_is_unavailable_with_its_remedy(tmp_path: object) -> None:
    llm = build(LlmSettings(mode="local", model_dir=tmp_path, run_dir=tmp_path))  # type: ignore[arg-type]
    assert llm is not None and llm.mode == "local"
    budget = ledger()
    with pytest.raises(Unavailable, match="autopatch model pull"):
        await llm.decide(PROMPT, Answer, incident="i1", budget=budget)
    assert budget.entries == ()


def facts(recorded: ReadableSpan) -> dict[str, object]:
    return dict(recorded.attributes or {})
