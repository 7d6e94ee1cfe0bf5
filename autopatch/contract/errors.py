"""Every error that AutoPatch raises on purpose, by whom it blames.

AutoPatchError
├── OperatorError     a file, field or command of the operator's is wrong; names it and the remedy
├── Unavailable       a server, engine or file that we need is missing: nothing is done, waited for, then escalated
├── Refused           a guard said no: nothing was done
│   └── StaleTarget   the target is not what the plan was made for; nothing was changed
├── Conflict          somebody else wrote to this incident or record first: reload and decide again
└── ContractError     bytes, an event or a transition that the contract does not know
"""


class AutoPatchError(Exception):
    """What happened, and in `tip` what to try."""

    def __init__(self, message: str, *, tip: str = "") -> None:
        super().__init__(message)
        self.tip = tip

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message} ({self.tip})" if self.tip else message


class OperatorError(AutoPatchError):
    """The operator's mistake; the message names file, line or field."""


class Unavailable(AutoPatchError):
    """`service` is missing or does not answer; the work waits for it."""

    def __init__(self, service: str, reason: str, *, tip: str = "") -> None:
        super().__init__(f"{service}: {reason}", tip=tip)
        self.service = service
        self.reason = reason


class Refused(AutoPatchError):
    """A guard said no; nothing was done."""


class StaleTarget(Refused):
    """The target is not in the state that the plan was made for; nothing was changed."""


class Conflict(AutoPatchError):
    """Another writer was first."""


class ContractError(AutoPatchError):
    """Not a word of this contract, or not legal here."""
