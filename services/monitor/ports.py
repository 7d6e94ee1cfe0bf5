"""What this room needs from outside."""

from typing import Protocol

from opentelemetry.trace import Tracer

from autopatch.chassis.alertmanager import AlertmanagerStatus, HeldAlert
from autopatch.chassis.chassis import Log, Records, Targets
from autopatch.chassis.clock import Clock
from autopatch.chassis.prometheus import Result
from autopatch.contract.evidence import Alert
from autopatch.contract.target import Target


class OpeningLog(Log, Protocol):
    """The event log, and whether it has room for new incidents."""

    async def room_left(self) -> bool:
        """False from 80 % of its limit on. Raises Unavailable."""
        ...


class Unmatched(Protocol):
    """Alerts that belong to no target, or to more than one."""

    async def add(self, alert: Alert, reason: str) -> None:
        """Recorded once per alert and reason. Raises Unavailable."""
        ...


class MonitorChassis(Protocol):
    """The part of the chassis that this room stands on."""

    @property
    def log(self) -> OpeningLog: ...
    @property
    def records(self) -> Records: ...
    @property
    def targets(self) -> Targets: ...
    @property
    def unmatched(self) -> Unmatched: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def tracer(self) -> Tracer: ...


class HeldAlerts(Protocol):
    """Alertmanager."""

    async def alerts(self) -> tuple[HeldAlert, ...]:
        """All that it holds, suppressed ones too. Raises Unavailable, never gives a part."""
        ...

    async def status(self) -> AlertmanagerStatus:
        """Since when it runs. Raises Unavailable."""
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...


class Metrics(Protocol):
    """A Prometheus."""

    async def query(self, expr: str) -> Result:
        """An instant query. Raises Unavailable."""
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...


class MetricsOf(Protocol):
    """Which Prometheus is a target's?"""

    def __call__(self, target: Target) -> Metrics:
        """Raises OperatorError."""
        ...
