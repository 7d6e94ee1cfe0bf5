"""Is an incident's alert silenced? Asked of Alertmanager at that moment; what cannot be known is said to be unknown."""

from datetime import timedelta

from autopatch.contract.errors import Unavailable
from autopatch.contract.requests import Silenced, SilenceState
from services.monitor.adapters.sources import edge
from services.monitor.ports import HeldAlerts, MonitorChassis


class Silences:
    """Answers the request `Silenced`."""

    def __init__(self, chassis: MonitorChassis, alertmanager: HeldAlerts | None, grace_s: float) -> None:
        self._chassis = chassis
        self._alertmanager = alertmanager
        self._grace = timedelta(seconds=grace_s)

    async def answer(self, request: Silenced) -> SilenceState:
        """`active` only when Alertmanager says so, or when the alert has nothing to do with Alertmanager."""
        incident = await self._chassis.log.load(request.incident_id)
        if not incident.log:
            return SilenceState(status="unknown", reason="no such incident")
        alert = incident.opened.alert
        if alert is None:
            return SilenceState(status="active", reason="the incident has no alert")
        foreign = alert.source in ("grafana", "watch")
        if self._alertmanager is None:
            if foreign:
                return SilenceState(status="active", reason="no Alertmanager configured")
            return SilenceState(status="unknown", reason="the alert came from Alertmanager, whose address is not configured")
        try:
            return await self._ask(self._alertmanager, alert.identity, foreign)
        except Unavailable as error:
            return SilenceState(status="unknown", reason=str(error)[:300])

    async def _ask(self, alertmanager: HeldAlerts, identity: str, foreign: bool) -> SilenceState:
        now = self._chassis.clock.now()
        for alert in await alertmanager.alerts():
            told = edge.held(alert, now)
            if told.alert.identity == identity:
                by = ", ".join((*alert.status.silenced_by, *alert.status.inhibited_by))
                if told.alert.silenced:
                    return SilenceState(status="silenced", reason=f"suppressed by {by}")
                return SilenceState(status="active")
        if foreign:
            return SilenceState(status="active", reason="the alert did not come from Alertmanager")
        server = await alertmanager.status()
        if server.cluster.status == "settling" or now - server.started_at < self._grace:
            return SilenceState(status="unknown", reason="Alertmanager has just started and may not know the alert yet")
        return SilenceState(status="active", reason="Alertmanager does not hold the alert any more")
