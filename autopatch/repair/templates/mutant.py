"""One candidate edit."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """Bytes `before_span` (start, end) of a file replaced by `after`. `prior`, 0 to 1: how common the fault is that it heals."""

    path: str
    description: str
    before_span: tuple[int, int]
    after: bytes
    prior: float
    template: str
    line: int

    def applied(self, source: bytes) -> bytes:
        """The file with the edit; every other byte as it was."""
        return source[: self.before_span[0]] + self.after + source[self.before_span[1]:]
