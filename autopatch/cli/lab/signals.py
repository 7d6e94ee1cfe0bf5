"""What the demo measures for itself, beside the rooms: Prometheus' numbers and alerts, and Jaeger's traces."""

from collections import Counter
from typing import Any

import httpx2

from autopatch.contract.errors import Unavailable


def measure(prometheus: str, query: str) -> float | None:
    """The one number that the query gives now; None when there is no series or no number."""
    result = _get("prometheus", f"{prometheus}/api/v1/query", {"query": query})["data"]["result"]
    value = float(result[0]["value"][1]) if result else float("nan")
    return None if value != value else value


def firing(prometheus: str) -> dict[str, dict[str, Any]]:
    """Alerts that fire now, by name."""
    alerts = _get("prometheus", f"{prometheus}/api/v1/alerts")["data"]["alerts"]
    return {alert["labels"]["alertname"]: alert for alert in alerts if alert["state"] == "firing"}


def services_of(jaeger: str, trace_id: str) -> Counter[str]:
    """Spans of the trace by the service that they belong to; empty when it is not there yet."""
    try:
        found = _get("jaeger", f"{jaeger}/api/traces/{trace_id}")["data"] or []
    except Unavailable:
        return Counter()
    return Counter(trace["processes"][span["processID"]]["serviceName"] for trace in found for span in trace["spans"])


def _get(service: str, url: str, params: dict[str, str] | None = None) -> Any:
    try:
        answer = httpx2.get(url, params=params, timeout=5, trust_env=False)
        answer.raise_for_status()
        return answer.json()
    except (httpx2.HTTPError, ValueError) as error:
        raise Unavailable(service, f"{url}: {type(error).__name__}") from error
