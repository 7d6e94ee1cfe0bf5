"""What comes of a model's answer: changed files, or an error that a model can act on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from autopatch.contract.errors import AutoPatchError

Kind = Literal["format", "unchanged", "path", "ambiguous", "missing", "already_applied", "syntax", "forbidden"]
"""`format`: no edit in it, or one without effect; `unchanged`: the function as it was; `path`: no such file;
`ambiguous`: fits several places; `missing`: fits none; `already_applied`: the file already reads so, nothing to do;
`syntax`: would no longer parse; `forbidden`: not ours to touch."""


class EditError(AutoPatchError):
    """An answer that cannot be applied; nothing was changed. `str()` is one line for a person, `feedback` is for the model."""

    def __init__(self, kind: Kind, message: str, *, feedback: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.feedback = feedback or message


@dataclass(frozen=True)
class Edited:
    """New contents by path, and what a reader should know: how loosely text was matched, definitions that disappeared."""

    changes: Mapping[str, bytes]
    notes: tuple[str, ...] = ()
