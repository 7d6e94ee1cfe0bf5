"""What a model is asked, and what of its answer counts. It can reorder what is open and explain; it adds nothing."""

from typing import Any, Literal

from pydantic import BaseModel, Field, create_model

from autopatch.chassis.llm.prompt import Prompt, PromptFile, Untrusted
from autopatch.chassis.redaction import redact
from services.diagnosis.agent import Draft, reordered

LONGEST = 600


class Ranking(BaseModel):
    """An answer of the model. The ids are held to the lists that it was shown."""

    order: list[str] = Field(min_length=1, max_length=10)
    cites: list[str] = Field(default_factory=list, max_length=8)
    explanation: str = Field(max_length=1200)


def answer_for(found: Draft) -> type[Ranking]:
    """Ranking, with the ids of this diagnosis as the only ones."""
    causes: Any = Literal[found.undecided]
    ids: Any = Literal[tuple(e.id for e in found.evidence)]
    return create_model(
        "Ranking", __base__=Ranking, order=(list[causes], Field(min_length=1, max_length=10)),
        cites=(list[ids], Field(default_factory=list, max_length=8)),
    )


def prompt(file: PromptFile, found: Draft, max_tokens: int) -> Prompt:
    """Cited evidence first, so that what a cut takes away matters least. Raises PromptTooLong."""
    head = found.causes[: found.head]
    cited = list(dict.fromkeys(id_ for cause in head for id_ in cause.cites))
    order = sorted(found.evidence, key=lambda e: (cited.index(e.id) if e.id in cited else len(cited), e.id))
    seen = "\n".join(f"{e.id} {e.source}: {e.summary}" for e in order if e.status == "value")
    causes = "\n".join(f"{c.id} {c.confidence:.0%} ({', '.join(c.cites)}): {c.summary}" for c in head)
    values: dict[str, str | Untrusted] = {
        "target": found.facts.target, "check": found.facts.check, "onset": found.facts.onset.isoformat(timespec="seconds"),
        "causes": causes, "evidence": Untrusted(redact(seen), keep="head"),
        "missing": ", ".join(m.partition(":")[0] for m in found.missing) or "nothing", "count": str(found.head),
    }
    return file.render(values, max_tokens=max_tokens)


def taken(found: Draft, answer: Ranking) -> tuple[Draft, str]:
    """The draft in the model's order, and its explanation with the evidence it cites."""
    known = {e.id for e in found.evidence}
    cites = [c for c in dict.fromkeys(answer.cites) if c in known]
    text = redact(" ".join(answer.explanation.split()))
    tail = f" [{', '.join(cites)}]" if cites else ""
    return reordered(found, answer.order), text[: LONGEST - len(tail)] + tail
