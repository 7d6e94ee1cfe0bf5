"""What comes in becomes an alert: identified by its original labels, then redacted, then cut to what fits into an event."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal

from pydantic import TypeAdapter, ValidationError

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
_TIME = TypeAdapter(datetime)


def told(
    labels: object, annotations: object, starts_at: object, ends_at: object, *, status: str, source: Source, now: datetime,
    silenced: bool = False, generator_url: object = "",
) -> Told:
    """Null is absent, and what nobody needs may be anything: annotations, the address, the end of a firing alert.

    What is needed and cannot be used is the alert's fault, which shows it to people as if it fired. A start is needed: the
    incident's id follows from it, so one that was made up would open another incident at each repeat. The day stands in for it.
    """
    original = {k: v for k, v in _texts(labels).items() if v}
    (start, no_start), (end, no_end) = _moment(starts_at, "startsAt"), _moment(ends_at, "endsAt")
    faults = (
        "" if labels is None or isinstance(labels, Mapping) else "its labels cannot be read",
        "" if original.get("alertname") else "it has no alertname",
        "" if status in ("firing", "resolved") else "its status is neither firing nor resolved",
        no_start, "" if start else "it has no startsAt", no_end if status == "resolved" else "",
    )
    alert = Alert(
        identity=identity(original), alertname=redact(original.get("alertname", ""))[:LONGEST_LABEL],
        labels=_cut(redact_value(original), LONGEST_LABEL),
        annotations=_cut(redact_value({k: v[:CONSIDERED] for k, v in _texts(annotations).items()}), LONGEST_ANNOTATION),
        starts_at=start or now.replace(hour=0, minute=0, second=0, microsecond=0),
        status="resolved" if status == "resolved" else "firing", silenced=silenced, source=source,
        generator_url=redact(generator_url[:2000])[:500] if isinstance(generator_url, str) else "",
    )
    return Told(alert, original, end if status == "resolved" else None, next((fault for fault in faults if fault), ""))


def held(alert: HeldAlert, now: datetime) -> Told:
    """What Alertmanager holds is firing; suppressed by a silence or an inhibition counts as silenced."""
    silenced = alert.status.state == "suppressed" or bool(alert.status.silenced_by or alert.status.inhibited_by)
    return told(
        alert.labels, alert.annotations, alert.starts_at, None, status="firing", source="reconciliation", now=now,
        silenced=silenced, generator_url=alert.generator_url,
    )


def _texts(values: object) -> dict[str, str]:
    """Text and plain numbers; anything else is no label and no annotation."""
    given = values if isinstance(values, Mapping) else {}
    plain = {str(k): v for k, v in given.items() if isinstance(v, str | int | float | bool)}
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


def _moment(value: object, name: str) -> tuple[datetime | None, str]:
    """With a zone and in milliseconds, as Alertmanager's API has them; the zero time is none. Or why it cannot be read."""
    if value is None or value == "":
        return None, ""
    try:
        at = _TIME.validate_python(value)
        if at.year <= 1:
            return None, ""
        at = at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValidationError, OverflowError):  # the latter: a date near the end of all dates, in another zone
        return None, f"its {name} cannot be read"
    return at.replace(microsecond=at.microsecond // 1000 * 1000), ""
