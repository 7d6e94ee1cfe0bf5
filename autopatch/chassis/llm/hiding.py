"""Code without its secrets, for a model, and the secrets again in what it wrote."""

import re
from dataclasses import dataclass

from autopatch.chassis.redaction import redact
from autopatch.chassis.redaction_names import PLACEHOLDER


@dataclass(frozen=True)
class Hidden:
    """`text` may be shown. `secrets` are placeholders and what each stands for."""

    text: str
    secrets: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, code: str) -> "Hidden":
        """Every secret that redaction finds is hidden."""
        shown = redact(code)
        pieces, placeholders = PLACEHOLDER.split(shown), PLACEHOLDER.findall(shown)
        found = re.fullmatch("(.+?)".join(re.escape(piece) for piece in pieces), code, re.DOTALL)
        return cls(shown, tuple(dict(zip(placeholders, found.groups(), strict=True)).items()) if found else ())

    def restored(self, answer: str) -> str:
        """An answer in which the secrets stand again."""
        for placeholder, secret in self.secrets:
            answer = answer.replace(placeholder, secret)
        return answer


def left_over(before: str, after: str) -> bool:
    """Does a changed text hold a placeholder that it did not hold before: one that stands where a secret was?"""
    return not set(PLACEHOLDER.findall(after)) <= set(PLACEHOLDER.findall(before))
