"""How a repair job ended, from its incident's events alone."""

from autopatch.contract.code import RepairVerdict
from autopatch.contract.lifecycle import Incident


def verdict_of(incident: Incident, trace: str = "") -> RepairVerdict | None:
    """The verdict; None while the incident is open. Raises ContractError for an incident that is no code job."""
    raise NotImplementedError
