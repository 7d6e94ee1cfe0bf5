"""One soak: which windows are compared, and what is measured in them."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from autopatch.chassis.room import Reject
from autopatch.contract import events as ev
from autopatch.contract.evidence import Comparison, Measurement
from autopatch.contract.lifecycle import Incident
from autopatch.contract.plan import SuccessCheck
from autopatch.contract.target import Signal, Target
from services.validator import agent, alerts, ranks
from services.validator.adapters.sources import measuring
from services.validator.agent import Evidence
from services.validator.ports import Health, Metrics
from services.validator.ranks import Rule, Window

RUN_S = 60.0
"""How far back at least an unbroken run of red is looked for."""


@dataclass(frozen=True)
class Soak:
    """`window` is judged against the time before `applying_at`."""

    target: Target
    alert: ev.Alert | None
    check: tuple[str, Signal]
    success: SuccessCheck
    window: Window
    opened_at: datetime
    applying_at: datetime
    was_well: bool | None

    @classmethod
    def of(cls, incident: Incident, target: Target, quiet_since: datetime | None) -> "Soak":
        """Raises Reject when the log lacks what led to `applied`, or the target its check."""
        reproduced, planned = incident.last(ev.Reproduced), incident.last(ev.Planned)
        applying, applied = incident.last_stored(ev.Applying), incident.last(ev.Applied)
        if not (reproduced and planned and applying and applied):
            raise Reject(f"incident {incident.id} was applied without having been reproduced, planned and claimed")
        signal = target.signals.get(reproduced.signal)
        if signal is None:
            raise Reject(f"target {target.name} has no signal {reproduced.signal!r} any more; put it back and reopen")
        success = agent.success_of(planned.plan.success, target)
        window = agent.soak_window(applied.at, quiet_since, success, agent.extensions_of(incident), target.soak.step_s)
        return cls(
            target, incident.opened.alert, (reproduced.signal, signal), success, window, incident.log[0].envelope.at,
            applying.envelope.at, _was_well(reproduced),
        )

    async def measure(self, metrics: Metrics, health: Health, rule: Rule, now: datetime) -> Evidence:
        """Every signal of the target in both windows. Raises Unavailable."""
        return await replace(self, window=await self._settled(metrics))._measure(metrics, health, rule, now)

    async def _settled(self, metrics: Metrics) -> Window:
        """An extended soak without what was red in it, where a whole soak is left after that: a cure may settle late."""
        window, whole = self.window, timedelta(seconds=self.success.soak_s)
        seen = await metrics.query_range(self.check[1].query, window.start, window.end, window.step_s)
        start = ranks.run_of(False, self.check[1], seen, window.end)
        return replace(window, start=start) if window.end - start >= whole else window

    async def _measure(self, metrics: Metrics, health: Health, rule: Rule, now: datetime) -> Evidence:
        found = await measuring.rules_of(metrics, self.alert)
        red = await self._red_window(metrics, max((r.duration for r in found), default=0.0), rule.blocks)
        signals = {n: s for n, s in self.target.signals.items() if n != self.check[0]}
        alpha = agent.guard_alpha(rule, sum(s.role != "traffic" for s in signals.values()))
        check = await self._compare(metrics, *self.check, red, rule, rule.alpha)
        others = [await self._compare(metrics, n, s, red, rule, alpha) for n, s in signals.items()]
        rules = []
        for one in found if self.alert else ():
            pair = [await measuring.rule_over(metrics, one, self.alert, w, rule.blocks) for w in (red, self.window) if self.alert]
            rules.append(alerts.silence(*pair))
        well = await measuring.health_now(health, self.target, now)
        healthy = (self.was_well, bool(well.last) if well else None)
        return Evidence(check, self.check[1], tuple(rules), tuple(others), healthy, well.reason if well else "")

    async def _red_window(self, metrics: Metrics, pending_s: float, parts: int) -> Window:
        """As long as the soak; where that holds too few samples, everything since the alert or an unbroken run of red began."""
        since = min(self.applying_at, agent.red_since(self.alert, self.opened_at, pending_s))
        short = agent.red_window(since, self.applying_at, self.success, self.window.step_s)
        if (await self._over(metrics, *self.check, short, parts)).blocks:
            return short
        back = timedelta(seconds=max(RUN_S, self.success.soak_s))
        seen = await metrics.query_range(self.check[1].query, self.applying_at - back, self.applying_at, self.window.step_s)
        run = ranks.run_of(True, self.check[1], seen, self.applying_at)
        return Window(min(since, run), self.applying_at, self.window.step_s)

    async def _compare(
        self, metrics: Metrics, name: str, signal: Signal, red: Window, rule: Rule, alpha: float
    ) -> Comparison:
        before = await self._over(metrics, name, signal, red, rule.blocks)
        after = await self._over(metrics, name, signal, self.window, rule.blocks)
        return ranks.compare(name, signal, before, after, rule, alpha=alpha)

    async def _over(self, metrics: Metrics, name: str, signal: Signal, window: Window, parts: int) -> Measurement:
        return await measuring.signal_over(metrics, name, signal, window, parts)


def _was_well(reproduced: ev.Reproduced) -> bool | None:
    return next((bool(m.last) for m in reproduced.checks if m.signal == measuring.HEALTH), None)
