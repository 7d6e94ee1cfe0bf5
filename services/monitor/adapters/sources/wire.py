"""The webhook's JSON: Alertmanager's version 4, and Grafana's superset. Unknown fields are ignored, missing ones survived."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pydantic_core import from_json

from services.monitor.adapters.sources import edge
from services.monitor.agent import Told


class Unreadable(Exception):
    """Not a webhook's body; what it held is not repeated."""


MOST = 1_000_000
"""A sender that says it left out more is not believed."""


@dataclass(frozen=True)
class Batch:
    """`ignored` counts what is no alert at all, and holds nothing to show; `truncated` alerts that the sender left out."""

    alerts: tuple[Told, ...]
    ignored: int = 0
    truncated: int = 0


def parse(body: bytes, source: Literal["alertmanager", "grafana"], now: datetime) -> Batch:
    """Raises Unreadable when it is no JSON, nested too deeply, or has no list of alerts."""
    try:
        data = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise Unreadable("not JSON, or nested too deeply") from error
    if not isinstance(data, dict) or not isinstance(data.get("alerts"), list):
        raise Unreadable("no list of alerts; version 4 of Alertmanager's webhook is understood")
    told = [_told(item, data.get("status"), source, now) for item in data["alerts"] if isinstance(item, dict)]
    left_out = data.get("truncatedAlerts", 0)
    ignored = len(data["alerts"]) - len(told)
    return Batch(tuple(told), ignored, left_out if type(left_out) is int and 0 < left_out < MOST else 0)


def _told(item: dict[str, Any], group_status: object, source: Literal["alertmanager", "grafana"], now: datetime) -> Told:
    """An alert that says nothing of its status has that of its group."""
    return edge.told(
        item.get("labels"), item.get("annotations"), item.get("startsAt"), item.get("endsAt"),
        status=str(item.get("status") or group_status), source=source, now=now, generator_url=item.get("generatorURL"),
    )
