"""Measures: asks Prometheus and the health endpoint, one span for each answer."""

from datetime import datetime

from opentelemetry.trace import Span

from autopatch.chassis.prometheus import AlertRule
from autopatch.chassis.redaction import redact
from autopatch.chassis.telemetry import annotate, span
from autopatch.contract.events import Alert
from autopatch.contract.evidence import Measurement
from autopatch.contract.target import Signal, Target
from services.validator import alerts, ranks
from services.validator.ports import Health, Metrics
from services.validator.ranks import Window

HEALTH = "health"


async def signal_now(metrics: Metrics, name: str, signal: Signal, at: datetime) -> Measurement:
    """The value of a signal at one instant. Raises Unavailable."""
    with span(f"measure {name}", measurement_query=signal.query, measurement_kind="now") as opened:
        found = ranks.measured(name, signal, await metrics.query(signal.query, at), Window(at, at, 1), 1)
        _tell(opened, found)
        return _plain(found)


async def signal_over(metrics: Metrics, name: str, signal: Signal, window: Window, parts: int) -> Measurement:
    """A signal over a window. Raises Unavailable."""
    with span(f"measure {name}", measurement_query=signal.query, measurement_kind="window") as opened:
        result = await metrics.query_range(signal.query, window.start, window.end, window.step_s)
        found = ranks.measured(name, signal, result, window, parts)
        _tell(opened, found)
        return _plain(found)


async def rule_now(metrics: Metrics, rule: AlertRule, alert: Alert, at: datetime) -> Measurement:
    """Is the expression of an alert's rule true at one instant? Raises Unavailable."""
    with span(f"measure alert {rule.name}", measurement_query=rule.query, measurement_kind="now") as opened:
        found = alerts.fired(rule, alert, await metrics.query(rule.query, at), Window(at, at, 1), 1)
        _tell(opened, found)
        return _plain(found)


async def rule_over(metrics: Metrics, rule: AlertRule, alert: Alert, window: Window, parts: int) -> Measurement:
    """When was the expression of an alert's rule true? Raises Unavailable."""
    with span(f"measure alert {rule.name}", measurement_query=rule.query, measurement_kind="window") as opened:
        result = await metrics.query_range(rule.query, window.start, window.end, window.step_s)
        found = alerts.fired(rule, alert, result, window, parts)
        _tell(opened, found)
        return _plain(found)


async def rules_of(metrics: Metrics, alert: Alert | None) -> tuple[AlertRule, ...]:
    """The rules in Prometheus that an alert comes from; none for alerts that something else evaluates. Raises Unavailable."""
    return alerts.rules_of(alert, await metrics.rules()) if alert else ()


async def health_now(health: Health, target: Target, at: datetime) -> Measurement | None:
    """The health endpoint as a signal: 1 is well, 0 is not. None when the target names none."""
    if not target.health:
        return None
    with span("measure health", measurement_query=target.health, measurement_kind="probe") as opened:
        well, said = await health.probe(target.health)
        found = Measurement(
            signal=HEALTH, query=target.health, start=at, end=at, status="value", reason=said, last=float(well), mean=float(well),
            red_share=float(not well),
        )
        _tell(opened, found)
        return found


def _plain(found: Measurement) -> Measurement:
    return found.model_copy(update={"reason": redact(found.reason)[:300]}) if found.reason else found


def _tell(opened: Span, found: Measurement) -> None:
    annotate(
        opened,
        measurement_signal=found.signal, measurement_status=found.status, measurement_reason=redact(found.reason)[:300] or None,
        measurement_mean=found.mean, measurement_last=found.last, measurement_red_share=found.red_share,
        measurement_blocks=[f"{b:.6g}" for b in found.blocks], measurement_start=found.start.isoformat(),
        measurement_end=found.end.isoformat(),
    )
