"""The budget of one incident: what model calls took, and the stop before the call that would take too much.

Traces and metrics both read its entries; there is no second count.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from autopatch.chassis.llm.errors import BudgetSpent
from autopatch.chassis.llm.metrics import served
from autopatch.chassis.llm.settings import Limits, Mode, Prices
from autopatch.contract.evidence import ModelUse
from autopatch.contract.lifecycle import Incident

Outcome = Literal["answered", "unreadable", "timeout", "unavailable", "cancelled"]
FREE = Prices(input=0, output=0)
SHORTEST_CALL_S = 1.0


@dataclass(frozen=True)
class Ask:
    """What a call may take at most. `seconds` is shortened to what the budget still has."""

    mode: Literal["local", "remote"]
    model: str
    prompt: str
    input_tokens: int
    output_tokens: int
    seconds: float
    prices: Prices = FREE

    def cost(self, input_tokens: int, output_tokens: int) -> float:
        """USD."""
        return (input_tokens * self.prices.input + output_tokens * self.prices.output) / 1e6


@dataclass(frozen=True)
class Entry:
    """One call that was made. `prompt` is the SHA-256 of the prompt file."""

    incident: str
    mode: Literal["local", "remote"]
    model: str
    prompt: str
    input_tokens: int
    output_tokens: int
    seconds: float
    cost_usd: float
    outcome: Outcome


class Call:
    """A call that the budget covers. Until it is settled it counts at its most."""

    def __init__(self, ask: Ask, seconds: float) -> None:
        self.ask = ask
        self.seconds = seconds
        self.input_tokens = ask.input_tokens
        self.output_tokens = ask.output_tokens
        self.outcome: Outcome = "cancelled"
        self.entry: Entry | None = None

    @property
    def cost_usd(self) -> float:
        """As far as it is known."""
        return self.ask.cost(self.input_tokens, self.output_tokens)

    def settle(self, outcome: Outcome, input_tokens: int, output_tokens: int) -> None:
        """What it took. An endpoint that reports no usage (0) is charged the estimate."""
        self.outcome = outcome
        self.input_tokens = input_tokens or self.ask.input_tokens
        self.output_tokens = output_tokens if input_tokens else self.ask.output_tokens

    def unanswered(self) -> None:
        """The request reached nobody: a call, but no tokens."""
        self.outcome, self.input_tokens, self.output_tokens = "unavailable", 0, 0


class Ledger:
    """Counts over every room that `spent` (the ModelUse of the incident's earlier events) tells of. Safe for tasks and threads.

    `listen` is called with each entry, on the thread of the call.
    """

    def __init__(
        self,
        incident: str,
        limits: Limits,
        *,
        spent: Iterable[ModelUse] = (),
        listen: Iterable[Callable[[Entry], None]] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.incident = incident
        self.limits = limits
        self._earlier = tuple(spent)
        self._listen = tuple(listen)
        self._clock = clock
        self._entries: list[Entry] = []
        self._open: list[Call] = []
        self._lock = threading.Lock()

    @classmethod
    def of(cls, incident: Incident, limits: Limits, *, earlier: Iterable[ModelUse] = ()) -> "Ledger":
        """For an incident as the log tells it: what any room reported on its events is spent, and `earlier`, which none tells.

        Its calls are counted at /metrics.
        """
        return cls(incident.id, limits, spent=[*earlier, *incident.model_uses], listen=(served(),))

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The calls made through this object, oldest first."""
        with self._lock:
            return tuple(self._entries)

    @contextmanager
    def call(self, ask: Ask) -> Iterator[Call]:
        """Reserve, then charge what was settled; left unsettled (cancelled, crashed) it costs what was reserved.

        Raises BudgetSpent before anything is sent.
        """
        with self._lock:
            call = Call(ask, self._granted(ask))
            self._open.append(call)
        began = self._clock()
        try:
            yield call
        finally:
            entry = call.entry = self._entry(call, self._clock() - began)
            with self._lock:
                self._open.remove(call)
                self._entries.append(entry)
            for listener in self._listen:
                listener(entry)

    def use(self, entries: Iterable[Entry] | None = None, *, mode: Mode = "off", note: str = "") -> ModelUse:
        """The sum of `entries` (all of this object's unless told), as events carry it; `mode` is said when no call was made."""
        counted = self.entries if entries is None else tuple(entries)
        if not counted:
            return ModelUse(mode=mode, note=note)
        last = counted[-1]
        return ModelUse(
            mode=last.mode,
            model=last.model,
            calls=len(counted),
            input_tokens=sum(e.input_tokens for e in counted),
            output_tokens=sum(e.output_tokens for e in counted),
            seconds=round(sum(e.seconds for e in counted), 3),
            cost_usd=sum(e.cost_usd for e in counted),
            prompt=last.prompt,
            note=note,
        )

    def _granted(self, ask: Ask) -> float:
        """Seconds that the call may last. Raises BudgetSpent."""
        limits, taken = self.limits, self._taken()
        if taken.calls + 1 > limits.calls:
            raise BudgetSpent(self.incident, "calls", f"{taken.calls} of {limits.calls} calls are made")
        wanted = ask.input_tokens + ask.output_tokens
        tokens = taken.input_tokens + taken.output_tokens
        if tokens + wanted > limits.tokens:
            raise BudgetSpent(
                self.incident, "tokens", f"{tokens} of {limits.tokens} tokens are used, this call may take {wanted}"
            )
        cost = ask.cost(ask.input_tokens, ask.output_tokens)
        if limits.cost_usd is not None and taken.cost_usd + cost > limits.cost_usd:
            raise BudgetSpent(
                self.incident,
                "cost_usd",
                f"{taken.cost_usd:.4f} of {limits.cost_usd:.4f} USD are spent, this call may cost {cost:.4f}",
            )
        left = limits.seconds - taken.seconds
        if left < min(ask.seconds, SHORTEST_CALL_S):
            raise BudgetSpent(self.incident, "seconds", f"{taken.seconds:.0f} of {limits.seconds:.0f} seconds are used")
        return min(ask.seconds, left)

    def _taken(self) -> ModelUse:
        """Spent before, spent here, and reserved by calls that are running."""
        running = [self._entry(call, call.seconds) for call in self._open]
        parts = [*self._earlier, *(self.use([e]) for e in (*self._entries, *running))]
        return ModelUse(
            mode="off",
            calls=sum(p.calls for p in parts),
            input_tokens=sum(p.input_tokens for p in parts),
            output_tokens=sum(p.output_tokens for p in parts),
            seconds=sum(p.seconds for p in parts),
            cost_usd=sum(p.cost_usd for p in parts),
        )

    def _entry(self, call: Call, seconds: float) -> Entry:
        ask = call.ask
        return Entry(
            self.incident,
            ask.mode,
            ask.model,
            ask.prompt,
            call.input_tokens,
            call.output_tokens,
            seconds,
            call.cost_usd,
            call.outcome,
        )
