"""A model that says what it was told to: for tests, and through the same reading, counting and tracing as a real one."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

from pydantic import BaseModel

from autopatch.chassis.llm.cores import Cores
from autopatch.chassis.llm.decider import Decider, Reply, Sampling
from autopatch.chassis.llm.settings import LlmSettings
from autopatch.chassis.llm.tokens import estimate
from autopatch.contract.errors import Unavailable


class Hang:
    """A reply that never comes."""


Line = BaseModel | str | Hang | Exception


class ScriptedBackend:
    """Replays `lines` over all conversations. `heard` holds what was said to it, `written` how texts were
    asked for; `cancelled` counts calls that were given up."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self._lines = list(lines)
        self.heard: list[str] = []
        self.systems: list[str] = []
        self.written: list[tuple[tuple[str, ...], Sampling]] = []
        self.cancelled = 0

    @property
    def calls(self) -> int:
        """How often it was asked."""
        return len(self.heard)

    @asynccontextmanager
    async def open(self, system: str, schema: dict[str, Any], name: str) -> AsyncIterator["ScriptedBackend"]:
        """See Backend."""
        self.systems.append(system)
        yield self

    async def complete(self, system: str, turns: Sequence[str], how: Sampling) -> Reply:
        """See Backend: a line is the text."""
        self.systems.append(system)
        self.written.append((tuple(turns), how))
        return await self.say(turns[-1])

    async def say(self, text: str) -> Reply:
        """The next line; an exception is raised, and so is Unavailable when no line is left."""
        self.heard.append(text)
        line = self._lines.pop(0) if self._lines else Unavailable("scripted model", "no line is left")
        if isinstance(line, Exception):
            raise line
        if isinstance(line, Hang):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        said = line.model_dump_json() if isinstance(line, BaseModel) else str(line)
        return Reply(said, estimate(self.systems[-1]) + estimate(text), estimate(said), "stop")

    async def close(self) -> None:
        """Nothing to stop."""


class ScriptedLlm(Decider):
    """The Llm port over a script."""

    def __init__(
        self,
        *lines: Line,
        mode: Literal["local", "remote"] = "local",
        settings: LlmSettings | None = None,
        cores: Cores | None = None,
    ) -> None:
        self.backend = ScriptedBackend(lines)
        super().__init__(self.backend, settings or LlmSettings(mode="off"), mode=mode, model="scripted", cores=cores)

    @property
    def calls(self) -> int:
        """How often it was asked."""
        return self.backend.calls
