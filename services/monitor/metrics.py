"""What became of alerts."""

from prometheus_client import Counter

ALERTS = Counter("autopatch_alerts", "Alerts by sender and by what became of them", ["source", "outcome"])
UNMATCHED = Counter("autopatch_alerts_unmatched", "Alerts that opened nothing because they belong to no single target")
REFUSED = Counter("autopatch_webhooks_refused", "Webhooks that were not taken, by status", ["sender", "status"])
