"""A world to heal, scripted: services whose latency follows the pool size in a real file, and a Prometheus that remembers it.

The HTTP API is spoken for real, so that the rooms use their own client; only the numbers are made up.
"""

import asyncio
import re
import time
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import JSONResponse

from autopatch.chassis.http import HttpServer

RED, GREEN, TRAFFIC = 2.0, 0.1, 50.0
ENOUGH = 20
"""Pool size from which on a service is well."""

CONFIG = """{
  // how the service talks to its database
  "database": {
    "host": "127.0.0.1",
    "user": "payments",
    "password": "hunter2-is-not-for-prompts",
    "pool_size": 10, // connections
    "timeout_ms": 5000
  },
  "api": { "port": 3000, "max_connections": 100 }
}
"""

TARGET = """
name: {name}
match: {{service: {name}}}
runtime:
  {runtime}
configs:
  - name: config
    path: {folder}/{name}/config.json
    format: json
    effective_by: reload
    editable:
      database.pool_size: {{type: int, min: 1, max: 50}}
signals:
  latency: {{query: latency_{underscored}, unit: s, role: check, threshold: 0.2, alerts: [Slow]}}
  traffic: {{query: traffic_{underscored}, role: traffic}}
prometheus: {{url: "{prometheus}"}}
autonomy: {{default: {rung}}}
rehearse: {rehearse}
soak: {{settle_s: {settle}, soak_s: {soak}, step_s: 0.1}}
approval_ttl_s: {ttl}
on_inconclusive: {inconclusive}
{more}
"""
PROCESS = (
    '{{kind: process, command: [sh, -c, "{command}"], pidfile: {folder}/{name}.pid, log: {folder}/{name}.log, '
    "reload_signal: SIGHUP}}"
)

REHEARSE = '{command: ["true"], image: none}'
RELOADS = "trap : HUP; while :; do sleep 0.1; done"
"""A process that lives through a reload."""

RUNBOOK = """---
alert: Slow
service: any
severity: critical
owner: tests
causes: [pool_exhausted]
actions:
  - {kind: set_config, file: config, key: database.pool_size, value: 20}
  - {kind: reload}
---
# The pool is too small

## Meaning
Requests wait for a connection.

## Mitigation
More connections.
"""


@dataclass
class Service:
    """One scripted service. `forced` overrides what its configuration makes of it; `original` is what undoing must restore."""

    name: str
    config: Path
    history: deque[tuple[float, float, float]] = field(default_factory=lambda: deque(maxlen=20_000))
    forced: float | None = None
    traffic: float = TRAFFIC
    original: bytes = CONFIG.encode()

    def drift(self, data: bytes) -> None:
        """Somebody else changes the file: from now on that is what undoing must restore."""
        self.original = data
        self.config.write_bytes(data)

    async def shows(self, red: bool, for_s: float = 1.0) -> None:
        """Until Prometheus knows it so for long enough to judge by."""
        while not self.history or (self.history[-1][1] > 1) is not red:
            await asyncio.sleep(0.02)
        await asyncio.sleep(for_s)

    def pool_size(self) -> int:
        found = re.search(r'"pool_size": (\d+)', self.config.read_text())
        return int(found.group(1)) if found else 0

    def latency(self) -> float:
        wobble = (time.time() * 7) % 1 * 0.02
        if self.forced is not None:
            return self.forced + wobble
        return (GREEN if self.pool_size() >= ENOUGH else RED) + wobble


class World:
    """Services, their target files, and the Prometheus that watches them."""

    def __init__(
        self, folder: Path, names: list[str], rung: str = "auto", ttl: float = 900, *, settle: float = 0.1, soak: float = 0.9,
        inconclusive: str = "keep", runbook: str = RUNBOOK, rehearse: str = REHEARSE, runtime: str = PROCESS, more: str = "",
    ) -> None:
        """`runtime` and `more` are lines of every target file; `runtime` may hold {command}, {folder} and {name}."""
        self.folder = folder
        self.services = {name: Service(name, folder / name / "config.json") for name in names}
        self.up = True
        self.alertmanager_up = True
        self.alerts: dict[str, dict[str, Any]] = {}
        self.silenced: set[str] = set()
        self.server = HttpServer(self._app(), "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.server.port}"
        (folder / "targets").mkdir(parents=True, exist_ok=True)
        (folder / "runbooks").mkdir(exist_ok=True)
        (folder / "runbooks" / "pool.md").write_text(runbook)
        for name, service in self.services.items():
            service.config.parent.mkdir(exist_ok=True)
            service.config.write_text(CONFIG)
            (folder / "targets" / f"{name}.yaml").write_text(TARGET.format(
                name=name, underscored=name.replace("-", "_"), folder=folder, prometheus=self.url, rung=rung, ttl=ttl,
                settle=settle, soak=soak, inconclusive=inconclusive, rehearse=rehearse, more=more,
                runtime=runtime.format(command=RELOADS, folder=folder, name=name),
            ))

    def quiet(self, name: str) -> None:
        """Alertmanager holds no alert of a service that is well again."""
        self.alerts = {key: alert for key, alert in self.alerts.items() if alert["labels"].get("service") != name}

    async def run(self) -> None:
        """Until cancelled."""
        await asyncio.gather(self.server.serve(), self._remember())

    async def settled(self, for_s: float = 0.8) -> None:
        """Until there is enough of the past to judge by."""
        while not all(s.history and s.history[-1][0] - s.history[0][0] > for_s for s in self.services.values()):
            await asyncio.sleep(0.02)

    async def _remember(self) -> None:
        while True:
            now = time.time()
            for service in self.services.values():
                service.history.append((now, service.latency(), service.traffic))
            await asyncio.sleep(0.05)

    def _app(self) -> FastAPI:
        router = APIRouter()

        @router.post("/api/v1/query")
        async def query(request: Request) -> JSONResponse:
            form = dict(parse_qsl((await request.body()).decode()))
            at = float(str(form.get("time", time.time())))
            return self._answer("vector", [{"metric": {}, "value": s} for s in self._samples(str(form["query"]), at, at, 1)])

        @router.post("/api/v1/query_range")
        async def query_range(request: Request) -> JSONResponse:
            form = dict(parse_qsl((await request.body()).decode()))
            start, end, step = (float(str(form[k])) for k in ("start", "end", "step"))
            values = self._samples(str(form["query"]), start, end, step)
            return self._answer("matrix", [{"metric": {}, "values": values}] if values else [])

        @router.get("/api/v1/rules")
        async def rules() -> JSONResponse:
            return self._answer("", None) if not self.up else JSONResponse({"status": "success", "data": {"groups": []}})

        @router.get("/-/ready")
        async def ready() -> JSONResponse:
            return JSONResponse({}, 200 if self.up else 503)

        @router.get("/api/v2/alerts")
        async def alerts() -> JSONResponse:
            return JSONResponse([self._held(a) for a in self.alerts.values()], 200 if self.alertmanager_up else 503)

        @router.get("/api/v2/status")
        async def status() -> JSONResponse:
            uptime = datetime.now(UTC).isoformat()
            return JSONResponse({"uptime": uptime, "cluster": {"status": "ready", "peers": []}, "versionInfo": {}, "config": {}})

        app = FastAPI()
        app.include_router(router)
        return app

    def _samples(self, query: str, start: float, end: float, step: float) -> list[list[Any]]:
        name = re.fullmatch(r"(latency|traffic)_(\w+)", query)
        service = self.services.get(name.group(2).replace("_", "-")) if name else None
        if not name or not service:
            return []
        points, history, at, index = list[tuple[float, float]](), list(service.history), start, 0
        column = 2 if name.group(1) == "traffic" else 1
        if start == end:
            history.append((time.time(), service.latency(), service.traffic))
        while at <= end + 1e-9:
            while index + 1 < len(history) and history[index + 1][0] <= at:
                index += 1
            if history and history[index][0] <= at + 0.06:
                points.append((at, history[index][column]))
            at += step
        return [[t, str(v)] for t, v in points]

    def alert(self, name: str, starts: datetime, **labels: str) -> dict[str, Any]:
        """As Alertmanager tells it."""
        return {
            "labels": {"alertname": "Slow", "service": name, **labels}, "annotations": {"summary": "slow"},
            "startsAt": starts.isoformat(), "endsAt": "0001-01-01T00:00:00Z", "fingerprint": f"{name}{labels or ''}",
            "generatorURL": "",
        }

    def _held(self, alert: dict[str, Any]) -> dict[str, Any]:
        silenced = alert["labels"]["service"] in self.silenced
        state = {"state": "suppressed" if silenced else "active", "silencedBy": ["s-1"] if silenced else [], "inhibitedBy": []}
        return {**alert, "updatedAt": alert["startsAt"], "receivers": [{"name": "autopatch"}], "status": state}

    def _answer(self, kind: str, result: Any) -> JSONResponse:
        if not self.up:
            return JSONResponse({"status": "error", "errorType": "unavailable", "error": "away"}, 503)
        return JSONResponse({"status": "success", "data": {"resultType": kind, "result": result}})
