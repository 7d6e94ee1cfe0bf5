"""What a model is asked, and what of its answer counts. It can reorder what is open and explain; it adds nothing."""

from typing import Any, Literal

from pydantic import BaseModel, Field, create_model

from autopatch.chassis.llm.prompt import Prompt, PromptFile, Untrusted
from autopatch.chassis.redaction import redact
from autopatch.contract.evidence import Evidence
from services.diagnosis.agent import Draft, reordered

LONGEST = 600
SHOWN = 12
"""Items of evidence in a prompt; a small model reads 87 tokens a second."""


class Ranking(BaseModel):
    """An answer of the model. The ids are held to the lists that it was shown."""

    order: list[str] = Field(min_length=1, max_length=5)
    cites: list[str] = Field(max_length=5)
    explanation: str


def answer_for(found: Draft) -> type[Ranking]:
    """Ranking, with the ids that are shown as the only ones."""
    causes: Any = Literal[found.undecided]
    ids: Any = Literal[tuple(e.id for e in shown(found))]
    order, cites = (list[causes], Field(min_length=1, max_length=5)), (list[ids], Field(max_length=5))
    return create_model("Ranking", __base__=Ranking, order=order, cites=cites)


def shown(found: Draft) -> list[Evidence]:
    """What the open causes cite first, then what is left, as it comes."""
    cited = list(dict.fromkeys(id_ for cause in found.causes[: found.head] for id_ in cause.cites))
    order = sorted(found.evidence, key=lambda e: cited.index(e.id) if e.id in cited else len(cited))
    return [e for e in order if e.status == "value"][:SHOWN]


def prompt(file: PromptFile, found: Draft, max_tokens: int) -> Prompt:
    """Raises PromptTooLong."""
    head = found.causes[: found.head]
    seen = "\n".join(f"{e.id} {e.source}: {e.summary[:180]}" for e in shown(found))
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
