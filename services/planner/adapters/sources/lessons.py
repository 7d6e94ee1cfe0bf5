"""What healed this fault before: a lesson's diff, if it still applies."""

from autopatch.chassis.chassis import Chassis
from autopatch.chassis.telemetry import span
from autopatch.contract.errors import Unavailable
from autopatch.contract.requests import Lesson, Recall, Recalled
from services.planner.adapters.gate.candidate import Candidate
from services.planner.adapters.gate.case import Case, diff_of, refitted
from services.planner.adapters.gate.tally import Tally, lines


async def recalled(chassis: Chassis, case: Case, tally: Tally) -> list[Candidate]:
    """Most trusted first. Without knowledge there are none: every candidate is run anyway, so nothing unproven gets by."""
    question = Recall(signature=case.diagnosed.signature, target=case.incident.target, cause=case.diagnosed.causes[0].id)
    found: list[Candidate] = []
    with span("retrieval lessons", gen_ai_operation_name="retrieval") as current:
        try:
            known = await chassis.asker.ask(question, Recalled)
        except Unavailable as error:
            tally.notes.append(f"lessons were not asked for: {error}")
            current.set_attribute("missing", str(error)[:300])
            return []
        for lesson in sorted(known.lessons, key=lambda one: -one.trust):
            made = await _candidate(chassis, case, lesson)
            if isinstance(made, Candidate):
                found.append(made)
            else:
                tally.reject(Candidate(lesson.id, {}, "lesson", lesson.id, "its diff"), made)
        tally.lessons = len(known.lessons)
        current.set_attribute("retrieval.lessons", [lesson.id for lesson in known.lessons])
        current.set_attribute("retrieval.withheld", list(known.withheld))
        current.set_attribute("alternatives.rejected", lines(tally.rejected))
    return found


async def _candidate(chassis: Chassis, case: Case, lesson: Lesson) -> Candidate | str:
    """The lesson's diff on this tree, or why it is none."""
    try:
        diff = await diff_of(chassis, [step.action for step in lesson.plan.steps])
    except Unavailable as error:
        return f"its diff cannot be had: {error}"
    if diff is None:
        return "it patches no code"
    changes = refitted(diff, case.tree)
    if isinstance(changes, str):
        return changes
    why = f"it healed this fault {lesson.recovered} times, failed {lesson.failed}; trust {lesson.trust:.2f}"
    return Candidate(lesson.id, changes, "lesson", lesson.id, why, lesson.trust)
