"""What a model is asked: one reduced failing case, and either one function to be written anew or code to be edited.

Tasks for several functions begin alike, up to the name of the function, so that a local model reads what they share once.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autopatch.chassis.llm.hiding import Hidden
from autopatch.chassis.llm.prompt import Prompt, PromptFile, Untrusted
from autopatch.chassis.llm.tokens import estimate
from autopatch.chassis.redaction import redact
from autopatch.contract.code import Frame, Place
from autopatch.repair.context import choose
from autopatch.repair.localise import reduced_case
from services.planner.adapters.gate.case import Case, Ground, without
from services.planner.settings import Settings

PROMPTS = Path(__file__).parents[2] / "prompts"
LONGEST_FUNCTION = 60
"""Lines of a function that is written anew; a larger one is edited."""
SEEN_TOKENS, EARLIER = 450, 2
AROUND = 700
"""Tokens of the code out of which one function is written anew."""
SLACK = 120
"""Tokens for fences and for notes of what was left out."""
WORST = 1.6
"""Our estimate of tokens is a bound from above: code has about so many times fewer."""
DENSER = 1.4
"""How much more our estimate gives for code than the one by which context is chosen."""
REMOTE_TOKENS, REMOTE_ANSWER = 12_000, 2_000
LANGUAGES = {"py": "python", "js": "javascript", "mjs": "javascript", "cjs": "javascript", "ts": "typescript"}
_PLAIN = re.compile(r"[\w./-]{1,120}\Z")


@dataclass(frozen=True)
class Size:
    """What a prompt and an answer may have. `lines` limits context for a remote model, which reads quickly."""

    prompt_tokens: int
    answer_tokens: int
    lines: int | None = None

    @classmethod
    def of(cls, settings: Settings) -> "Size":
        """A local model reads and writes slowly; a remote one is limited by lines."""
        if settings.llm.mode == "remote":
            return cls(REMOTE_TOKENS, REMOTE_ANSWER, settings.context_lines)
        return cls(settings.prompt_tokens, settings.answer_tokens)


@dataclass(frozen=True)
class Task:
    """A prompt, the files that it shows, and the function that the answer is (None: blocks, a diff or files)."""

    prompt: Prompt
    shown: tuple[str, ...]
    function: tuple[str, str] | None = None
    span: tuple[int, int] | None = None
    hidden: Hidden = Hidden("")


class Prompts:
    """The prompt files, read once."""

    def __init__(self) -> None:
        self._rewrite = PromptFile.read(PROMPTS / "rewrite.md")
        self._edit = PromptFile.read(PROMPTS / "edit.md")
        self._again = PromptFile.read(PROMPTS / "again.md")

    def tasks(self, case: Case, ground: Ground, size: Size, similar: Sequence[Place] = ()) -> list[Task]:
        """One for each suspicious function, likeliest first, else one over all places. Raises PromptTooLong."""
        seen, alike = _seen(case, ground), [place for place in similar if place.path not in ground.changes]
        functions = [place for place in ground.places if place.name and place.path in ground.tree]
        functions.sort(key=lambda place: (-place.score, place.start - place.end))  # of equals the one with most to go wrong
        return self._whole(ground, functions, seen, size, alike) or [self._edits(ground, seen, size, alike)]

    def again(self, fault: str, tokens: int) -> str:
        """What is said to an answer that did not do. Raises PromptTooLong."""
        return self._again.render({"fault": Untrusted(redact(fault), keep="head")}, max_tokens=max(tokens, 200)).user

    def _whole(
        self, ground: Ground, functions: Sequence[Place], seen: str, size: Size, alike: Sequence[Place]
    ) -> list[Task]:
        """Of the functions that are shown whole; none when the likeliest is too long to be written anew, or to be shown."""
        room = size.prompt_tokens - estimate(seen) - estimate(self._rewrite.system.template) - 2 * SLACK
        tokens, code = AROUND, choose(ground.tree, functions, (), alike, tokens=AROUND, lines=size.lines)
        while estimate(code) > room and tokens > SLACK:
            tokens = tokens * 3 // 4
            code = choose(ground.tree, functions, (), alike, tokens=tokens, lines=size.lines)
        shown = Hidden.of(code)
        made: list[Task] = []
        for place in functions:
            text = _text(ground, place)
            short = place.end - place.start < LONGEST_FUNCTION and estimate(text) <= size.answer_tokens * WORST
            if short and text in code:
                made.append(self._one(place, seen, shown, size))
            elif not made:
                return []
        return [task for task in made if not any(note.startswith("code:") for note in task.prompt.notes)]

    def _one(self, place: Place, seen: str, shown: Hidden, size: Size) -> Task:
        plain = _PLAIN.match(f"{place.name}/{place.path}")
        language = LANGUAGES.get(place.path.rpartition(".")[2], "")
        values: dict[str, str | Untrusted] = {
            "seen": Untrusted(redact(seen), keep="head"), "code": Untrusted(f"```{language}\n{shown.text}\n```"),
            "name": f"The faulty function is {place.name} in {place.path}. " if plain else "", "language": language,
        }
        prompt = self._rewrite.render(values, max_tokens=size.prompt_tokens)
        return Task(prompt, (place.path,), (place.path, place.name), (place.start, place.end), shown)

    def _edits(self, ground: Ground, seen: str, size: Size, alike: Sequence[Place]) -> Task:
        room = size.prompt_tokens - estimate(seen) - estimate(self._edit.system.template) - 2 * SLACK
        tokens = int(max(room, SLACK) / DENSER)
        code = choose(ground.tree, ground.places, _frames(ground), alike, tokens=tokens, lines=size.lines)
        shown = Hidden.of(code)
        values = {"seen": Untrusted(redact(seen), keep="head"), "code": Untrusted(shown.text, keep="head")}
        files = dict.fromkeys(place.path for place in ground.places if place.path in ground.tree)
        return Task(self._edit.render(values, max_tokens=size.prompt_tokens), tuple(files), hidden=shown)


def _seen(case: Case, ground: Ground) -> str:
    """The failing case, what a person says, and what failed before."""
    reduced = reduced_case(ground.tree, ground.report, without(case.baseline, ground.failing))
    parts = [reduced.text() if reduced else f"These tests fail: {', '.join(sorted(ground.failing)[:5])}"]
    if case.job.issue.strip():
        parts.append(f"What a person says about it:\n{_cut(case.job.issue.strip(), SEEN_TOKENS // 3)}")
    parts += [f"This was tried and failed: {failure.plan.summary}: {failure.why}"[:400] for failure in case.failures[-EARLIER:]]
    return "\n\n".join([_cut(parts[0], SEEN_TOKENS), *parts[1:]])


def _cut(text: str, tokens: int) -> str:
    """Its head: whole lines within so many tokens, at least one."""
    kept: list[str] = []
    for line in text.splitlines():
        if kept and estimate("\n".join([*kept, line])) > tokens:
            return "\n".join([*kept, "[...]"])
        kept.append(line[:500])
    return "\n".join(kept)


def _text(ground: Ground, place: Place) -> str:
    lines = ground.tree[place.path].decode(errors="replace").splitlines()
    return "\n".join(lines[place.start - 1:place.end])


def _frames(ground: Ground) -> Sequence[Frame]:
    return next((case.frames for case in ground.report.cases if case.id in ground.failing and case.frames), ())
