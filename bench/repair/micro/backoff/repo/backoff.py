"""How long to wait before the next try: twice as long each time, spread by chance so that not all come back at once."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Backoff:
    """Seconds. A delay lies anywhere between half and one and a half of what the try stands for."""

    first: float = 0.5
    longest: float = 30.0
    tries: int = 8
    _chance: random.Random = field(default_factory=random.Random)

    def middle(self, attempt: int) -> float:
        """What the try stands for; attempts are counted from 0."""
        if attempt < 0:
            raise ValueError("attempts are counted from 0")
        return min(self.longest, self.first * 2**attempt)

    def delay(self, attempt: int) -> float:
        """One draw."""
        return self.middle(attempt) * (0.5 + self._chance.random())

    def delays(self) -> Iterator[float]:
        """One for each try, then it is given up."""
        for attempt in range(self.tries):
            yield self.delay(attempt)


def worst(backoff: Backoff) -> float:
    """The longest that all tries together can take."""
    return sum(backoff.middle(attempt) * 1.5 for attempt in range(backoff.tries))
