"""Patches of a target's code as plans: asked for by a runbook, found by lessons, single edits and the model, proven by tests."""

from collections.abc import Awaitable, Callable

from autopatch.chassis.chassis import Chassis
from autopatch.chassis.redaction import redact
from autopatch.chassis.telemetry import span
from autopatch.contract.actions import PatchCode
from autopatch.contract.evidence import ModelUse
from autopatch.contract.plan import Alternative, Basis
from autopatch.contract.requests import RunbookPlan
from autopatch.contract.target import DockerRuntime, Target
from autopatch.repair.diffs import make_diff
from services.planner.adapters.code.red import Sound, case_of
from services.planner.adapters.gate.case import Case
from services.planner.adapters.gate.proposing import Outcome, nothing_found
from services.planner.adapters.gate.tally import described
from services.planner.defects import ATTEMPTS
from services.planner.ports import Candidate, Offer, Question

KIND = "patch_code"
Searches = Callable[[Case], Awaitable[tuple[Outcome, ModelUse]]]


class CodeSource:
    """The first runbook that says patch_code is followed; those after it only if its tests are not red."""

    def __init__(self, chassis: Chassis, search: Searches) -> None:
        self._chassis = chassis
        self._search = search

    async def offer(self, question: Question) -> Offer:
        """At most one candidate. Raises Unavailable without sandbox, object store or model, or for a wrong target file."""
        asked = [(cause, book) for cause, recalled in question.recalled.items() for book in recalled.runbooks if asks(book)]
        rejected: list[Alternative] = []
        for cause, book in asked:
            what = f"patch the code, as runbook {book.name} says"
            why = unpatchable(question.target) or exhausted(question)
            if not why:
                with span("patch the code", runbook=book.name, cause=cause):
                    try:
                        return await self._offered(question, cause, book, rejected)
                    except Sound as sound:
                        why = redact(str(sound))
            rejected.append(Alternative(summary=what, why_not=why))
        return Offer((), rejected=tuple(rejected))

    async def _offered(self, question: Question, cause: str, book: RunbookPlan, rejected: list[Alternative]) -> Offer:
        case = await case_of(self._chassis, question, book.attached)
        outcome, use = await self._search(case)
        if not outcome.ranked.order:
            why = nothing_found(case, outcome, use).reason
            return Offer((), use, (*rejected, Alternative(summary=f"patch the code, as runbook {book.name} says", why_not=why)))
        candidate = await self._candidate(case, outcome, cause, book)
        others = [Alternative(summary=described(one.candidate), why_not="it passes too, but ranked lower")
                  for one in outcome.ranked.order[1:]]
        return Offer((candidate,), use, (*rejected, *others, *outcome.tally.rejected))

    async def _candidate(self, case: Case, outcome: Outcome, cause: str, book: RunbookPlan) -> Candidate:
        first, blobs = outcome.ranked.order[0].candidate, self._chassis.blobs
        diff = await blobs.put(make_diff(case.tree, case.tree.changed(first.changes)))
        job = await blobs.put(case.job.model_dump_json().encode())
        patch = PatchCode(diff=diff.digest, base=case.job.commit, files=tuple(sorted(first.changes)), job=job.digest)
        weak = f", though {outcome.ranked.weak}" if outcome.ranked.weak else ""
        why = redact(f"{first.description}; all tests and those of runbook {book.name} pass with it{weak}")[:300]
        return Candidate(cause, (patch,), Basis(kind=first.origin, ref=first.ref, why=why))


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
