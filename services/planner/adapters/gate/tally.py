"""What was tried, for spans, plans and escalations."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from autopatch.chassis.redaction import redact
from autopatch.contract.plan import Alternative
from services.planner.adapters.gate.candidate import Candidate, Tried

KEPT = 100
"""Alternatives that a span tells of at most."""


@dataclass
class Tally:
    """Counts over all rounds. `best` is the candidate that left the fewest of the failing tests, but some; `broke` counts those
    that healed them all and broke others."""

    failing: int
    lessons: int = 0
    templates: int = 0
    seconds: float = 0.0
    answers: int = 0
    applied: int = 0
    repeats: int = 0
    unreadable: int = 0
    broke: int = 0
    best: Tried | None = None
    rejected: list[Alternative] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def reject(self, candidate: Candidate, why: str) -> None:
        """Told on the plan and on the span."""
        self.rejected.append(Alternative(summary=described(candidate), why_not=redact(why)[:300]))

    def sift(self, tried: Sequence[Tried]) -> list[Tried]:
        """Those that passed; why the others did not is kept."""
        for one in tried:
            if not one.passed:
                self.reject(one.candidate, one.why)
                self.broke += not one.failing
        return [one for one in tried if one.passed]

    def saw(self, tried: Sequence[Tried]) -> None:
        """Keeps the one that healed the most without healing all."""
        for one in tried:
            if one.failing and len(one.failing) < (len(self.best.failing) if self.best else self.failing):
                self.best = one

    def told(self, model: str) -> str:
        """In one sentence, without what was not tried."""
        parts = [
            _counted(self.lessons, "proven lesson"),
            f"{_counted(self.templates, 'single edit')} in {self.seconds:.0f} s" if self.templates else "",
            f"{_counted(self.answers, 'answer')} of {model} ({self.unreadable} could not be applied, {self.repeats} repeated "
            "what was tried)" if self.answers else "",
        ]
        broke = f"; {self.broke} healed the failing tests and broke others" if self.broke else ""
        best = f"; the best left {_few(self.best.failing)} of {self.failing} failing" if self.best else ""
        notes = f". {'. '.join(dict.fromkeys(self.notes))}" if self.notes else ""
        return f"{', '.join(part for part in parts if part) or 'nothing could be tried'}{broke}{best}{notes}"


def described(candidate: Candidate) -> str:
    """One short line, without secrets: descriptions quote the repository."""
    ref = f" {candidate.ref}" if candidate.ref else ""
    return redact(f"{candidate.origin}{ref}: {candidate.description}")[:200]


def lines(alternatives: Sequence[Alternative]) -> list[str]:
    """As a span takes them."""
    told = [f"{one.summary}: {one.why_not}" for one in alternatives[:KEPT]]
    return told + ([f"and {len(alternatives) - KEPT} more"] if len(alternatives) > KEPT else [])


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}" if number else ""


def _few(tests: frozenset[str]) -> str:
    return f"{len(tests)} ({', '.join(redact(test)[:80] for test in sorted(tests)[:3])})"
