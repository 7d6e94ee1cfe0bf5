"""A queue of tickets: the most urgent one first, of equally urgent ones the oldest."""

import heapq
from dataclasses import dataclass
from itertools import count

URGENCY = {"low": 1, "normal": 2, "high": 3, "down": 4}


@dataclass(frozen=True)
class Ticket:
    """One request of a customer."""

    id: str
    level: str = "normal"
    premium: bool = False


def urgency(ticket: Ticket) -> int:
    """Larger is more urgent. A premium customer is one step ahead, but never ahead of a service that is down."""
    if ticket.level not in URGENCY:
        raise ValueError(f"there is no level {ticket.level}")
    own = URGENCY[ticket.level]
    return min(own + 1, URGENCY["high"]) if ticket.premium and own < URGENCY["down"] else own


class Queue:
    """Tickets that wait."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Ticket]] = []
        self._arrivals = count()

    def add(self, ticket: Ticket) -> None:
        """Let one more wait."""
        heapq.heappush(self._heap, (urgency(ticket), next(self._arrivals), ticket))

    def take(self) -> Ticket:
        """The one that comes next. Raises IndexError when none waits."""
        if not self._heap:
            raise IndexError("no ticket waits")
        return heapq.heappop(self._heap)[2]

    def __len__(self) -> int:
        return len(self._heap)
