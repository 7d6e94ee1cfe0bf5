"""What is said of a search: a plan of one patch, or who could not find one and why."""

from dataclasses import dataclass

from autopatch.chassis.chassis import Chassis
from autopatch.chassis.redaction import redact
from autopatch.contract import events as ev
from autopatch.contract.actions import PatchCode, describe
from autopatch.contract.evidence import ModelUse
from autopatch.contract.plan import Alternative, Basis, Plan, Precondition, Step, SuccessCheck
from autopatch.repair.diffs import make_diff
from services.planner.adapters.gate.case import Case
from services.planner.adapters.gate.choosing import Ranked
from services.planner.adapters.gate.tally import Tally, described

REASON_LENGTH, REJECTED = 3000, 12


@dataclass(frozen=True)
class Outcome:
    """`ranked.order[0]` is the change to be proposed, if there is one. `speechless`: the model's answers could not be applied."""

    ranked: Ranked
    tally: Tally
    speechless: bool = False


async def told(chassis: Chassis, case: Case, outcome: Outcome, use: ModelUse) -> ev.Event:
    """The plan of the best change, whose diff is stored, or an escalation. Raises Unavailable."""
    if not outcome.ranked.order:
        return nothing_found(case, outcome, use)
    changed = case.tree.changed(outcome.ranked.order[0].candidate.changes)
    diff = await chassis.blobs.put(make_diff(case.tree, changed))
    return planned(case, outcome, diff.digest, use)


def planned(case: Case, outcome: Outcome, diff: str, use: ModelUse) -> ev.Planned:
    """One step; `diff` is the digest under which the object store holds it. Of what was turned down, single edits are last."""
    first = outcome.ranked.order[0].candidate
    patch = PatchCode(diff=diff, base=case.job.tree, files=tuple(sorted(first.changes)))
    step = Step(action=patch, precondition=Precondition(release=case.job.tree), undo=None)
    others = [Alternative(summary=described(one.candidate), why_not="it passes too, but ranked lower") for one in
              outcome.ranked.order[1:]]
    telling = sorted(outcome.tally.rejected, key=lambda one: one.summary.startswith("template"))
    why = "all tests pass with it" + (f", though {outcome.ranked.weak}" if outcome.ranked.weak else "")
    plan = Plan(
        target=case.incident.target, summary=redact(f"{describe(patch)}: {first.description}")[:300],
        cause=case.diagnosed.causes[0].id, steps=(step,), success=SuccessCheck(signal="tests", settle_s=0, soak_s=1),
        basis=Basis(kind=first.origin, ref=first.ref, why=redact(f"{first.description}; {why}")[:300]),
        rejected=tuple([*others, *telling][:REJECTED]),
    )
    return ev.Planned(plan=plan, plan_hash=plan.hash, model=use)


def nothing_found(case: Case, outcome: Outcome, use: ModelUse) -> ev.Escalated:
    """What was tried, how near it came, and what would help."""
    model = use.model or "the model"
    found = "no change heals the failing tests"
    if outcome.ranked.weak:
        found = "none of the changes that heal the failing tests is sure to be right"
    elif outcome.speechless:
        found = f"none of {outcome.tally.answers} answers of {model} could be applied"
    reason = f"{found}: {outcome.tally.told(model)}"
    if case.failures:
        reason += f". Failed before: {'; '.join(f'{f.plan.summary}: {f.why}' for f in case.failures)}"
    if use.mode == "off":
        reason += ". What would help: a model (AUTOPATCH_LLM_MODE)"
    return ev.Escalated(
        reason=redact(reason)[:REASON_LENGTH], room="planner", model=use,
        kind="format_error" if outcome.speechless and not outcome.ranked.weak else "no_fix_found",
    )
