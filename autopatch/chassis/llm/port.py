"""The port: a prompt and a type go in; a value of that type comes out, or an exception that cannot be mistaken for one."""

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


class Llm(Protocol):
    """A model that answers in types. Where there is none (mode off) there is no Llm, but None."""

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

    async def close(self) -> None:
        """Stop what this object started."""
        ...
