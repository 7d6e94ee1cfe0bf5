"""Counts votes of several ballots, one after the other, with the same counter."""

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Result:
    """How a ballot ended. Without a single winner `winner` is None."""

    counts: dict[str, int]
    invalid: int
    winner: str | None

    @property
    def turnout(self) -> int:
        """All votes that were cast, invalid ones too."""
        return sum(self.counts.values()) + self.invalid


@dataclass
class Counter:
    """Begin a ballot, count its votes, close it. Then the counter is ready for the next one."""

    candidates: tuple[str, ...] = ()
    _counts: dict[str, int] = field(default_factory=dict)
    _invalid: int = 0
    _open: bool = False

    def begin(self, candidates: Iterable[str]) -> None:
        """Open a ballot. Raises RuntimeError while another one is open."""
        if self._open:
            raise RuntimeError("close the ballot before")
        self.candidates = tuple(dict.fromkeys(candidates))
        if not self.candidates:
            raise ValueError("a ballot needs a candidate")
        self._counts = dict.fromkeys(self.candidates, 0)
        self._open = True

    def vote(self, name: str) -> bool:
        """Count one vote; False when it is invalid."""
        if not self._open:
            raise RuntimeError("no ballot is open")
        name = name.strip()
        if name not in self._counts:
            self._invalid += 1
            return False
        self._counts[name] += 1
        return True

    def close(self) -> Result:
        """End the ballot and say how it ended."""
        if not self._open:
            raise RuntimeError("no ballot is open")
        self._open = False
        most = max(self._counts.values())
        leaders = [name for name, votes in self._counts.items() if votes == most]
        winner = leaders[0] if len(leaders) == 1 and most > 0 else None
        return Result(dict(self._counts), self._invalid, winner)


def count(counter: Counter, candidates: Iterable[str], votes: Iterable[str]) -> Result:
    """A whole ballot at once."""
    counter.begin(candidates)
    for vote in votes:
        counter.vote(vote)
    return counter.close()
