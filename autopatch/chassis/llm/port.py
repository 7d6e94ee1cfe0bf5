"""The port: a prompt and a type go in; a value of that type comes out, or an exception that cannot be mistaken for one.

Code never travels in a type: `write` gives free text, which whoever asked for it has to judge.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar

from pydantic import BaseModel

from autopatch.chassis.llm.ledger import Ledger
from autopatch.chassis.llm.prompt import Prompt
from autopatch.contract.evidence import ModelUse

T = TypeVar("T", bound=BaseModel)


@dataclass(frozen=True)
class Decision(Generic[T]):
    """A validated answer, and what it took."""

    answer: T
    use: ModelUse


@dataclass(frozen=True)
class Written:
    """One sample of free text, and what it took. `cut`: the length it was allowed ended it."""

    text: str
    use: ModelUse
    cut: bool = False


class Llm(Protocol):
    """A model that answers in types, or writes. Where there is none (mode off) there is no Llm, but None."""

    @property
    def mode(self) -> Literal["local", "remote"]:
        """Where it runs."""
        ...

    @property
    def model(self) -> str:
        """Its id."""
        ...

    async def decide(self, prompt: Prompt, answer: type[T], *, incident: str, budget: Ledger) -> Decision[T]:
        """One typed answer, with one repair retry. Cancelling the task ends the request at the server.

        Raises Unavailable (nothing answered), Unreadable (no answer of this type), BudgetSpent (not asked at all). What
        failed calls took is on `budget`: `budget.use(note=str(error))` is the ModelUse to report then.
        """
        ...

    async def write(
        self, prompt: Prompt, *, incident: str, budget: Ledger, samples: int = 1, start: int = 0, temperature: float = 0.8,
        max_tokens: int = 300, stop: Sequence[str] = (), then: Sequence[str] = (),
    ) -> Sequence[Written]:
        """Samples `start` to `start + samples`. Sample 0 is greedy; each other one has `temperature` and a seed of its own.

        `then` goes on from the prompt: what the model answered, what we say to that, and so on. A local model writes one sample
        after the other and reads the common beginning once; cancelling the task ends the sample under way and starts no other.
        There are fewer than asked for when the budget or the endpoint ends after the first; when there is none that is raised:
        Unavailable, Unreadable, BudgetSpent.
        """
        ...

    async def close(self) -> None:
        """Stop what this object started."""
        ...
