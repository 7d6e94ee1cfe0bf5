"""Wires the validator: measures on `opened`, watches after `applied`, answers rechecks."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, cast

from autopatch.chassis.chassis import Chassis
from autopatch.chassis.llm import cores as llm
from autopatch.chassis.probe import HttpHealth
from autopatch.chassis.room import Heard, RetryLater, Room
from autopatch.chassis.sources import PrometheusSources
from autopatch.chassis.telemetry import span
from autopatch.contract import events as ev
from autopatch.contract.errors import Conflict, Unavailable
from autopatch.contract.evidence import Measurement
from autopatch.contract.lifecycle import Incident, State
from autopatch.contract.requests import Recheck, Rechecked
from autopatch.contract.target import Signal, Target
from services.validator import agent
from services.validator.adapters.cores import FreeCores, LeasedCores
from services.validator.adapters.defects.jobs import Jobs
from services.validator.adapters.sources import measuring
from services.validator.ports import Cores, Health, Sources
from services.validator.ranks import Rule
from services.validator.settings import Settings
from services.validator.soak import Soak

SOAK = "soak"
RELEASE_S = 5.0
CLOSES = (State.REHEARSED, State.APPROVED)
"""Where a green recheck ends the incident."""


def build(
    settings: Settings, chassis: Chassis, *, sources: Sources | None = None, health: Health | None = None,
    cores: Cores | None = None,
) -> Room:
    """The validator on real parts, or on those that are given."""
    validator = Validator(
        settings, chassis, sources or PrometheusSources(), health or HttpHealth(settings.health_timeout_s),
        cores or _cores(settings, chassis),
    )
    return Room(
        name="validator",
        handlers={
            ev.Opened: validator.reproduce, ev.Reopened: validator.reproduce, ev.Applied: validator.watch,
            ev.Inconclusive: validator.watch,
        },
        timers={SOAK: validator.soaked},
        responders={Recheck: validator.recheck},
        background=(validator.release,),
        on_start=(validator.warm_up,),
        on_stop=(validator.sources.aclose, validator.health.aclose, validator.let_go),
    )


def _cores(settings: Settings, chassis: Chassis) -> Cores:
    async def of_this_machine() -> llm.Cores:
        return llm.LeasedCores(llm.KvStore(await cast(Any, chassis).leases.kv()))

    return LeasedCores(of_this_machine, chassis.clock) if settings.share_cores else FreeCores()


class Validator:
    """The handlers."""

    def __init__(self, settings: Settings, chassis: Chassis, sources: Sources, health: Health, cores: Cores) -> None:
        self.settings = settings
        self.chassis = chassis
        self.sources = sources
        self.health = health
        self.cores = cores
        self.jobs = Jobs(chassis)
        self.rule = Rule(settings.blocks, settings.alpha, settings.min_effect, settings.min_traffic)

    async def warm_up(self) -> None:
        """Makes the clients before the first alert; one that cannot be made is tried again when it is needed."""
        for target in self.chassis.targets.all():
            with suppress(Unavailable):
                self.sources.of(target)

    async def reproduce(self, heard: Heard) -> Sequence[ev.Event]:
        """Is the check red now? Without data nothing is said; it is asked again."""
        incident = heard.incident
        if incident.opened.job:
            return await self.jobs.reproduce(heard)
        target, alert = self._target(incident), incident.opened.alert
        check = target.check_for(alert.alertname) if alert else None
        if check is None:
            return (agent.no_check(target, alert),)
        color, why, seen = await self._look(target, alert, check)
        if color == "unknown":
            raise RetryLater(self.settings.retry_s, on="prometheus", reason=why)
        if color == "green":
            return (ev.NotReproduced(reason=f"{why}: nothing is changed", checks=seen),)
        now = self.chassis.clock.now()
        metrics, signals = self.sources.of(target), target.signals.items()
        traffic = [await measuring.signal_now(metrics, name, signal, now) for name, signal in signals if signal.role == "traffic"]
        well = await measuring.health_now(self.health, target, now)
        return (ev.Reproduced(signal=check[0], checks=(*seen, *traffic, *((well,) if well else ()))),)

    async def watch(self, heard: Heard) -> Sequence[ev.Event]:
        """Sets the timer at which the soak, or its extension, is over. A job has no soak: its tests are run."""
        if heard.incident.opened.job:
            return await self.jobs.validate(heard)
        soak = await self._soak(heard.incident)
        await self.chassis.timers.set(heard.incident.id, SOAK, agent.whole_second(soak.window.end))
        return ()

    async def soaked(self, heard: Heard) -> Sequence[ev.Event]:
        """The timer fired, perhaps late, early or twice: judges the window that is due, whenever that was."""
        incident = heard.incident
        if incident.state is not State.APPLIED:
            await self.cores.end_measuring(incident.id)
            return ()
        soak = await self._soak(incident)
        if self.chassis.clock.now() < soak.window.end:
            await self.chassis.timers.set(incident.id, SOAK, agent.whole_second(soak.window.end))
            return ()
        with span("judge recovery", incident_attempt=incident.attempts) as opened:
            seen = await soak.measure(self.sources.of(soak.target), self.health, self.rule, self.chassis.clock.now())
            used = agent.extensions_of(incident)
            verdict = agent.conclude(agent.judge(seen), used, self.settings.extensions, soak.target)
            opened.set_attribute("verdict", verdict.name)
            opened.set_attribute("verdict.reason", getattr(verdict, "reason", ""))
            opened.set_attribute("verdict.comparisons", [f"{c.signal} ({c.role}): {c.verdict}: {c.why}" for c in seen.all])
        if not isinstance(verdict, ev.Inconclusive):
            await self.cores.end_measuring(incident.id)
        return (verdict,)

    async def recheck(self, request: Recheck) -> Rechecked:
        """Measures again before anything is applied; a green check ends the incident here and now."""
        while True:
            incident = await self.chassis.log.load(request.incident_id)
            answer, seen = await self._recheck(incident)
            if answer.status != "green" or incident.state not in CLOSES:
                return answer
            closed = ev.NotReproduced(reason=f"{answer.reason} when it was measured again: nothing is changed", checks=seen)
            try:
                await self.chassis.log.append(incident, [closed], by="validator", caused_by=incident.moved_by, key="recheck")
            except Conflict:
                continue
            return answer

    async def release(self) -> None:
        """Until cancelled: gives back the cores of incidents that ended some other way than by a verdict."""
        while True:
            await self.chassis.clock.sleep(RELEASE_S)
            for incident_id in self.cores.measured():
                with suppress(Unavailable):
                    if (await self.chassis.log.load(incident_id)).state is not State.APPLIED:
                        await self.cores.end_measuring(incident_id)

    async def let_go(self) -> None:
        """Gives back everything at a stop."""
        for incident_id in self.cores.measured():
            await self.cores.end_measuring(incident_id)

    async def _recheck(self, incident: Incident) -> tuple[Rechecked, tuple[Measurement, ...]]:
        if incident.state is State.NONE:
            return Rechecked(status="unknown", reason="no such incident"), ()
        if incident.opened.job:
            return self.jobs.recheck(incident), ()
        try:
            target, alert = self._target(incident), incident.opened.alert
            check = target.check_for(alert.alertname) if alert else None
            if check is None:
                return Rechecked(status="unknown", reason=agent.no_check(target, alert).reason), ()
            color, why, seen = await self._look(target, alert, check)
        except Unavailable as error:
            return Rechecked(status="unknown", reason=str(error)), ()
        return Rechecked(status=color, reason=why), seen

    async def _look(
        self, target: Target, alert: ev.Alert | None, check: tuple[str, Signal]
    ) -> tuple[agent.Color, str, tuple[Measurement, ...]]:
        metrics, now = self.sources.of(target), self.chassis.clock.now()
        first = await measuring.signal_now(metrics, *check, now)
        found = await measuring.rules_of(metrics, alert)
        rules = [await measuring.rule_now(metrics, rule, alert, now) for rule in found if alert]
        return (*agent.color(first, rules), (first, *rules))

    async def _soak(self, incident: Incident) -> Soak:
        quiet_since: datetime | None = await self.cores.begin_measuring(incident.id)
        return Soak.of(incident, self._target(incident), quiet_since)

    def _target(self, incident: Incident) -> Target:
        found = self.chassis.targets.get(incident.target)
        if found is None:
            raise Unavailable("target", f"no target file is named {incident.target!r}", tip="put it back into the folder")
        return found
