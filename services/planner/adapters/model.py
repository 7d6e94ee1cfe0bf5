"""A model as the last source: it fills in the fields of one allowed action, and is checked like any other source."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, create_model, field_validator

from autopatch.chassis.llm.errors import BudgetSpent, PromptTooLong, Unreadable
from autopatch.chassis.llm.ledger import Ledger
from autopatch.chassis.llm.port import Llm
from autopatch.chassis.llm.prompt import PromptFile, Untrusted
from autopatch.chassis.llm.settings import Limits
from autopatch.chassis.redaction import redact
from autopatch.contract.actions import Action, Reload, Restart, RollbackRelease, Scalar, SetConfig
from autopatch.contract.evidence import ModelUse
from autopatch.contract.lifecycle import Incident
from autopatch.contract.plan import Alternative, Basis
from autopatch.contract.target import Bounds
from services.planner.binding import Unfit, bind
from services.planner.ports import Candidate, Offer, Question

Spent = Callable[[Incident], Sequence[ModelUse]]
TRIES = 2
LAST_RESORTS = {
    "reload": "only if a file was edited and not read since",
    "restart": "only if the process itself is stuck or leaks",
}
PROMPT = Path(__file__).parents[1] / "prompts" / "plan.md"


class Proposal(BaseModel):
    """An answer of the model: the reason first, so that the action follows from it. `setting` is file:key."""

    cause: str
    why: str = Field(default="", max_length=300)
    action: str
    setting: str = ""
    value: str = Field(default="", max_length=100)
    release: str = ""

    @field_validator("value", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        return str(value).lower() if isinstance(value, bool) else str(value) if isinstance(value, int | float) else value


class ModelSource:
    """Asks once, and once more with what was wrong with the first answer. `spent` tells what other sources took meanwhile."""

    def __init__(self, llm: Llm, limits: Limits, prompt_tokens: int, spent: Spent = lambda _: ()) -> None:
        self._llm, self._limits, self._tokens, self._spent = llm, limits, prompt_tokens, spent
        self._prompt = PromptFile.read(PROMPT)

    async def offer(self, question: Question) -> Offer:
        """At most one candidate, which binds. Raises Unavailable when the model cannot be reached."""
        budget = Ledger.of(question.incident, self._limits, earlier=self._spent(question.incident))
        rejected: list[Alternative] = []
        for _ in range(TRIES):
            try:
                answer = await self._ask(question, rejected, budget)
                candidate = _candidate(question, answer, self._llm.model)
            except (Unreadable, BudgetSpent, PromptTooLong, Unfit) as error:
                rejected.append(Alternative(summary=f"the model {self._llm.model}", why_not=str(error)))
                if not isinstance(error, Unfit):
                    break
                continue
            bound = bind(question, candidate)
            if not isinstance(bound, Alternative):
                use = budget.use(mode=self._llm.mode, note="no lesson and no runbook fitted")
                return Offer((candidate,), use, tuple(rejected))
            rejected.append(bound)
        return Offer((), budget.use(mode=self._llm.mode, note="its answers were not used"), tuple(rejected))

    async def _ask(self, question: Question, rejected: Sequence[Alternative], budget: Ledger) -> Proposal:
        seen, tried = redact(_seen(question)), redact(_tried(question, rejected))
        values: dict[str, str | Untrusted] = {
            "target": question.target.name, "check": _check(question), "allowed": _allowed(question),
            "seen": Untrusted(seen, keep="head"), "tried": Untrusted(tried, keep="tail"),
        }
        prompt = self._prompt.render(values, max_tokens=self._tokens)
        decision = await self._llm.decide(prompt, answer_for(question), incident=question.incident.id, budget=budget)
        return decision.answer


def answer_for(question: Question) -> type[Proposal]:
    """Proposal with the settings, releases and causes of this question as the only ones."""
    def one_of(values: Sequence[str]) -> Any:
        return Literal[tuple(values)]

    return create_model(
        "Proposal", __base__=Proposal,
        action=(one_of([*_kinds(question), "none"]), ...),
        setting=(one_of(["", *_settings(question)]), ""),
        release=(one_of(["", *_releases(question)]), ""),
        cause=(one_of([cause.id for cause in question.diagnosed.causes]), ...),
    )


def _candidate(question: Question, answer: Proposal, model: str) -> Candidate:
    """Raises Unfit when the model found nothing, or left out what its action needs."""
    why = redact(" ".join(answer.why.split()))[:300]
    basis = Basis(kind="model", ref=model, why=why or "the model gave no reason")
    return Candidate(answer.cause, (_action(question, answer),), basis)


def _action(question: Question, answer: Proposal) -> Action:
    match answer.action:
        case "set_config":
            bounds = _settings(question).get(answer.setting)
            if bounds is None:
                raise Unfit("set_config needs a setting")
            file, _, key = answer.setting.partition(":")
            return SetConfig(file=file, key=key, value=_value(answer.setting, answer.value, bounds))
        case "reload":
            return Reload()
        case "restart":
            return Restart()
        case "rollback_release":
            return RollbackRelease(release=answer.release)
        case _:
            raise Unfit(f"it found no action that would help: {redact(answer.why)[:200]}")


def _value(setting: str, text: str, bounds: Bounds) -> Scalar:
    try:
        match bounds.type:
            case "int":
                return int(text)
            case "float":
                return float(text)
            case "bool":
                return {"true": True, "false": False}[text.strip().lower()]
            case "str":
                return text
    except (ValueError, KeyError) as error:
        raise Unfit(f"the value of {setting} must be {bounds.type}, not {text[:40]!r}") from error


def _settings(question: Question) -> dict[str, Bounds]:
    """What may be set and is set now, by file:key."""
    present = {(config.file, key) for config in question.state.configs for key in config.values}
    if question.target.source_of_truth == "git":
        return {}
    return {
        f"{file.name}:{key}": bounds for file in question.target.configs for key, bounds in file.editable.items()
        if (file.name, key) in present
    }


def _releases(question: Question) -> list[str]:
    return [release for release in question.state.releases if release != question.state.release]


def _kinds(question: Question) -> list[str]:
    runtime = question.target.runtime
    allowed = {
        "set_config": bool(_settings(question)), "reload": bool(runtime.reload_signal or runtime.reload_url), "restart": True,
        "rollback_release": bool(_releases(question)),
    }
    return [kind for kind, possible in allowed.items() if possible]


def _check(question: Question) -> str:
    signal = question.target.signals[question.signal]
    return f"{question.signal}, bad when {signal.bad} {signal.threshold:g} {signal.unit}".strip()


def _allowed(question: Question) -> str:
    """One line per possibility; those that change nothing by themselves come last."""
    values = {(config.file, key): value for config in question.state.configs for key, value in config.values.items()}
    lines = []
    for name, bounds in _settings(question).items():
        file, _, key = name.partition(":")
        lines.append(f"- set_config {name}: {_room(values[file, key], bounds)}")
    lines += [f"- rollback_release to {release} (now {question.state.release})" for release in _releases(question)]
    lines += [f"- {kind}: {text}" for kind, text in LAST_RESORTS.items() if kind in _kinds(question)]
    return "\n".join(lines)


def _room(now: Scalar, bounds: Bounds) -> str:
    """What a setting may become. Shown one range, a small model answers with the present value."""
    if bounds.choices:
        return f"one of {', '.join(c for c in bounds.choices if c != str(now))}"
    if isinstance(now, bool):
        return str(not now).lower()
    if isinstance(now, int | float) and bounds.type in ("int", "float"):
        least = "" if bounds.min is None else f", at least {bounds.min:g}"
        most = "" if bounds.max is None else f", at most {bounds.max:g}"
        return f"{bounds.type}, now {now}; raise it above {now}{most}; or lower it below {now}{least}"
    return f"{bounds.type}, now {redact(repr(now))[:60]}"


def _seen(question: Question) -> str:
    diagnosed, shown = question.diagnosed, {e.id: e for e in question.diagnosed.evidence}
    lines = []
    for cause in diagnosed.causes:
        lines.append(f"{cause.id} ({cause.confidence:.0%}): {cause.summary}")
        lines += [f"  {shown[ref].source}: {shown[ref].summary}" for ref in cause.cites if ref in shown]
    return "\n".join(lines)


def _tried(question: Question, rejected: Sequence[Alternative]) -> str:
    lines = [f"{failure.plan.summary}: {failure.why}" for failure in question.failures]
    lines += [f"{other.summary}: not possible, {other.why_not}" for other in rejected]
    return "\n".join(lines) or "nothing yet"
