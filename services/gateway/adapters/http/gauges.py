"""What /metrics says of the whole log: how many incidents wait for a person, and how long stages took since the alert."""

from datetime import datetime

from autopatch.chassis.clock import Clock
from autopatch.chassis.metrics import APPROVALS, STAGE
from autopatch.contract import events as ev
from autopatch.contract.errors import Unavailable
from autopatch.contract.lifecycle import State, Stored
from services.gateway.ports import FollowedLog

STAGES = (ev.Opened, ev.Reproduced, ev.Diagnosed, ev.Planned, ev.Rehearsed, ev.Applying, ev.Applied, ev.Recovered)
RETRY_S = 2.0


class Gauges:
    """Reads the log from its beginning, so that a restart knows who waits; earlier durations are not counted again."""

    def __init__(self, log: FollowedLog, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._since = clock.now()
        self._awaiting: set[str] = set()
        self._begun: dict[str, datetime] = {}
        self._sequence = 0

    async def run(self) -> None:
        """Until cancelled; a log that is away is waited for."""
        while True:
            try:
                async for stored in self._log.follow(self._sequence):
                    await self._heard(stored)
                    self._sequence = stored.sequence
            except Unavailable:
                pass
            await self._clock.sleep(RETRY_S)

    async def _heard(self, stored: Stored) -> None:
        envelope = stored.envelope
        event, name = envelope.data, envelope.incident_id
        if isinstance(event, ev.Opened):
            self._begun[name] = event.alert.starts_at if event.alert else envelope.at
        if isinstance(event, STAGES) and name in self._begun and envelope.at >= self._since:
            STAGE.labels(event.name).observe((envelope.at - self._begun[name]).total_seconds())
        if isinstance(event, ev.ApprovalRequested):
            self._awaiting.add(name)
        if name in self._awaiting and (await self._log.load(name)).state is not State.AWAITING:
            self._awaiting.discard(name)
        APPROVALS.set(len(self._awaiting))
