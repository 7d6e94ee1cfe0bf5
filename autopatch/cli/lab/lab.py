"""Everything that the demo needs, started together and gone together."""

import asyncio
import fcntl
import hashlib
import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from autopatch.chassis import permissions
from autopatch.cli.client import keep
from autopatch.cli.lab import alertmanager, jaeger, nats, prometheus, settings
from autopatch.cli.lab.docker import Engine
from autopatch.cli.lab.payments import CALM, Payments
from autopatch.cli.lab.probes import LOOPBACK, Reserved, answers_http
from autopatch.cli.lab.process import Server
from autopatch.cli.lab.programs import ROOT
from autopatch.cli.lab.templates import render
from autopatch.contract.errors import Unavailable
from services.gateway.adapters.http import tokens

T = TypeVar("T")
LOCK = "lock"
Say = Callable[[str, str, float], None]
"""Told (what, where it is or why it is missing, seconds that it took)."""


@dataclass
class Places:
    """Where everything is; `missing` says what could not be had and why. `token` opens the gateway."""

    lab: str
    folder: str
    gateway: str = ""
    token: str = ""
    nats: str = ""
    prometheus: str = ""
    alertmanager: str = ""
    jaeger: str = ""
    payments: str = ""
    config: str = ""
    container: str = ""
    repository: str = ""
    engine: str = ""
    pids: dict[str, int] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


class Lab:
    """An async context manager. `folder` must be the lab's alone, see `claim`."""

    def __init__(self, folder: Path, *, autonomy: str = "auto", mode: str = "", say: Say = lambda *_: None) -> None:
        self.folder = folder
        name = f"{folder.name}-{hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:6]}"
        self.places = Places(name, str(folder))
        self.engine = Engine(log=folder / "engine.log")
        self.payments = Payments(self.engine, folder / "payments", name)
        self._autonomy, self._mode, self._say = autonomy, mode, say
        self._servers: list[Server] = []
        self._jobs: list[asyncio.Task[Any]] = []
        self._ports = Reserved("monitor", "gateway", "knowledge")
        self._secret = secrets.token_urlsafe(24)
        self._keys = folder / "keys"
        self._otlp = ""

    async def __aenter__(self) -> "Lab":
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """End everything, also what is just being started. Safe to repeat."""
        await asyncio.gather(*self._jobs, return_exceptions=True)
        rooms = [s for s in self._servers if s.name == "rooms"]
        others = [s for s in self._servers if s.name != "rooms"]
        for server in rooms:  # they report their last spans
            await asyncio.to_thread(server.stop)
        await asyncio.gather(*(asyncio.to_thread(s.stop) for s in others), asyncio.to_thread(self._end_containers))
        self._ports.close()

    def check(self) -> None:
        """Raises Unavailable when one of the servers has ended by itself."""
        for server in self._servers:
            server.check()

    async def _start(self) -> None:
        users = permissions.server_config(permissions.make_keys(self._keys))
        webhook = f"http://{LOOPBACK}:{self._ports['monitor']}/v1/webhooks/alertmanager"
        bus, manager, *_ = await self._all(
            self._server("nats", lambda: nats.start(self.folder / "nats", authorization=users)),
            self._server("alertmanager", lambda: alertmanager.start(
                self.folder / "alertmanager", webhook=webhook, token=self._secret
            )),
            self._traces(),
            self._engine(),
        )
        self.places.nats, self.places.alertmanager = bus.url, manager.url
        gateway = f"{LOOPBACK}:{self._ports['gateway']}"
        found = await self._server("prometheus", lambda: prometheus.start(
            self.folder / "prometheus", payments=self.payments.address, autopatch=gateway, alertmanager=manager.address
        ))
        self.places.prometheus = found.url
        await self._all(self._rooms(), self._service())
        self.places.pids = {server.name: server.pid for server in self._servers}

    async def _traces(self) -> None:
        try:
            found = await self._server("jaeger", lambda: jaeger.start(self.folder / "jaeger"))
        except Unavailable as error:
            self.places.missing["jaeger"] = str(error)
            self._say("jaeger", f"missing: {error}", 0)
            return
        self.places.jaeger, self._otlp = found.url, found.otlp

    async def _engine(self) -> None:
        """The Docker engine, without what a killed lab of this name may have left there."""
        begun = time.monotonic()
        await self._job(self.engine.start)
        self.places.engine = self.engine.host
        await self._job(lambda: self.engine.remove(self.engine.containers(self.places.lab)))
        self._say("docker", self.engine.host, time.monotonic() - begun)

    async def _service(self) -> None:
        """Images that are up to date, the service in its container, and calm traffic."""
        begun = time.monotonic()
        await self._job(self.engine.build_images)
        await self._job(self.payments.start)
        await self._job(lambda: self.payments.load(CALM))
        where = self.places
        where.payments, where.config, where.container = self.payments.url, str(self.payments.config), self.payments.container
        where.repository = str(self.payments.repository)
        self._say("payments", f"{self.payments.url}, {CALM} requests/s", time.monotonic() - begun)

    async def _rooms(self) -> None:
        url = f"http://{LOOPBACK}:{self._ports['gateway']}"
        token, entry = tokens.mint("demo", "admin", person=True)
        tokens.write(self.folder / "tokens.yaml", [entry])
        keep(self.folder / "state" / "cli.json", url, token)
        self._target()
        config = settings.write(self.folder / "autopatch.yaml", self._common(), self._sections())
        env = settings.environment(AUTOPATCH_CONFIG=str(config), **({"AUTOPATCH_LLM_MODE": self._mode} if self._mode else {}))
        command = [sys.executable, "-m", "autopatch", "up", "--json"]
        rooms = Server(
            "rooms", command, log=self.folder / "rooms.log", ready=answers_http(f"{url}/readyz"), env=env, cwd=ROOT,
            deadline_s=90, stop_within_s=15, ports=self._ports.all(),
        )
        await self._server("rooms", lambda: _started(rooms))
        self.places.gateway, self.places.token = url, token

    def _target(self) -> None:
        render(
            "demo/target.yaml.tmpl", self.folder / "targets" / "payments.yaml", CONTAINER=self.payments.container,
            CONFIG=str(self.payments.config.resolve()), PAYMENTS=self.payments.address,
            PROMETHEUS=self.places.prometheus.removeprefix("http://"), AUTONOMY=self._autonomy,
            REPOSITORY=str(self.payments.repository.resolve()), PATCH_CODE=self._autonomy,
        )

    def _common(self) -> dict[str, Any]:
        found = self.places.jaeger
        traces = {"otlp_endpoint": self._otlp, "trace_url": f"{found}/trace/{{trace_id}}"} if found else {}
        return {
            "nats_url": self.places.nats, "nkey_folder": str(self._keys), "targets": str(self.folder / "targets"),
            "state": str(self.folder / "state"), **traces,
        }

    def _sections(self) -> dict[str, dict[str, Any]]:
        return {
            "monitor": {
                "port": self._ports["monitor"], "alertmanager_token": self._secret, "alertmanager_url": self.places.alertmanager,
                "cool_down_s": 5, "max_a_day": 100,
            },
            "gateway": {
                "port": self._ports["gateway"], "tokens_file": str(self.folder / "tokens.yaml"),
                "knowledge_url": f"http://{LOOPBACK}:{self._ports['knowledge']}",
            },
            "executor": {
                "docker_host": self.places.engine, "locks": str(self.folder / "locks"),
                "policy": str(ROOT / "infra" / "demo" / "policy.yaml"),
            },
            "knowledge": {
                "port": self._ports["knowledge"], "folder": str(self.folder / "knowledge"),
                "runbooks": str(ROOT / "infra" / "demo" / "runbooks"),
            },
        }

    async def _server(self, name: str, start: Callable[[], "AnyServer"]) -> "AnyServer":
        begun = time.monotonic()
        server = await self._job(start)
        self._servers.append(server)
        self._say(name, getattr(server, "url", f"process {server.pid}"), time.monotonic() - begun)
        return server

    async def _job(self, work: Callable[[], T]) -> T:
        """In a thread; `stop` waits for it even when this is cancelled, so that nothing is started behind its back."""
        task = asyncio.ensure_future(asyncio.to_thread(work))
        self._jobs.append(task)
        return await asyncio.shield(task)

    async def _all(self, *starts: Any) -> list[Any]:
        results = await asyncio.gather(*starts, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return results

    def _end_containers(self) -> None:
        try:
            self.payments.stop()
        except Unavailable as error:  # whoever started us looks for what was left; this is why
            print(f"payments: {error}", file=sys.stderr)
        self.engine.stop()


AnyServer = TypeVar("AnyServer", bound=Server)


def _started(server: Server) -> Server:
    server.start()
    return server


def claim(base: Path) -> tuple[Path, int]:
    """An emptied folder `lab-<n>` of our own, and the descriptor that holds it while we live."""
    number = 0
    while True:
        number += 1
        folder = base / f"lab-{number}"
        folder.mkdir(parents=True, exist_ok=True)
        held = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(held)
            continue
        empty(folder)
        return folder, held


def empty(folder: Path) -> None:
    """Only the lock stays: whoever waits for it would else hold a file that nobody finds."""
    for old in folder.iterdir():
        if old.name != LOCK:
            shutil.rmtree(old) if old.is_dir() else old.unlink()
