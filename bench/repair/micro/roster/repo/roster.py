"""Seats in a course: who has one, who waits, who moves up when a seat becomes free."""

from dataclasses import dataclass, field


@dataclass
class Course:
    """The first to come get the seats, the others wait in the order in which they came."""

    seats: int
    taken: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.seats < 1:
            raise ValueError("a course has a seat")

    def join(self, name: str) -> bool:
        """True with a seat, False when one has to wait. Who is in already stays where they are."""
        if name in self.taken:
            return True
        if name in self.waiting:
            return False
        if len(self.taken) <= self.seats:
            self.taken.append(name)
            return True
        self.waiting.append(name)
        return False

    def leave(self, name: str) -> str | None:
        """Who moves up, if somebody does. Raises KeyError for a stranger."""
        if name in self.waiting:
            self.waiting.remove(name)
            return None
        if name not in self.taken:
            raise KeyError(name)
        self.taken.remove(name)
        if not self.waiting:
            return None
        next_one = self.waiting.pop()
        self.taken.append(next_one)
        return next_one

    def place(self, name: str) -> int:
        """0 with a seat, else the place in the queue, counted from 1."""
        if name in self.taken:
            return 0
        return self.waiting.index(name) + 1

    @property
    def free(self) -> int:
        """Seats that nobody has."""
        return self.seats - len(self.taken)
