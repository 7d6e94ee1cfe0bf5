"""Jobs for the planner's tests, and what it says of them."""

from collections.abc import Callable, Sequence
from typing import Any

from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from autopatch.chassis.llm.decider import Reply, Sampling
from autopatch.chassis.llm.scripted import ScriptedLlm
from autopatch.chassis.llm.settings import Limits, LlmSettings
from autopatch.contract import events as ev
from services.planner.service import build
from services.planner.settings import Settings
from services.planner.tests.repair_fakes import Repository, Rooms, heard, opened

ADD = b"def add(a, b):\n    return a - b\n"
EASY = {"t::test_two": "add(1, 2) == 3", "t::test_zero": "add(0, 0) == 0", "t::test_many": "add(40, 2) == 42"}

MISSING = b'def initials(name):\n    """First letters."""\n    words = name.split(" ")\n    return "".join(words)\n'
LOGIC = {"t::test_name": "initials('ada lovelace') == 'A.L.'", "t::test_one": "initials('ada') == 'A.'"}
RIGHT = 'def initials(name):\n    words = name.split(" ")\n    return "".join(f"{word[0].upper()}." for word in words)\n'
HALF = 'def initials(name):\n    words = name.split(" ")\n    return "A.L." if len(words) > 1 else ""\n'
WRONG = 'def initials(name):\n    words = name.split(" ")\n    return "".join(word[0] for word in words)\n'


def easy() -> Rooms:
    return Rooms(Repository({"calc.py": ADD}, EASY))


def hard() -> Rooms:
    """No single edit of the kinds that are known heals it."""
    return Rooms(Repository({"names.py": MISSING}, LOGIC))


async def say(rooms: Rooms, events: list[ev.Event] | None = None, llm: ScriptedLlm | None = None, **changed: Any) -> ev.Event:
    mode = llm.mode if llm else "off"
    asked = LlmSettings(mode=mode, base_url="http://x/v1", model="m", limits=changed.pop("limits", Limits()))
    settings = Settings(llm=asked, **changed)
    said = heard(events or opened(rooms))
    [event] = await build(settings, rooms.chassis(), llm=llm).handlers[type(said.event)](said)
    return event


async def plan(*args: Any, **kwargs: Any) -> ev.Planned:
    event = await say(*args, **kwargs)
    assert isinstance(event, ev.Planned), event
    return event


async def escalated(*args: Any, **kwargs: Any) -> ev.Escalated:
    event = await say(*args, **kwargs)
    assert isinstance(event, ev.Escalated), event
    return event


class Answering(ScriptedLlm):
    """Says what it makes of the prompt, which must hold no secret."""

    def __init__(self, answer: Callable[[str], str]) -> None:
        super().__init__()
        self._answer = answer
        self.backend.complete = self._complete  # type: ignore[method-assign]

    async def _complete(self, system: str, turns: Sequence[str], how: Sampling) -> Reply:
        assert "AKIA" not in system + "".join(turns) and "[redacted" in turns[0]
        return Reply(self._answer(turns[0]), 10, 10, "stop")


def told(spans: InMemorySpanExporter, name: str) -> dict[str, Any]:
    return next(dict(one.attributes or {}) for one in spans.get_finished_spans() if one.name == name)


