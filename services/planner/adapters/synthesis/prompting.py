"""What a model is asked: one reduced failing case, and either one function to be written anew or code to be edited."""

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
AROUND = 400
"""Tokens of code around a function that is written anew."""
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
        """For the two most suspicious functions, else one over all places. Raises PromptTooLong."""
        seen, alike = _seen(case, ground), [place for place in similar if place.path not in ground.changes]
        functions = [place for place in ground.places if place.name and place.path in ground.tree][:2]
        made = [task for place in functions if (task := self._whole(ground, place, seen, size, alike)) is not None]
        return made[:2] if made and functions[0].path == made[0].shown[0] else [self._edits(ground, seen, size, alike)]

    def again(self, fault: str, tokens: int) -> str:
        """What is said to an answer that did not do. Raises PromptTooLong."""
        return self._again.render({"fault": Untrusted(redact(fault), keep="head")}, max_tokens=max(tokens, 200)).user

    def _whole(self, ground: Ground, place: Place, seen: str, size: Size, alike: Sequence[Place]) -> Task | None:
        """None when the function is too long to be written anew, or to be shown whole."""
        code = _text(ground, place)
        if place.end - place.start >= LONGEST_FUNCTION or estimate(code) > size.answer_tokens * WORST:
            return None
        room = size.prompt_tokens - estimate(code) - estimate(seen) - estimate(self._rewrite.system.template) - 2 * SLACK
        others = [other for other in ground.places if other != place]
        room = min(int(room / DENSER), AROUND)
        alike = [one for one in alike if one.path != place.path or one.end < place.start or place.end < one.start]
        near = choose(ground.tree, others, (), alike, tokens=room, lines=size.lines) if room > SLACK else ""
        told = redact(f"{seen}\n\nCode around it:\n{near}" if near else seen)
        shown = Hidden.of(code)
        name = f" {place.name} in {place.path}" if _PLAIN.match(f"{place.name}/{place.path}") else ""
        language = LANGUAGES.get(place.path.rpartition(".")[2], "")
        values: dict[str, str | Untrusted] = {
            "seen": Untrusted(told, keep="head"), "code": Untrusted(f"```{language}\n{shown.text}\n```"), "name": name,
            "language": language,
        }
        prompt = self._rewrite.render(values, max_tokens=size.prompt_tokens)
        if any(note.startswith("code:") for note in prompt.notes):
            return None
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
