"""Plans without a model: what worked before, and what people wrote down."""

from pydantic import TypeAdapter, ValidationError

from autopatch.contract.actions import Action, PatchCode
from autopatch.contract.plan import Alternative, Basis
from autopatch.contract.requests import Lesson, RunbookPlan
from services.planner.adapters.code.source import asks
from services.planner.ports import Candidate, Offer, Question

_ACTIONS: TypeAdapter[tuple[Action, ...]] = TypeAdapter(tuple[Action, ...])


class LessonSource:
    """Lessons past knowledge's gates: the same values again, with fresh preconditions."""

    async def offer(self, question: Question) -> Offer:
        """The most trusted first; a patch of code is left to the search that proves it anew."""
        found: dict[str, Lesson] = {}
        for recalled in question.recalled.values():
            for lesson in recalled.lessons:
                if not any(isinstance(step.action, PatchCode) for step in lesson.plan.steps):
                    found.setdefault(lesson.id, lesson)
        lessons = sorted(found.values(), key=lambda lesson: -lesson.trust)
        return Offer(tuple(_of_lesson(lesson) for lesson in lessons))


def _of_lesson(lesson: Lesson) -> Candidate:
    why = f"it recovered this fault {lesson.recovered} times, failed {lesson.failed}; trust {lesson.trust:.2f}"
    actions = tuple(step.action for step in lesson.plan.steps)
    return Candidate(lesson.cause, actions, Basis(kind="lesson", ref=lesson.id, why=why))


class RunbookSource:
    """The structured actions of runbooks, the likeliest cause first."""

    async def offer(self, question: Question) -> Offer:
        """Every runbook of every cause; one without structured actions is for people and passed over."""
        books = [(cause, book) for cause, recalled in question.recalled.items() for book in recalled.runbooks]
        made = [_of_runbook(cause, book) for cause, book in books if not asks(book)]
        candidates = tuple(one for one in made if isinstance(one, Candidate))
        return Offer(candidates, rejected=tuple(one for one in made if isinstance(one, Alternative)))


def _of_runbook(cause: str, book: RunbookPlan) -> Candidate | Alternative:
    if not book.actions:
        return Alternative(summary=f"runbook {book.name}", why_not="it names no structured actions")
    try:
        actions = _ACTIONS.validate_python(book.actions)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in fault["loc"])
        return Alternative(summary=f"runbook {book.name}", why_not=f"its action {where}: {fault['msg']}")
    return Candidate(cause, actions, Basis(kind="runbook", ref=book.name, why=f"{book.title}: it names the cause {cause}"))
