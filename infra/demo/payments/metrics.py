"""What Prometheus sees. Every series exists from the start, so that the first error is an increase and not a beginning."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, PlatformCollector, ProcessCollector

ROUTES = ("/payments", "/refunds")
PARTS = ("fee", "refund")
STATUSES = ("200", "400", "500", "503")
LATENCY_BUCKETS_S = (0.025, 0.05, 0.075, 0.1, 0.125, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1, 1.5, 2, 3, 4, 5, 6, 7.5, 10)


class Metrics:
    """The metrics of one service, in a registry of their own."""

    def __init__(self, release: str) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self.latency = Histogram(
            "payments_request_duration_seconds",
            "From the request's arrival to its answer, waiting for a connection included.",
            ["route"],
            buckets=LATENCY_BUCKETS_S,
            registry=self.registry,
        )
        self.requests = Counter("payments_requests", "Answered requests.", ["route", "status"], registry=self.registry)
        self.received = Counter("payments_requests_received", "Arrived requests.", ["route"], registry=self.registry)
        self.pool_size = Gauge("payments_pool_size", "Connections that the pool may use at once.", registry=self.registry)
        self.pool_in_use = Gauge("payments_pool_in_use", "Connections in use now.", registry=self.registry)
        self.pool_waiting = Gauge("payments_pool_waiting", "Requests that wait for a connection now.", registry=self.registry)
        self.pool_waits = Counter("payments_pool_waits", "Requests that had to wait for a connection.", registry=self.registry)
        self.pool_timeouts = Counter("payments_pool_timeouts", "Requests that waited in vain.", registry=self.registry)
        self.exceptions = Counter(
            "payments_exceptions", "Requests that ended in an exception of our own code.", ["part"], registry=self.registry
        )
        self.reloads = Counter("payments_config_reloads", "Reloads by outcome.", ["outcome"], registry=self.registry)
        info = Gauge("payments_release_info", "The release that runs; always 1.", ["release"], registry=self.registry)
        info.labels(release).set(1)
        for outcome in ("done", "refused"):
            self.reloads.labels(outcome)
        for part in PARTS:
            self.exceptions.labels(part)
        for route in ROUTES:
            self.latency.labels(route)
            self.received.labels(route)
            for status in STATUSES:
                self.requests.labels(route, status)

    def observe(self, route: str, status: int, seconds: float) -> None:
        """Counts one answered request."""
        self.latency.labels(route).observe(seconds)
        self.requests.labels(route, str(status)).inc()
