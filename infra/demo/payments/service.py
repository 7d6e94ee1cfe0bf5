"""The HTTP side: payments and refunds, health, metrics, and a reload that loses no request."""

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from payments import config as configuration
from payments.config import Config, ConfigError
from payments.database import Client, DatabaseError
from payments.metrics import Metrics
from payments.pool import Pool, PoolTimeout

log = logging.getLogger("payments")
SLOW_WAIT_S = 0.25
"""A longer wait for a connection is worth a warning, one a second at most."""

Fee = Callable[[int, str], int]
Refund = Callable[[int, int, Mapping[str, Any]], dict[str, Any]]
"""Amount and fee in cents, and the order, to what the answer adds. Raises ValueError for an order that is none."""
FAULTS_OF_THE_RELEASE = (ArithmeticError, AttributeError, LookupError, TypeError)


class Reply(NamedTuple):
    """What a request is answered with."""

    status: int
    body: dict[str, Any]


class NeedsRestart(ConfigError):
    """A running service cannot take this change over."""


class Service:
    """One running release with one configuration."""

    def __init__(
        self, path: Path, config: Config, release: str, fee_cents: Fee, database_port: int, refund: Refund | None = None
    ) -> None:
        self.path = path
        self.config = config
        self.release = release
        self.metrics = Metrics(release)
        self._fee_cents = fee_cents
        self._refund = refund
        self._warned = 0.0
        database = config.database
        self.pool: Pool[Client] = Pool(
            lambda: Client.connect(database, database_port), database.pool_size, database.timeout_ms / 1000
        )
        self.metrics.pool_size.set_function(lambda: self.pool.size)
        self.metrics.pool_in_use.set_function(lambda: self.pool.in_use)
        self.metrics.pool_waiting.set_function(lambda: self.pool.waiting)

    def app(self) -> web.Application:
        """The routes."""
        app = web.Application(client_max_size=64 * 1024)
        app.router.add_post("/payments", self._timed)
        app.router.add_post("/refunds", self._timed)
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_post("/-/reload", self._reload)
        return app

    def reload(self) -> Reply:
        """Takes over pool size and timeout in place, or keeps everything as it was and says which field is at fault."""
        try:
            changed = self._take_over(configuration.load(self.path))
        except ConfigError as error:
            self.metrics.reloads.labels("refused").inc()
            fields = {"field": error.field, "reason": error.reason}
            log.error("configuration refused, the old one stays", extra={"fields": fields})
            status = 409 if isinstance(error, NeedsRestart) else 422
            return Reply(status, {"error": error.reason, "field": error.field})
        self.metrics.reloads.labels("done").inc()
        log.info("configuration reloaded", extra={"fields": {"changed": changed}})
        return Reply(200, {"reloaded": True, "changed": changed})

    def _take_over(self, new: Config) -> dict[str, list[int | str]]:
        changed = configuration.changes(self.config, new)
        for name in changed:
            if name not in configuration.RELOADABLE:
                raise NeedsRestart(name, "cannot change while the service runs; restart it")
        self.pool.resize(new.database.pool_size, new.database.timeout_ms / 1000)
        self.config = new
        return changed

    async def _timed(self, request: web.Request) -> web.Response:
        start = time.perf_counter()
        status = 500
        self.metrics.received.labels(request.path).inc()
        try:
            status, body = await self._book(request)
            return web.json_response(body, status=status)
        finally:
            self.metrics.observe(request.path, status, time.perf_counter() - start)

    async def _book(self, request: web.Request) -> Reply:
        kind = request.path.strip("/")
        try:
            order = await request.json()
            amount, currency = order["amount_cents"], order["currency"]
            if not (isinstance(amount, int) and amount > 0 and isinstance(currency, str)):
                raise ValueError
        except (KeyError, TypeError, ValueError):
            return Reply(400, {"error": 'send {"amount_cents": 1250, "currency": "EUR"}'})
        part, more = "fee", dict[str, Any]()
        try:
            fee = self._fee_cents(amount, currency)
            if kind == "refunds" and self._refund:
                part = "refund"
                more = self._refund(amount, fee, order)
        except ValueError as error:
            return Reply(400, {"error": str(error)})
        except FAULTS_OF_THE_RELEASE as error:
            return self._fault(part, request.path, order, error)
        status, body = await self._insert({"insert": kind, "amount_cents": amount, "currency": currency, "fee_cents": fee})
        return Reply(status, {**body, **more} if status == 200 else body)

    def _fault(self, part: str, route: str, order: Mapping[str, Any], error: Exception) -> Reply:
        told = {name: order[name] for name in ("currency", "days", "instalments") if name in order}
        fields = {"route": route, **told, "error": f"{error.__class__.__name__}: {error}"}
        log.error(f"cannot compute the {part}", extra={"fields": fields}, exc_info=error)
        self.metrics.exceptions.labels(part).inc()
        return Reply(500, {"error": "internal error"})

    async def _insert(self, row: dict[str, Any]) -> Reply:
        start = time.perf_counter()
        if self.pool.in_use >= self.pool.size:
            self.metrics.pool_waits.inc()
        try:
            async with self.pool.connection() as connection:
                self._mind_wait(time.perf_counter() - start)
                answer = await connection.query(row)
        except PoolTimeout:
            self.metrics.pool_timeouts.inc()
            limit = f"{self.pool.timeout_s:g}s"
            log.error(f"could not acquire a connection from the pool within {limit}", extra={"fields": self._pool_fields()})
            return Reply(503, {"error": "no database connection became free in time"})
        except DatabaseError as error:
            log.error("the database failed", extra={"fields": {"reason": str(error)}})
            return Reply(503, {"error": "the database is not available"})
        return Reply(200, {"id": answer["id"], "fee_cents": row["fee_cents"]})

    def _mind_wait(self, waited_s: float) -> None:
        now = time.monotonic()
        if waited_s > SLOW_WAIT_S and now - self._warned >= 1:
            self._warned = now
            fields = {"waited_s": round(waited_s, 3), **self._pool_fields()}
            log.warning("slow: a request waited for a connection from the pool", extra={"fields": fields})

    def _pool_fields(self) -> dict[str, int]:
        return {"pool_size": self.pool.size, "in_use": self.pool.in_use, "waiting": self.pool.waiting}

    async def _healthz(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok", "release": self.release, "pool_size": self.pool.size})

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self.metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _reload(self, request: web.Request) -> web.Response:
        status, body = self.reload()
        return web.json_response(body, status=status)
