"""Compares with what Alertmanager holds: lost webhooks are found, alerts that are gone get cleared, silences become known."""

import asyncio
from collections import OrderedDict
from datetime import timedelta

import structlog

from autopatch.chassis.alertmanager import HeldAlert
from autopatch.contract.errors import AutoPatchError
from services.monitor import agent
from services.monitor.adapters.sources import edge
from services.monitor.agent import Told
from services.monitor.ingest import Ingest
from services.monitor.ports import HeldAlerts, MonitorChassis

log = structlog.get_logger("monitor")
UNSET = "no address of Alertmanager is set: lost webhooks are not found and silences are not known"
REMEMBERED = 10_000


class Reconciliation:
    """The background loop. `problem` says why it does not work, '' while it does."""

    def __init__(
        self, chassis: MonitorChassis, ingest: Ingest, alertmanager: HeldAlerts | None, *, interval_s: float, grace_s: float
    ) -> None:
        self._chassis = chassis
        self._ingest = ingest
        self._alertmanager = alertmanager
        self._interval = timedelta(seconds=interval_s)
        self._grace = timedelta(seconds=grace_s)
        self._wanted = asyncio.Event()
        self._finished: OrderedDict[tuple[str, str], None] = OrderedDict()
        self.problem = "" if alertmanager else UNSET

    def now(self) -> None:
        """Compare at once: a webhook said that it left alerts out."""
        self._wanted.set()

    async def run(self) -> None:
        """Until cancelled; ends at once when there is nothing to compare with."""
        if self._alertmanager is None:
            log.warning(UNSET, tip="set AUTOPATCH_MONITOR_ALERTMANAGER_URL")
            return
        while True:
            try:
                await self.once(self._alertmanager)
                self._say("")
            except AutoPatchError as error:
                self._say(str(error))
            waiting = asyncio.create_task(self._wanted.wait())
            sleeping = asyncio.create_task(self._chassis.clock.sleep(self._interval.total_seconds()))
            try:
                await asyncio.wait((waiting, sleeping), return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiting.cancel()
                sleeping.cancel()

    async def once(self, alertmanager: HeldAlerts) -> None:
        """One comparison. Raises Unavailable; what was compared until then stands."""
        self._wanted.clear()
        status, now = await alertmanager.status(), self._chassis.clock.now()
        told = await asyncio.to_thread(self._told, await alertmanager.alerts())
        await self._ingest.take(told, {})
        if status.cluster.status != "settling" and now - status.started_at >= self._grace:
            held = {one.alert.identity for one in told}
            for target in self._chassis.targets.all():
                await self._clear(target.name, held)

    def _told(self, alerts: tuple[HeldAlert, ...]) -> tuple[Told, ...]:
        now = self._chassis.clock.now()
        return tuple(edge.held(alert, now) for alert in alerts)

    async def _clear(self, target: str, held: set[str]) -> None:
        """Alerts of a target that fire by our log and are gone by Alertmanager's answer; young ones may be on their way."""
        for identity, incident_id in (await self._known(target)).items():
            key = (incident_id, identity)
            if identity in held:
                self._finished.pop(key, None)
                continue
            if key in self._finished:
                continue
            incident, now = await self._chassis.log.load(incident_id), self._chassis.clock.now()
            if agent.finished(incident, identity):
                self._finished[key] = None
                while len(self._finished) > REMEMBERED:
                    self._finished.popitem(last=False)
            elif agent.gone(incident, identity, now, 2 * self._interval):
                await self._ingest.settle(target, agent.missing(incident, identity, now), {})

    async def _known(self, target: str) -> dict[str, str]:
        """Alerts and their newest incidents: of those that the record has forgotten, the ones that its incident holds."""
        record, _ = await self._chassis.records.get(target)
        known = {identity: episode.incident_id for identity, episode in record.episodes.items()}
        if record.open_incident:
            held = agent.told_of(await self._chassis.log.load(record.open_incident))
            known = dict.fromkeys(held, record.open_incident) | known
        return known

    def _say(self, problem: str) -> None:
        if problem and problem != self.problem:
            log.warning("reconciliation does not work", error=problem)
        elif self.problem and not problem:
            log.info("reconciliation works again")
        self.problem = problem


