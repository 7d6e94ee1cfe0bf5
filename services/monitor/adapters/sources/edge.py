"""What comes in becomes an alert: identified by its original labels, then redacted, then cut to what fits into an event."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from autopatch.chassis.alertmanager import HeldAlert
from autopatch.chassis.redaction import redact, redact_value
from autopatch.contract.events import Alert
from services.monitor.agent import Told, identity

Source = Literal["alertmanager", "grafana", "reconciliation", "watch"]
LONGEST_LABEL = 512
LONGEST_ANNOTATION = 4000
BUDGET = 14_000
"""Bytes of JSON that labels, and annotations, may take each."""
CONSIDERED = 16_000


def told(
    labels: Mapping[str, Any], annotations: Mapping[str, Any], starts_at: datetime | None, ends_at: datetime | None, *,
    status: Literal["firing", "resolved"], source: Source, now: datetime, silenced: bool = False, generator_url: str = "",
) -> Told:
    """`now` stands in for a missing start, which is a fault of the alert."""
    original = {str(k): v for k, v in _texts(labels).items() if v}
    start = _moment(starts_at)
    fault = "" if original.get("alertname") else "it has no alertname"
    fault = fault or ("" if start else "it has no startsAt")
    alert = Alert(
        identity=identity(original), alertname=redact(original.get("alertname", ""))[:LONGEST_LABEL],
        labels=_cut(redact_value(original), LONGEST_LABEL),
        annotations=_cut(redact_value({k: v[:CONSIDERED] for k, v in _texts(annotations).items()}), LONGEST_ANNOTATION),
        starts_at=start or now, status=status, silenced=silenced, source=source, generator_url=redact(generator_url[:2000])[:500],
    )
    return Told(alert, original, _moment(ends_at) if status == "resolved" else None, fault)


def held(alert: HeldAlert, now: datetime) -> Told:
    """What Alertmanager holds is firing; suppressed by a silence or an inhibition counts as silenced."""
    silenced = alert.status.state == "suppressed" or bool(alert.status.silenced_by or alert.status.inhibited_by)
    return told(
        alert.labels, alert.annotations, alert.starts_at, None, status="firing", source="reconciliation", now=now,
        silenced=silenced, generator_url=alert.generator_url,
    )


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Text and plain numbers; anything else is no label and no annotation."""
    plain = {str(k): v for k, v in values.items() if isinstance(v, str | int | float | bool)}
    return {k: v if isinstance(v, str) else json.dumps(v) for k, v in plain.items()}


def _cut(values: Mapping[str, str], longest: int) -> dict[str, str]:
    """Summary and description first, as many others as fit."""
    kept, left = {}, BUDGET
    for key in sorted(values, key=lambda k: (k not in ("alertname", "summary", "description"), k)):
        value = values[key] if len(values[key]) <= longest else values[key][:longest] + " [cut]"
        left -= len(json.dumps([key, value]))
        if left >= 0:
            kept[key] = value
    return kept


def _moment(at: datetime | None) -> datetime | None:
    """With a zone and in milliseconds, as Alertmanager's API has them; the zero time is none."""
    if at is None or at.year <= 1:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return at.astimezone(UTC).replace(microsecond=at.microsecond // 1000 * 1000)
