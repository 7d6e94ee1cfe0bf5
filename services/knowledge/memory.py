"""What ended incidents left: outcomes, the lessons that they make, a document each. Written only from the log of an incident."""

from collections.abc import Callable, Sequence

from autopatch.chassis.clock import Clock
from autopatch.chassis.room import Heard
from autopatch.chassis.telemetry import span
from autopatch.contract import events as ev
from autopatch.contract.requests import Lesson, Recall, Recalled
from services.knowledge import agent
from services.knowledge.corpus import Corpus, point_id
from services.knowledge.ports import Point, Where

MOST_LESSONS = 3
MOST_RUNBOOKS = 8
MOST_WITHHELD = 10


class Memory:
    """Outcomes are points of a kind of their own, in a collection that no ingest writes to: no document can claim to be one."""

    def __init__(
        self, corpus: Corpus, clock: Clock, redact: Callable[[str], str], services: Callable[[str], set[str]],
        *, half_life_days: float, trust_bar: float,
    ) -> None:
        self._corpus = corpus
        self._clock = clock
        self._redact = redact
        self._services = services
        self._half_life_days = half_life_days
        self._trust_bar = trust_bar

    async def learn(self, heard: Heard) -> Sequence[ev.Event]:
        """Heard again, it writes the same points again, and says the same. Raises Unavailable: it will be asked again."""
        outcome = agent.outcome_of(heard.incident, heard.stored)
        ended = heard.incident.terminal and heard.incident.moved_by == heard.stored.envelope.event_id
        async with self._corpus.writing:
            if ended:
                await self._corpus.write("incidents", [self._summary(heard)])
            lesson = await self._record(outcome) if outcome else None
        if lesson and outcome:
            return [ev.LessonRecorded(
                lesson_id=lesson.id, signature=lesson.signature, outcome=outcome.result, trust=lesson.trust, summary=_line(lesson)
            )]
        if not ended:
            return []
        diagnosed = heard.incident.last(ev.Diagnosed)
        return [ev.LessonRecorded(
            lesson_id="", signature=diagnosed.signature if diagnosed else "", outcome=heard.event.name, trust=0.0,
            summary="kept as an incident; no fix was proven or refuted by this event",
        )]

    async def lessons(self, where: Where | None = None) -> list[Lesson]:
        """Every lesson, or those whose outcomes match; most trusted first."""
        only = {**(where.any_of if where else {}), "kind": ("outcome",)}
        points = await self._corpus.store.scroll("incidents", Where(only))
        outcomes = [agent.Outcome.model_validate(point.payload["outcome"]) for point in points]
        return agent.lessons(outcomes, self._clock.now(), self._half_life_days)

    async def recall(self, question: Recall) -> Recalled:
        """Lessons past the gates, what was withheld and why, runbooks that answer the cause."""
        with span("retrieval recall") as current:
            known = await self.lessons(Where({"signature": (question.signature,)}))
            seen = {lesson.id for lesson in known}
            known += [lesson for lesson in await self.lessons(Where({"cause": (question.cause,)})) if lesson.id not in seen]
            passed, withheld = agent.past_the_gates(known, question, self._trust_bar)
            books = agent.fitting(await self._corpus.runbooks(question.cause), question, self._services(question.target))
            current.set_attribute("gen_ai.operation.name", "retrieval")
            current.set_attribute("retrieval.lessons", [_line(lesson) for lesson in passed[:MOST_LESSONS]])
            current.set_attribute("retrieval.runbooks", [book.name for book in books[:MOST_RUNBOOKS]])
            current.set_attribute("retrieval.withheld", withheld[:MOST_WITHHELD])
        return Recalled(
            lessons=tuple(passed[:MOST_LESSONS]), runbooks=tuple(books[:MOST_RUNBOOKS]), withheld=tuple(withheld[:MOST_WITHHELD])
        )

    async def _record(self, outcome: agent.Outcome) -> Lesson:
        payload = {
            "kind": "outcome", "target": outcome.target, "signature": outcome.signature, "cause": outcome.cause,
            "lesson": outcome.lesson, "outcome": outcome.model_dump(mode="json"),
        }
        point = Point(point_id("outcome", outcome.incident, outcome.planned), f"{outcome.cause} {outcome.result}", payload)
        await self._corpus.write("incidents", [point])
        lesson = (await self.lessons(Where({"lesson": (outcome.lesson,)})))[0]
        shown = {
            "kind": "lesson", "target": lesson.target, "id": lesson.id, "title": f"{lesson.cause}: {lesson.plan.summary}",
            "signature": lesson.signature, "cause": lesson.cause, "lesson": lesson.id, "source": f"incident {outcome.incident}",
        }
        await self._corpus.write("incidents", [Point(point_id("lesson", lesson.id), self._redact(_line(lesson)), shown)])
        return lesson

    def _summary(self, heard: Heard) -> Point:
        incident, diagnosed = heard.incident, heard.incident.last(ev.Diagnosed)
        title, text = agent.summary_of(incident)
        payload = {
            "kind": "incident", "target": incident.target, "id": incident.id, "title": self._redact(title),
            "source": f"incident {incident.id}", "signature": diagnosed.signature if diagnosed else "",
        }
        return Point(point_id("incident", incident.id), self._redact(text), payload)


def _line(lesson: Lesson) -> str:
    return (
        f"{lesson.cause} on {lesson.target}: {lesson.plan.summary}; recovered {lesson.recovered}, failed {lesson.failed},"
        f" trust {lesson.trust:.2f}"
    )
