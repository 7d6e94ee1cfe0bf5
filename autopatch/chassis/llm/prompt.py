"""Prompts are files beside the agent that speaks them: `# system`, then `# user`, with ${names} that are filled in strictly."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Literal

from autopatch.chassis.llm.errors import PromptTooLong
from autopatch.chassis.llm.fence import fenced
from autopatch.chassis.llm.tokens import estimate
from autopatch.contract.errors import OperatorError
from autopatch.contract.model import digest

_PARTS = re.compile(r"\A\s*# system\n(?P<system>.*?)^# user\n(?P<user>.*)\Z", re.DOTALL | re.MULTILINE | re.IGNORECASE)
FENCE_TOKENS = 48
NOTE_TOKENS = 24
LEAST_TOKENS = 40


@dataclass(frozen=True)
class Untrusted:
    """Text that somebody else wrote (labels, logs, code, documents). `keep` says which end survives a cut."""

    text: str
    keep: Literal["head", "tail", "both"] = "both"


@dataclass(frozen=True)
class Prompt:
    """A rendered prompt. `digest` is the SHA-256 of its file; `notes` say what was left out."""

    name: str
    digest: str
    system: str
    user: str
    tokens: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PromptFile:
    """A prompt before its variables are known."""

    name: str
    digest: str
    system: Template
    user: Template

    @classmethod
    def read(cls, path: Path) -> "PromptFile":
        """Raises OperatorError naming file and fault."""
        try:
            raw = path.read_bytes()
            found = _PARTS.match(raw.decode())
        except (OSError, UnicodeDecodeError) as error:
            raise OperatorError(f"prompt {path}: {error}") from error
        if found is None:
            raise OperatorError(f"prompt {path}: it needs a line `# system` first and a line `# user` after that")
        parts = Template(found["system"].strip()), Template(found["user"].strip())
        if not all(part.is_valid() for part in parts):
            raise OperatorError(f"prompt {path}: a `$` that begins no ${{name}}", tip="write $$ for a dollar sign")
        return cls(path.stem, digest(raw), *parts)

    @property
    def variables(self) -> frozenset[str]:
        """What `render` must be given, no more and no less."""
        return frozenset(self.system.get_identifiers()) | frozenset(self.user.get_identifiers())

    def render(self, values: Mapping[str, str | Untrusted], *, max_tokens: int) -> Prompt:
        """Fill in. A str is our own words and goes in as it is; Untrusted is fenced and, past `max_tokens`, visibly cut.

        Raises OperatorError for a missing or surplus variable, PromptTooLong when cutting does not help.
        """
        wrong = self.variables ^ values.keys()
        if wrong:
            raise OperatorError(f"prompt {self.name}: variables missing or not in the file: {', '.join(sorted(wrong))}")
        own = {name: value for name, value in values.items() if isinstance(value, str)}
        others = {name: value for name, value in values.items() if isinstance(value, Untrusted)}
        fixed = sum(estimate(part.safe_substitute({**own, **dict.fromkeys(others, "")})) for part in (self.system, self.user))
        shares = _shares(others, max_tokens - fixed, self.name)
        cut = {name: _cut(value, shares[name]) for name, value in others.items()}
        filled = own | {name: fenced(name, text) for name, (text, _) in cut.items()}
        notes = tuple(f"{name}: {left:,} characters left out" for name, (_, left) in cut.items() if left)
        system, user = self.system.substitute(filled), self.user.substitute(filled)
        return Prompt(self.name, self.digest, system, user, estimate(system) + estimate(user), notes)


def _shares(texts: Mapping[str, Untrusted], space: int, prompt: str) -> dict[str, int]:
    """Tokens for each text: short ones whole, what is left in equal parts for the long ones."""
    space -= FENCE_TOKENS * len(texts)
    if space < 0 or (texts and space < LEAST_TOKENS):
        raise PromptTooLong(
            f"prompt {prompt}: its own words leave no space for the texts it is about",
            tip="raise AUTOPATCH_PLANNER_PROMPT_TOKENS or AUTOPATCH_DIAGNOSIS_PROMPT_TOKENS, whichever room asks",
        )
    wants = sorted((estimate(value.text), name) for name, value in texts.items())
    shares: dict[str, int] = {}
    for position, (want, name) in enumerate(wants):
        shares[name] = min(want, space // (len(wants) - position))
        space -= shares[name]
    return shares


def _cut(value: Untrusted, tokens: int) -> tuple[str, int]:
    """The text within so many tokens, and how many characters that left out. What is left out is said in its place."""
    text = value.text
    if estimate(text) <= tokens:
        return text, 0
    space = max(0, tokens - NOTE_TOKENS)
    head_tokens = {"head": space, "tail": 0, "both": space // 2}[value.keep]
    head = text[: _fits(text, head_tokens)]
    tail = text[len(text) - _fits(text[::-1], space - head_tokens) :] if space - head_tokens else ""
    left = len(text) - len(head) - len(tail)
    return f"{head}\n[{left:,} characters left out here]\n{tail}".strip("\n"), left


def _fits(text: str, tokens: int) -> int:
    """The longest prefix, in characters, of at most so many tokens."""
    low, high = 0, min(len(text), tokens * 16)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if estimate(text[:middle]) <= tokens else (low, middle - 1)
    return low
