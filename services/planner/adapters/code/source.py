"""Patches of a target's code as plans: asked for by a runbook or by the log, which shows that the code itself raises; found by
lessons, single edits and the model; proven by tests."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from autopatch.chassis.chassis import Chassis
from autopatch.chassis.redaction import redact
from autopatch.chassis.room import RetryLater
from autopatch.chassis.telemetry import span
from autopatch.contract.actions import PatchCode
from autopatch.contract.errors import Unavailable
from autopatch.contract.evidence import ModelUse
from autopatch.contract.plan import Alternative, Basis
from autopatch.contract.requests import RunbookPlan
from autopatch.contract.target import DockerRuntime, Target
from autopatch.repair.diffs import make_diff
from autopatch.repair.judging import named
from services.planner.adapters.code.red import Sound, case_of
from services.planner.adapters.gate.case import Case
from services.planner.adapters.gate.proposing import Outcome, nothing_found
from services.planner.adapters.gate.tally import described
from services.planner.defects import ATTEMPTS
from services.planner.ports import Candidate, Offer, Question

KIND = "patch_code"
CODE_FAULT = "code_fault"
"""The cause that diagnosis gives to exceptions of the target's own code."""
Searches = Callable[[Case], Awaitable[tuple[Outcome, ModelUse]]]


@dataclass(frozen=True)
class Reason:
    """Why code is patched: for which cause, on whose word, and the tests that come with it.

    `files` are those that the log's tracebacks lead to, and the red tests must lead to one of them too; none for a runbook.
    """

    cause: str
    word: str
    proof: str
    attached: Mapping[str, str] = field(default_factory=dict)
    files: frozenset[str] = frozenset()
    without: str = ""

    @property
    def what(self) -> str:
        """For people."""
        return f"patch the code, as {self.word}"


class CodeSource:
    """The first runbook that says patch_code is followed; those after it only if its tests are not red. Where there is no such
    runbook and the likeliest cause is the code itself, the repository's own tests must show it."""

    def __init__(self, chassis: Chassis, search: Searches) -> None:
        self._chassis = chassis
        self._search = search

    async def offer(self, question: Question) -> Offer:
        """At most one candidate; what a search took is told by who searched. Raises Unavailable without sandbox, object store or
        model, or for a wrong target file."""
        rejected: list[Alternative] = []
        for reason in reasons(question):
            why = unpatchable(question.target) or exhausted(question)
            if not why:
                with span("patch the code", reason=reason.word, cause=reason.cause):
                    try:
                        return await self._offered(question, reason, rejected)
                    except Sound as sound:
                        why = redact(f"{sound}{reason.without}")
                    except (Unavailable, RetryLater) as error:
                        if not reason.files:
                            raise
                        why = redact(f"{error}{reason.without}")  # only a hint: other ways are not held up by it
            rejected.append(Alternative(summary=reason.what, why_not=why))
        return Offer((), rejected=tuple(rejected))

    async def _offered(self, question: Question, reason: Reason, rejected: list[Alternative]) -> Offer:
        case = await case_of(self._chassis, question, dict(reason.attached))
        if reason.files and not any(place.lines and place.path in reason.files for place in case.places):  # words do not count
            raise Sound(f"{named(case.baseline.failing)} fail, which are not seen to run {', '.join(sorted(reason.files))}")
        outcome, use = await self._search(case)
        if not outcome.ranked.order:
            why = nothing_found(case, outcome, use).reason
            return Offer((), rejected=(*rejected, Alternative(summary=reason.what, why_not=why)))
        candidate = await self._candidate(case, outcome, reason)
        others = [Alternative(summary=described(one.candidate), why_not="it passes too, but ranked lower")
                  for one in outcome.ranked.order[1:]]
        return Offer((candidate,), rejected=(*rejected, *others, *outcome.tally.rejected))

    async def _candidate(self, case: Case, outcome: Outcome, reason: Reason) -> Candidate:
        first, blobs = outcome.ranked.order[0].candidate, self._chassis.blobs
        diff = await blobs.put(make_diff(case.tree, case.tree.changed(first.changes)))
        job = await blobs.put(case.job.model_dump_json().encode())
        patch = PatchCode(diff=diff.digest, base=case.job.commit, files=tuple(sorted(first.changes)), job=job.digest)
        weak = f", though {outcome.ranked.weak}" if outcome.ranked.weak else ""
        why = redact(f"{first.description}; {reason.proof} pass with it{weak}")[:300]
        return Candidate(reason.cause, (patch,), Basis(kind=first.origin, ref=first.ref, why=why))


def reasons(question: Question) -> list[Reason]:
    """Runbooks in the order of their causes; else the log, where the likeliest cause is that the code raises."""
    found = [
        Reason(cause, f"runbook {book.name} says", f"all tests and those of runbook {book.name}", book.attached)
        for cause, recalled in question.recalled.items() for book in recalled.runbooks if asks(book)
    ]
    first, evidence = question.diagnosed.causes[0], {item.id: item for item in question.diagnosed.evidence}
    seen = [item for id_ in first.cites if (item := evidence.get(id_)) and item.source == "log" and item.query]
    if found or first.id != CODE_FAULT or not seen:
        return found
    help_ = f": {seen[0].summary}. A runbook with patch_code brings a test that shows it"
    files = frozenset(item.query.rpartition(":")[0] for item in seen)
    return [Reason(CODE_FAULT, "the log points into it", "all its tests", files=files, without=help_)]


def asks(book: RunbookPlan) -> bool:
    """Is its action to patch the code?"""
    return any(action.get("kind") == KIND for action in book.actions)


def exhausted(question: Question) -> str:
    """Why no more patches are tried; '' while one may be."""
    failed = [step for failure in question.failures for step in failure.plan.steps if isinstance(step.action, PatchCode)]
    return f"{len(failed)} patches of the code failed, and more are never tried" if len(failed) >= ATTEMPTS else ""


def unpatchable(target: Target) -> str:
    """What the target's file lacks for its code to be patched; '' when nothing."""
    if KIND not in target.autonomy.actions:
        return "the target's autonomy.actions does not name patch_code"
    if not isinstance(target.runtime, DockerRuntime) or not target.runtime.source:
        return "the target's runtime.source is not set"
    if not target.repository or not target.tests:
        return "the target's repository and tests are not set"
    return ""
