"""What is the same for every model: ask, read, ask once more, count, trace. Backends only carry text to and fro."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

from opentelemetry.trace import Span, SpanKind
from pydantic import BaseModel

from autopatch.chassis.llm import names
from autopatch.chassis.llm.cores import Cores
from autopatch.chassis.llm.errors import Unreadable
from autopatch.chassis.llm.extract import extract
from autopatch.chassis.llm.ledger import FREE, Ask, Call, Ledger
from autopatch.chassis.llm.port import Decision
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

    async def close(self) -> None:
        """Stop what was started."""
        ...


@dataclass
class _Talk:
    """One decision under way."""

    prompt: Prompt
    system: str
    incident: str
    budget: Ledger
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
        talk = _Talk(prompt, system, incident, budget, said=estimate(system) + CHAT_OVERHEAD)
        async with self._computing(incident), self._backend.open(system, schema, answer.__name__) as chat:
            try:
                read = await self._attempt(chat, prompt.user, answer, talk)
            except Unreadable as error:
                read = await self._attempt(chat, REPAIR.format(fault=error), answer, talk)
        return Decision(read, budget.use([call.entry for call in talk.calls if call.entry]))

    async def _attempt(self, chat: Chat, text: str, answer: type[T], talk: _Talk) -> T:
        """One call, one span, one entry in the ledger."""
        talk.attempt += 1
        with span(f"{names.CHAT} {self._model}", kind=SpanKind.CLIENT) as opened:
            self._describe(opened, text, talk)
            with talk.budget.call(self._most(talk, text)) as call:
                talk.calls.append(call)
                try:
                    reply = await self._say(chat, text, call)
                    self._describe_reply(opened, reply)
                    read = _read(reply, answer, call)
                finally:
                    opened.set_attribute(names.OUTCOME, call.outcome)
                    opened.set_attribute(names.INPUT_TOKENS, call.input_tokens)
                    opened.set_attribute(names.OUTPUT_TOKENS, call.output_tokens)
                    opened.set_attribute(names.COST_USD, call.cost_usd)
                    talk.said += estimate(text) + CHAT_OVERHEAD + call.output_tokens
        return read

    async def _say(self, chat: Chat, text: str, call: Call) -> Reply:
        """Raises Unavailable and charges what that took; a cancelled call stays charged at its most."""
        try:
            async with asyncio.timeout(call.seconds):
                reply = await chat.say(text)
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
            output_tokens=settings.max_output_tokens,
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
                names.OUTPUT_TYPE: "json",
                names.PROMPT_NAME: talk.prompt.name,
                names.PROMPT_DIGEST: talk.prompt.digest,
                names.REQUEST_MODEL: self._model,
                names.REQUEST_MAX_TOKENS: self._settings.max_output_tokens,
                names.REQUEST_TEMPERATURE: self._settings.temperature,
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
