"""Wires the monitor: webhooks in, comparison with Alertmanager, own watches; one path to the log."""

from datetime import timedelta

from autopatch.chassis.alertmanager import Alertmanager
from autopatch.chassis.prometheus import Prometheus
from autopatch.chassis.room import Room
from autopatch.contract.requests import Silenced
from services.monitor.adapters.sources.webhook import Senders, webhooks
from services.monitor.agent import Rules
from services.monitor.ingest import Ingest
from services.monitor.ports import HeldAlerts, MetricsOf, MonitorChassis
from services.monitor.reconcile import Reconciliation
from services.monitor.settings import Settings
from services.monitor.silences import Silences
from services.monitor.watches import Watches


def build(
    settings: Settings, chassis: MonitorChassis, *, alertmanager: HeldAlerts | None = None, metrics_of: MetricsOf | None = None
) -> Room:
    """The monitor on real parts, or on those that are given. Raises OperatorError for a watch without one target."""
    held = alertmanager or _alertmanager(settings)
    ingest = Ingest(chassis, Rules(timedelta(seconds=settings.cool_down_s), settings.max_a_day), settings.ack_timeout_s)
    reconciliation = Reconciliation(
        chassis, ingest, held, interval_s=settings.reconcile_s, grace_s=settings.alertmanager_grace_s
    )
    watches = Watches(chassis, ingest, settings.watches, metrics_of or Prometheus.from_target, settings.watch_s)
    senders = Senders(
        alertmanager=settings.alertmanager_token.get_secret_value(), grafana=settings.grafana_token.get_secret_value()
    )
    return Room(
        name="monitor",
        responders={Silenced: Silences(chassis, held, settings.alertmanager_grace_s).answer},
        background=(reconciliation.run, watches.run),
        routers=(webhooks(senders, ingest, reconciliation, chassis.clock, settings.max_body_bytes, settings.body_timeout_s),),
        on_stop=(watches.aclose, *((held.aclose,) if held else ())),
    )


def _alertmanager(settings: Settings) -> Alertmanager | None:
    if not settings.alertmanager_url:
        return None
    return Alertmanager(settings.alertmanager_url, bearer_token=settings.alertmanager_api_token.get_secret_value())
