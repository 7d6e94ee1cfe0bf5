"""What is the same for every model: ask, read, ask once more, count, trace. Backends only carry text to and fro."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

from opentelemetry.trace import Span, SpanKind
from pydantic import BaseModel

from autopatch.chassis.llm import names
from autopatch.chassis.llm.cores import Cores
from autopatch.chassis.llm.errors import BudgetSpent, Unreadable
from autopatch.chassis.llm.extract import extract, thoughtless
from autopatch.chassis.llm.ledger import FREE, Ask, Call, Ledger
from autopatch.chassis.llm.port import Decision, Written
from autopatch.chassis.llm.prompt import Prompt
from autopatch.chassis.llm.schema import schema_of
from autopatch.chassis.llm.settings import LlmSettings
from autopatch.chassis.llm.tokens import CHAT_OVERHEAD, estimate
from autopatch.chassis.telemetry import span
from autopatch.contract.errors import Unavailable

T = TypeVar("T", bound=BaseModel)

SHAPE = "Reply with one JSON object and nothing else. Its JSON schema: "
REPAIR = "That was not an answer: {fault}. Reply again with one JSON object that fits the schema, and nothing else."


@dataclass(frozen=True)
class Reply:
    """What an endpoint said. No usage is 0."""

    text: str
    input_tokens: int
    output_tokens: int
    finish: str = ""


@dataclass(frozen=True)
class Sampling:
    """How a text is written. At temperature 0 the seed does not matter."""

    temperature: float
    seed: int
    max_tokens: int
    stop: tuple[str, ...] = ()


class Chat(Protocol):
    """One conversation; the model remembers what was said in it."""

    async def say(self, text: str) -> Reply:
        """Raises Unavailable, Unreadable."""
        ...


class Backend(Protocol):
    """A way to a model."""

    def open(self, system: str, schema: dict[str, Any], name: str) -> AbstractAsyncContextManager[Chat]:
        """A conversation whose answers are held to `schema` where the endpoint can do that. Raises Unavailable."""
        ...

    async def complete(self, system: str, turns: Sequence[str], how: Sampling) -> Reply:
        """Free text. `turns` are by turns ours and the model's, ours first and last. Raises Unavailable, Unreadable."""
        ...

    async def close(self) -> None:
        """Stop what was started."""
        ...


@dataclass
class _Talk:
    """One decision under way, or one sample."""

    prompt: Prompt
    system: str
    incident: str
    budget: Ledger
    how: Sampling
    output: Literal["json", "text"] = "json"
    said: int = 0  # tokens of everything in the conversation so far
    attempt: int = 0
    calls: list[Call] = field(default_factory=list)


class Decider:
    """The Llm port over a backend. A local model holds one conversation at a time, and none while a soak is measured."""

    def __init__(
        self, backend: Backend, settings: LlmSettings, *, mode: Literal["local", "remote"], model: str, cores: Cores | None = None
    ) -> None:
        self._backend = backend
        self._settings = settings
        self._mode = mode
        self._model = model
        self._cores = cores
        self._turn = asyncio.Semaphore(1)

    @property
    def mode(self) -> Literal["local", "remote"]:
        """Where it runs."""
        return self._mode

    @property
    def model(self) -> str:
        """Its id."""
        return self._model

    async def close(self) -> None:
        """Stop what the backend started."""
        await self._backend.close()

    async def decide(self, prompt: Prompt, answer: type[T], *, incident: str, budget: Ledger) -> Decision[T]:
        """See port.Llm."""
        schema = schema_of(answer)
        system = f"{prompt.system}\n\n{SHAPE}{json.dumps(schema, separators=(',', ':'))}"
        how = Sampling(self._settings.temperature, self._settings.seed, self._settings.max_output_tokens)
        talk = _Talk(prompt, system, incident, budget, how, said=estimate(system) + CHAT_OVERHEAD)
        async with self._computing(incident), self._backend.open(system, schema, answer.__name__) as chat:
            try:
                read = await self._attempt(chat, prompt.user, answer, talk)
            except Unreadable as error:
                read = await self._attempt(chat, REPAIR.format(fault=error), answer, talk)
        return Decision(read, budget.use([call.entry for call in talk.calls if call.entry]))

    async def write(
        self, prompt: Prompt, *, incident: str, budget: Ledger, samples: int = 1, start: int = 0, temperature: float = 0.8,
        max_tokens: int = 300, stop: Sequence[str] = (), then: Sequence[str] = (),
    ) -> Sequence[Written]:
        """See port.Llm."""
        turns = (prompt.user, *then)
        seed, numbers = self._settings.seed, range(start, start + samples)
        hows = [Sampling(temperature if n else 0.0, seed + n, max_tokens, tuple(stop)) for n in numbers]
        talks = [_Talk(prompt, prompt.system, incident, budget, how, "text", attempt=start + n) for n, how in enumerate(hows)]
        together = 1 if self._mode == "local" else samples
        written: list[Written] = []
        async with self._computing(incident):
            for first in range(0, samples, together):
                wave = [self._sample(turns, talk) for talk in talks[first : first + together]]
                done = await asyncio.gather(*wave, return_exceptions=True)
                written += [one for one in done if isinstance(one, Written)]
                for fault in (one for one in done if isinstance(one, BaseException)):
                    if not (written and isinstance(fault, (BudgetSpent, Unavailable, Unreadable))):
                        raise fault
                    return written
        return written

    async def _sample(self, turns: Sequence[str], talk: _Talk) -> Written:
        talk.said = sum(estimate(text) + CHAT_OVERHEAD for text in (talk.system, *turns[:-1]))
        async with self._called(turns[-1], talk, lambda: self._backend.complete(talk.system, turns, talk.how)) as (reply, call):
            text = thoughtless(reply.text)
        assert call.entry is not None
        return Written(text, talk.budget.use([call.entry]), reply.finish == "length")

    async def _attempt(self, chat: Chat, text: str, answer: type[T], talk: _Talk) -> T:
        async with self._called(text, talk, lambda: chat.say(text)) as (reply, call):
            return _read(reply, answer, call)

    @asynccontextmanager
    async def _called(self, text: str, talk: _Talk, say: Callable[[], Awaitable[Reply]]) -> AsyncIterator[tuple[Reply, Call]]:
        """One call, one span, one entry in the ledger."""
        talk.attempt += 1
        with span(f"{names.CHAT} {self._model}", kind=SpanKind.CLIENT) as opened:
            self._describe(opened, text, talk)
            with talk.budget.call(self._most(talk, text)) as call:
                talk.calls.append(call)
                try:
                    reply = await self._say(say, call)
                    self._describe_reply(opened, reply)
                    yield reply, call
                finally:
                    opened.set_attribute(names.OUTCOME, call.outcome)
                    opened.set_attribute(names.INPUT_TOKENS, call.input_tokens)
                    opened.set_attribute(names.OUTPUT_TOKENS, call.output_tokens)
                    opened.set_attribute(names.COST_USD, call.cost_usd)
                    talk.said += estimate(text) + CHAT_OVERHEAD + call.output_tokens

    async def _say(self, say: Callable[[], Awaitable[Reply]], call: Call) -> Reply:
        """Raises Unavailable and charges what that took; a cancelled call stays charged at its most."""
        try:
            async with asyncio.timeout(call.seconds):
                reply = await say()
        except TimeoutError as error:
            call.outcome = "timeout"
            raise Unavailable(
                f"model {self._model}", f"no answer within {call.seconds:.0f} s", tip="raise AUTOPATCH_LLM_TIMEOUT_S"
            ) from error
        except Unreadable:
            call.outcome = "unreadable"
            raise
        except Unavailable:
            call.unanswered()
            raise
        call.settle("answered", reply.input_tokens, reply.output_tokens)
        return reply

    def _most(self, talk: _Talk, text: str) -> Ask:
        """What the next call can take."""
        settings = self._settings
        return Ask(
            mode=self._mode,
            model=self._model,
            prompt=talk.prompt.digest,
            input_tokens=talk.said + estimate(text) + CHAT_OVERHEAD,
            output_tokens=talk.how.max_tokens,
            seconds=settings.timeout_s,
            prices=settings.prices or FREE,
        )

    @asynccontextmanager
    async def _computing(self, incident: str) -> AsyncIterator[None]:
        """A remote model computes elsewhere; a local one takes turns with itself and with soaks."""
        if self._mode == "remote":
            yield
            return
        async with self._turn, AsyncExitStack() as held:
            if self._cores is not None:
                wait = self._settings.cores_wait_s
                try:
                    async with asyncio.timeout(wait):
                        await held.enter_async_context(self._cores.computing(incident))
                except TimeoutError as error:
                    raise Unavailable("processor cores", f"a soak is being measured on them, still after {wait:.0f} s") from error
            yield

    def _describe(self, opened: Span, text: str, talk: _Talk) -> None:
        opened.set_attributes(
            {
                names.OPERATION: names.CHAT,
                names.PROVIDER: "llama.cpp" if self._mode == "local" else "openai",
                names.CONVERSATION: talk.incident,
                names.INCIDENT: talk.incident,
                names.OUTPUT_TYPE: talk.output,
                names.PROMPT_NAME: talk.prompt.name,
                names.PROMPT_DIGEST: talk.prompt.digest,
                names.REQUEST_MODEL: self._model,
                names.REQUEST_MAX_TOKENS: talk.how.max_tokens,
                names.REQUEST_TEMPERATURE: talk.how.temperature,
                names.MODE: self._mode,
                names.ATTEMPT: talk.attempt,
            }
        )
        if self._settings.capture_content:
            opened.set_attribute(names.SYSTEM_INSTRUCTIONS, talk.system)
            opened.set_attribute(names.INPUT_MESSAGES, text)

    def _describe_reply(self, opened: Span, reply: Reply) -> None:
        opened.set_attribute(names.RESPONSE_MODEL, self._model)
        if reply.finish:
            opened.set_attribute(names.FINISH_REASONS, [reply.finish])
        if self._settings.capture_content:
            opened.set_attribute(names.OUTPUT_MESSAGES, reply.text)


def _read(reply: Reply, answer: type[T], call: Call) -> T:
    try:
        return extract(reply.text, answer)
    except Unreadable:
        call.outcome = "unreadable"
        raise
