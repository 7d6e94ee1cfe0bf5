"""Who may use the cores while a soak is measured."""

from collections.abc import Sequence
from datetime import datetime


class FreeCores:
    """No model computes on this machine, so nothing has to be kept quiet."""

    async def begin_measuring(self, incident_id: str) -> datetime | None:
        """At once."""
        return None

    async def end_measuring(self, incident_id: str) -> None:
        """Nothing to give back."""

    def measured(self) -> Sequence[str]:
        """None is ever kept."""
        return ()
