"""The model as a source of candidates: a greedy answer for each suspicious function, then sampled ones for the likeliest."""

from collections.abc import Sequence
from dataclasses import dataclass

from autopatch.chassis.llm.errors import BudgetSpent, PromptTooLong, Unreadable
from autopatch.chassis.llm.fence import unmarked
from autopatch.chassis.llm.hiding import left_over
from autopatch.chassis.llm.ledger import Ledger
from autopatch.chassis.llm.port import Llm, Written
from autopatch.chassis.llm.tokens import CHAT_OVERHEAD, estimate
from autopatch.chassis.redaction import redact
from autopatch.chassis.telemetry import span
from autopatch.contract.code import Place
from autopatch.repair.applying import Edited, EditError, apply_answer
from autopatch.repair.localise import reduced_case
from services.planner.adapters.gate.candidate import Candidate, Tried, key_of
from services.planner.adapters.gate.case import Case, Ground, without
from services.planner.adapters.gate.trials import Gate
from services.planner.adapters.synthesis.prompting import Prompts, Size, Task
from services.planner.adapters.gate.tally import Tally, lines

ANSWERS = 4
"""To a round's tasks, corrections not counted."""
TEMPERATURE = 0.8
FORMAT_FAILURES = 3
"""So many answers in a row that cannot be applied end the asking."""
STOP = ("\nUser:", "\n<|im_start|>")
"""Small models invent the next turn."""


@dataclass(frozen=True)
class Answer:
    """What the model wrote for a task, and what came of it: a run, or why there was none."""

    task: Task
    text: str
    tried: Tried | None
    fault: str

    def nearer(self, ground: Ground) -> bool:
        """Worth another word: it could not be applied, or it left fewer tests failing than there were."""
        return self.tried is None or len(self.tried.failing) < len(ground.failing)


class Writer:
    """One incident's model. What it writes is never trusted: it is applied or refused, run and judged like any edit."""

    def __init__(self, llm: Llm, case: Case, gate: Gate, tally: Tally, budget: Ledger, prompts: Prompts, size: Size) -> None:
        self._llm, self._case, self._gate, self._tally, self._budget = llm, case, gate, tally, budget
        self._prompts, self._size = prompts, size
        self._known = set(case.failed)
        self._in_a_row = 0
        self._over = False

    @property
    def speechless(self) -> bool:
        """It was asked, and not one of its answers could be applied."""
        return self._tally.unreadable >= FORMAT_FAILURES and not self._tally.applied

    async def offer(self, ground: Ground, similar: Sequence[Place] = ()) -> list[Tried]:
        """What passed the whole suite; `similar` code is shown where there is room.

        Raises Unavailable when nothing answers, or the sandbox is away.
        """
        rejected = len(self._tally.rejected)
        with span("ask the model for a fix", failing=len(ground.failing)) as current:
            try:
                passed = await self._asked(ground, similar)
            except (BudgetSpent, PromptTooLong, Unreadable) as error:
                self._over = True
                self._tally.notes.append(str(error))
                passed = []
            current.set_attribute("answers", self._tally.answers)
            current.set_attribute("answers.passed", len(passed))
            current.set_attribute("alternatives.rejected", lines(self._tally.rejected[rejected:]))
        return passed

    async def _asked(self, ground: Ground, similar: Sequence[Place]) -> list[Tried]:
        """Greedy for each function, then samples of the likeliest; one by one where writing is slow, so that none is wasted."""
        if self._over:
            return []
        tasks = self._prompts.tasks(self._case, ground, self._size, similar)[:ANSWERS]
        turns = [(task, 0) for task in tasks] + [(tasks[0], number) for number in range(1, ANSWERS + 1 - len(tasks))]
        passed = await self._wave(ground, turns[:1], first=True)
        left = turns[1:]
        while left and not passed and not self._over:
            at_once = 1 if self._llm.mode == "local" or self._in_a_row else len(left)
            passed = await self._wave(ground, left[:at_once])
            left = left[at_once:]
        return passed

    async def _wave(self, ground: Ground, turns: Sequence[tuple[Task, int]], *, first: bool = False) -> list[Tried]:
        """Answers, their runs, and for what failed one more answer that knows why: the very first, and what came nearer."""
        answers: list[Answer] = []
        for task in dict.fromkeys(task for task, _ in turns):
            wanted = [number for one, number in turns if one is task]
            written = await self._write(task, wanted[0], len(wanted))
            answers += await self._tried(ground, task, written)
        passed = [one.tried for one in answers if one.tried and one.tried.passed]
        for answer in answers:
            if passed or self._over:
                break
            if answer.fault and (first or answer.nearer(ground)):
                passed = await self._corrected(ground, answer)
        return passed

    async def _corrected(self, ground: Ground, answer: Answer) -> list[Tried]:
        """One more answer in the same conversation."""
        room = self._size.prompt_tokens - answer.task.prompt.tokens - estimate(answer.text) - 2 * CHAT_OVERHEAD
        said = self._prompts.again(answer.fault, room)
        written = await self._write(answer.task, 0, 1, then=(answer.text, said))
        again = await self._tried(ground, answer.task, written)
        return [one.tried for one in again if one.tried and one.tried.passed]

    async def _write(self, task: Task, start: int, samples: int, then: Sequence[str] = ()) -> Sequence[Written]:
        return await self._llm.write(
            task.prompt, incident=self._case.incident.id, budget=self._budget, samples=samples, start=start,
            temperature=TEMPERATURE, max_tokens=self._size.answer_tokens, stop=STOP, then=then,
        )

    async def _tried(self, ground: Ground, task: Task, written: Sequence[Written]) -> list[Answer]:
        """Applied, held against what is known already, and run together."""
        answers: list[Answer] = []
        ready: dict[str, str] = {}
        candidates: list[Candidate] = []
        for one in written:
            if self._over:
                break
            made = self._applied(ground, task, one)
            if isinstance(made, Candidate):
                candidates.append(made)
                ready[made.id] = one.text
            else:
                answers.append(Answer(task, one.text, None, made))
        for tried in await self._run(candidates):
            answers.append(Answer(task, ready[tried.candidate.id], tried, self._fault(ground, tried)))
        return answers

    def _applied(self, ground: Ground, task: Task, written: Written) -> Candidate | str:
        """The candidate, or what is to be told to the model; '' when telling it would be of no use."""
        number = self._tally.answers = self._tally.answers + 1
        name = Candidate(f"m{number}", {}, "model", self._llm.model, f"answer {number}")
        text = task.hidden.restored(unmarked(written.text))
        try:
            edited = apply_answer(text, ground.tree, task.shown, function=task.function, span=task.span)
        except EditError as error:
            if error.kind == "unchanged":  # it sees no fault there; asked again it would say so again
                self._tally.repeats += 1
                self._tally.reject(name, str(error))
                return ""
            self._tally.unreadable += 1
            self._in_a_row += 1
            self._over = self._in_a_row >= FORMAT_FAILURES
            self._tally.reject(name, f"{error.kind}: {error}{' (its answer was cut off)' if written.cut else ''}")
            return f"Your answer was too long and was cut off. {error.feedback}" if written.cut else error.feedback
        self._in_a_row = 0
        self._tally.applied += 1
        changes = {**ground.changes, **edited.changes}
        files = ", ".join(sorted(edited.changes))
        candidate = Candidate(name.id, changes, "model", self._llm.model, f"{name.description} in {files}")
        key = key_of(changes)
        if key in self._known:
            self._tally.repeats += 1
            self._tally.reject(candidate, "the same was tried before")
            return ""
        self._known.add(key)
        refused = self._gate.refused(candidate) or _placeholder(ground, edited)
        if refused:
            self._tally.reject(candidate, refused)
        return refused or candidate

    async def _run(self, candidates: Sequence[Candidate]) -> list[Tried]:
        """Against the failing tests, and those that pass against all."""
        screened = await self._gate.screen(candidates) if candidates else []
        self._tally.saw(screened)
        passed = await self._gate.confirm([one for one in screened if one.passed])
        done = [one for one in screened if not one.passed] + passed
        self._tally.sift(done)
        return done

    def _fault(self, ground: Ground, tried: Tried) -> str:
        """The failure that is left, reduced; '' when it passed."""
        if tried.passed:
            return ""
        left = without(self._case.baseline, tried.failing)
        reduced = reduced_case(ground.tree, tried.report, left) if tried.failing else None
        return redact(reduced.text() if reduced else tried.why)[:1500] or "the tests still fail"


def _placeholder(ground: Ground, edited: Edited) -> str:
    """A secret's placeholder that cannot be put back must not take the secret's place."""
    for path, data in edited.changes.items():
        if left_over(ground.tree.get(path, b"").decode(errors="replace"), data.decode(errors="replace")):
            return f"a placeholder stands in {path} where a secret was"
    return ""
