"""AutoGen's client and agent as a backend. Nothing else imports autogen or openai, so that they stay replaceable.

AutoGen's log of calls is silenced: it would write every prompt and answer into our logs.
"""

import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NoReturn, Protocol

import httpx2
import openai
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import TextMessage
from autogen_core import EVENT_LOGGER_NAME
from autogen_core.models import AssistantMessage, CreateResult, LLMMessage, ModelFamily, ModelInfo, SystemMessage, UserMessage
from autogen_ext.models.openai import OpenAIChatCompletionClient

from autopatch.chassis.llm.decider import Chat, Reply, Sampling
from autopatch.chassis.llm.endpoint import Endpoint
from autopatch.chassis.llm.errors import Unreadable
from autopatch.chassis.llm.settings import LlmSettings
from autopatch.contract.errors import Unavailable

INFO = ModelInfo(
    vision=False,
    function_calling=True,
    json_output=True,
    structured_output=True,
    family=ModelFamily.UNKNOWN,
    multiple_system_messages=False,
)


class Endpoints(Protocol):
    """Where the model can be asked right now."""

    async def ready(self) -> Endpoint:
        """Raises Unavailable."""
        ...

    async def close(self) -> None:
        """Stop what was started."""
        ...


class AutogenBackend:
    """One agent without tools per conversation, over any OpenAI-compatible endpoint."""

    def __init__(self, endpoints: Endpoints, settings: LlmSettings) -> None:
        self._endpoints = endpoints
        self._settings = settings
        for name in (EVENT_LOGGER_NAME, "openai"):
            logging.getLogger(name).setLevel(logging.WARNING)

    @asynccontextmanager
    async def open(self, system: str, schema: dict[str, Any], name: str) -> AsyncIterator[Chat]:
        """See Backend."""
        client = _Client(await self._endpoints.ready(), self._settings, schema, name)
        try:
            yield _Chat(client, AssistantAgent("autopatch", model_client=client, system_message=system))
        finally:
            await client.close()

    async def complete(self, system: str, turns: Sequence[str], how: Sampling) -> Reply:
        """See Backend."""
        endpoint = await self._endpoints.ready()
        client = _Client(endpoint, self._settings)
        said: list[LLMMessage] = [SystemMessage(content=system)]
        for position, text in enumerate(turns):
            ours = position % 2 == 0
            said.append(UserMessage(content=text, source="user") if ours else AssistantMessage(content=text, source="autopatch"))
        wanted: dict[str, Any] = {"temperature": how.temperature, "seed": how.seed, "max_tokens": how.max_tokens}
        wanted |= {"stop": list(how.stop)} if how.stop else {}
        wanted |= {"extra_body": {"cache_prompt": True}} if endpoint.loopback else {}
        try:
            with _faults():
                result = await client.create(said, extra_create_args=wanted)
        finally:
            await client.close()
        if not isinstance(result.content, str):
            raise Unreadable("the endpoint answered with a tool call, not with text")
        return Reply(result.content, result.usage.prompt_tokens, result.usage.completion_tokens, result.finish_reason)

    async def close(self) -> None:
        """See Backend."""
        await self._endpoints.close()


class _Client(OpenAIChatCompletionClient):
    """Holds every answer to a length, and to a schema if there is one, and keeps how the last one ended."""

    def __init__(self, endpoint: Endpoint, settings: LlmSettings, schema: dict[str, Any] | None = None, name: str = "") -> None:
        super().__init__(  # type: ignore[call-arg]  # http_client is passed on to openai, but not in its TypedDict
            model=endpoint.model,
            base_url=endpoint.base_url,
            api_key=endpoint.api_key.get_secret_value() or "none",
            http_client=httpx2.AsyncClient(trust_env=not endpoint.loopback),
            model_info=INFO,
            include_name_in_message=False,
            temperature=settings.temperature,
            seed=settings.seed,
            max_tokens=settings.max_output_tokens,
            timeout=settings.timeout_s,
            max_retries=0,  # a hidden retry would be a call that no ledger knows
        )
        self._resolved_model = None  # else a warning per call when the endpoint names its model in another way
        held = {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": schema}}
        self._format = {"response_format": held} if schema and settings.json_schema else {}
        self.last: CreateResult | None = None

    async def create(self, *args: Any, extra_create_args: Mapping[str, Any] | None = None, **kwargs: Any) -> CreateResult:
        self.last = await super().create(*args, extra_create_args={**(extra_create_args or {}), **self._format}, **kwargs)
        return self.last


class _Chat:
    def __init__(self, client: _Client, agent: AssistantAgent) -> None:
        self._client = client
        self._agent = agent

    async def say(self, text: str) -> Reply:
        with _faults():
            result = await self._agent.run(task=text)
        last, how = result.messages[-1], self._client.last
        if not isinstance(last, TextMessage) or how is None:
            raise Unreadable(f"the endpoint answered with {type(last).__name__}, not with text")
        return Reply(last.content, how.usage.prompt_tokens, how.usage.completion_tokens, how.finish_reason)


@contextmanager
def _faults() -> Iterator[None]:
    """What a call raises, in our words."""
    try:
        yield
    except openai.OpenAIError as error:
        _explain(error)
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise Unreadable(f"the endpoint's reply is not a chat completion ({type(error).__name__})") from error


def _explain(error: openai.OpenAIError) -> NoReturn:
    """In whose hands it is: the network's, the operator's, or the model's."""
    match error:
        case openai.APITimeoutError():
            raise Unavailable("model endpoint", "no answer in time", tip="raise AUTOPATCH_LLM_TIMEOUT_S") from error
        case openai.APIConnectionError():
            raise Unavailable(
                "model endpoint", f"no connection: {error.__cause__ or error}", tip="check AUTOPATCH_LLM_BASE_URL"
            ) from error
        case openai.AuthenticationError() | openai.PermissionDeniedError():
            raise Unavailable("model endpoint", "it refuses the key", tip="check AUTOPATCH_LLM_API_KEY") from error
        case openai.NotFoundError():
            tip = "check AUTOPATCH_LLM_MODEL, and that AUTOPATCH_LLM_BASE_URL ends in /v1"
            raise Unavailable("model endpoint", "it knows no such model or path", tip=tip) from error
        case openai.BadRequestError() | openai.UnprocessableEntityError():
            tip = "AUTOPATCH_LLM_JSON_SCHEMA=false if it takes no schemas"
            raise Unreadable(f"the endpoint refused the request: {_said(error)}", tip=tip) from error
        case openai.APIStatusError():
            raise Unavailable("model endpoint", f"status {error.status_code}: {_said(error)}") from error
        case _:
            raise Unreadable(f"the endpoint's reply is not a chat completion ({type(error).__name__})") from error


def _said(error: openai.APIStatusError) -> str:
    body = error.body if isinstance(error.body, dict) else {}
    return str(body.get("message") or f"status {error.status_code}")[:120]
