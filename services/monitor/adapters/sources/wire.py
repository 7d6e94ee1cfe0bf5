"""The webhook's JSON: Alertmanager's version 4, and Grafana's superset. Unknown fields are ignored, missing ones survived."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json

from services.monitor.adapters.sources import edge
from services.monitor.agent import Told


class Unreadable(Exception):
    """Not a webhook's body; what it held is not repeated."""


@dataclass(frozen=True)
class Batch:
    """`ignored` counts alerts that could not be understood; `truncated` those that the sender left out."""

    alerts: tuple[Told, ...]
    ignored: int = 0
    truncated: int = 0


class _Alert(BaseModel):
    model_config = ConfigDict(extra="ignore")

    status: str = ""
    labels: dict[str, Any] = Field(default_factory=dict)
    annotations: dict[str, Any] = Field(default_factory=dict)
    starts_at: datetime | None = Field(default=None, alias="startsAt")
    ends_at: datetime | None = Field(default=None, alias="endsAt")
    generator_url: str = Field(default="", alias="generatorURL")


def parse(body: bytes, source: Literal["alertmanager", "grafana"], now: datetime) -> Batch:
    """Raises Unreadable when it is no JSON, nested too deeply, or has no list of alerts."""
    try:
        data = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise Unreadable("not JSON, or nested too deeply") from error
    if not isinstance(data, dict) or not isinstance(data.get("alerts"), list):
        raise Unreadable("no list of alerts; version 4 of Alertmanager's webhook is understood")
    told = [_told(item, str(data.get("status", "")), source, now) for item in data["alerts"]]
    left_out = data.get("truncatedAlerts", 0)
    return Batch(
        tuple(t for t in told if t), sum(t is None for t in told), left_out if isinstance(left_out, int) and left_out > 0 else 0
    )


def _told(item: Any, group_status: str, source: Literal["alertmanager", "grafana"], now: datetime) -> Told | None:
    """None when it is no alert, or neither firing nor resolved."""
    try:
        alert = _Alert.model_validate(item)
    except ValidationError:
        return None
    status = alert.status or group_status
    if status not in ("firing", "resolved"):
        return None
    return edge.told(
        alert.labels, alert.annotations, alert.starts_at, alert.ends_at, status="firing" if status == "firing" else "resolved",
        source=source, now=now, generator_url=alert.generator_url,
    )
