"""Decides, from measurements alone, whether an incident is real and whether a change cured it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import comb
from typing import Literal

from autopatch.contract import events as ev
from autopatch.contract.evidence import Comparison, Measurement
from autopatch.contract.lifecycle import Incident
from autopatch.contract.plan import SuccessCheck
from autopatch.contract.target import Signal, Target
from services.validator.ranks import Rule, Window, is_red

Color = Literal["red", "green", "unknown"]


def color(check: Measurement, rules: Sequence[Measurement]) -> tuple[Color, str]:
    """Red when the check or a rule of its alert is; green only when all of them are known and none is."""
    seen = (check, *rules)
    for one in seen:
        if one.red_share:
            return "red", f"{one.signal} is {one.last:.4g} {one.unit}".rstrip()
    for one in seen:
        if one.red_share is None:
            return "unknown", f"{one.signal} cannot be judged: {one.reason or one.status} ({one.query})"
    silent = " and its alert is not firing" if rules else ""
    return "green", f"{check.signal} is {check.last:.4g} {check.unit}".rstrip() + silent


def no_check(target: Target, alert: ev.Alert | None) -> ev.Escalated:
    """What is said when nothing that can be measured stands for the incident."""
    if alert is None:
        reason = f"the incident came without an alert, and target {target.name} names no way to measure it"
    else:
        reason = (
            f"target {target.name}: no single signal with role: check stands for alert {alert.alertname!r}; "
            f"add it to signals.<name>.alerts of exactly one of them"
        )
    return ev.Escalated(reason=reason, room="validator")


def red_since(alert: ev.Alert | None, opened_at: datetime, pending_s: float) -> datetime:
    """From when on the check was red: an alert fires only after its expression was true for `pending_s` (its rule's `for`)."""
    return alert.starts_at - timedelta(seconds=pending_s) if alert else opened_at


def red_window(since: datetime, applying_at: datetime, success: SuccessCheck, step_s: float) -> Window:
    """As long as the soak and right before the change, but never before `since`."""
    return Window(max(since, applying_at - timedelta(seconds=success.soak_s)), applying_at, step_s)


def success_of(plan: SuccessCheck, target: Target) -> SuccessCheck:
    """A plan may ask for a longer soak than its target does, never for a shorter one."""
    return plan.model_copy(update={
        "settle_s": max(plan.settle_s, target.soak.settle_s), "soak_s": max(plan.soak_s, target.soak.soak_s),
    })


def soak_window(
    applied_at: datetime, quiet_since: datetime | None, success: SuccessCheck, extensions: int, step_s: float
) -> Window:
    """What is judged, wherever the clock stands by now. It begins no earlier than the cores were quiet."""
    start = max(applied_at, quiet_since or applied_at) + timedelta(seconds=success.settle_s)
    return Window(start, start + timedelta(seconds=success.soak_s * (1 + extensions)), step_s)


def whole_second(at: datetime) -> datetime:
    """Rounded up: timers know whole seconds only, and one that fires early would only have to be set again."""
    return at.replace(microsecond=0) + timedelta(seconds=at.microsecond > 0)


def extensions_of(incident: Incident) -> int:
    """How often the soak of the newest `applied` was extended."""
    return sum(isinstance(s.envelope.data, ev.Inconclusive) for s in incident.since(ev.Applied))


def guard_alpha(rule: Rule, guards: int) -> float:
    """Several guards share one error rate, down to the smallest p-value that the test can give."""
    smallest = 1.5 / comb(2 * rule.blocks, rule.blocks)
    return max(rule.alpha / max(1, guards), smallest)


@dataclass(frozen=True)
class Evidence:
    """All that a verdict is made of. `healthy`: before and after, None where it was not asked."""

    check: Comparison
    signal: Signal
    rules: tuple[Comparison, ...]
    others: tuple[Comparison, ...]
    healthy: tuple[bool | None, bool | None]
    health_said: str = ""

    @property
    def all(self) -> tuple[Comparison, ...]:
        """In the order in which they are shown."""
        return (self.check, *self.rules, *self.others)


def judge(seen: Evidence) -> ev.Recovered | ev.NotRecovered | ev.Inconclusive:
    """Worse, or red at the end: not recovered. Better in every respect, and green throughout: recovered. Else inconclusive."""
    if refuted := _refuted(seen):
        return ev.NotRecovered(reason=refuted, comparisons=seen.all)
    if doubts := _doubts(seen):
        return ev.Inconclusive(reason="; ".join(doubts), comparisons=seen.all)
    return ev.Recovered(comparisons=seen.all)


def _refuted(seen: Evidence) -> str:
    """Why the change is proven to have failed; '' when it is not."""
    if seen.check.verdict == "worse":
        return f"{seen.check.signal} got worse: {seen.check.why}"
    for guard in (c for c in seen.others if c.role != "traffic" and c.verdict == "worse"):
        return f"{guard.signal} got worse: {guard.why}"
    if seen.healthy == (True, False):
        return f"the health endpoint is no longer well: {seen.health_said}"
    after = seen.check.after
    if after.blocks and is_red(seen.signal, after.blocks[-1]):
        return f"{after.signal} is still red at the end of the soak: {after.blocks[-1]:.4g} {after.unit}".rstrip()
    for rule in (c.after for c in seen.rules):
        if rule.last and rule.blocks and rule.blocks[-1] >= 0.5:
            return f"{rule.signal} is still firing at the end of the soak"
    return ""


def _doubts(seen: Evidence) -> list[str]:
    """What keeps a change that is not refuted from being proven."""
    doubts = []
    if seen.check.verdict != "better":
        doubts.append(f"{seen.check.signal} is not proven better: {seen.check.why}")
    for red in (c.after for c in (seen.check, *seen.rules) if c.after.red_share):
        doubts.append(f"{red.signal} was red for {red.red_share:.0%} of the soak")
    for rule in (c for c in seen.rules if c.verdict == "unknown"):
        doubts.append(f"{rule.signal} cannot be judged: {rule.why}")
    for other in (c for c in seen.others if c.verdict == "unknown"):
        doubts.append(f"{other.signal} cannot be judged: {other.why}")
    if seen.healthy[1] is False:
        doubts.append(f"the health endpoint is not well: {seen.health_said}")
    traffic = [c for c in seen.others if c.role == "traffic"]
    doubts += [f"too little traffic to judge by: {c.signal} {c.why}" for c in traffic if c.verdict == "worse"]
    if not traffic:
        doubts.append("the target names no signal with role: traffic, so nothing shows that the service was used")
    return doubts


def conclude(
    verdict: ev.Recovered | ev.NotRecovered | ev.Inconclusive, used: int, allowed: int, target: Target
) -> ev.Recovered | ev.NotRecovered | ev.Inconclusive | ev.Escalated:
    """An inconclusive soak is extended `allowed` times; then the target says whether the change is kept."""
    if not isinstance(verdict, ev.Inconclusive) or used < allowed:
        return verdict
    reason = f"after {used} extensions still inconclusive: {verdict.reason}"
    if target.on_inconclusive == "rollback":
        return ev.NotRecovered(reason=reason, comparisons=verdict.comparisons)
    return ev.Escalated(reason=f"applied, unproven: {reason}", room="validator")
