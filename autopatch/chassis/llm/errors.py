"""What a model call ends in when it is not an answer.

AutoPatchError
├── Unavailable       (contract) no model file, no endpoint, a wrong key, no answer in time: wait and ask again, or go on without
├── Unreadable        the endpoint answered, twice, and neither reply was an answer of the wanted type: go on without
├── PromptTooLong     the fixed part of a prompt leaves no space for the text it is about
└── Refused           (contract)
    └── BudgetSpent   the incident's budget does not cover this call: it was not made
"""

from autopatch.contract.errors import AutoPatchError, Refused


class Unreadable(AutoPatchError):
    """No answer of the wanted type can be read from what the model said. The message never quotes the model."""


class PromptTooLong(AutoPatchError):
    """A prompt does not fit under its token cap however much is left out."""


class BudgetSpent(Refused):
    """`limit` names what is used up: calls, tokens, seconds or cost_usd."""

    def __init__(self, incident: str, limit: str, message: str) -> None:
        super().__init__(f"model budget of incident {incident}: {message}", tip=f"raise AUTOPATCH_LLM_LIMITS__{limit.upper()}")
        self.incident = incident
        self.limit = limit
