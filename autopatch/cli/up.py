"""`autopatch up`: all rooms, or some, in one process; with a local nats-server when no other is configured."""

import asyncio
import json
import os
import secrets
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import SecretStr

from autopatch.chassis import logs, permissions
from autopatch.chassis.main import Blueprint, Running, check, run_rooms
from autopatch.chassis.settings import Common, load
from autopatch.cli import locks
from autopatch.cli.client import DEFAULT_URL, keep, read_kept
from autopatch.cli.lab import nats
from autopatch.cli.lab.probes import free_port, is_free
from autopatch.cli.output import Json, Output
from autopatch.contract.catalogue import ROOMS
from autopatch.contract.errors import OperatorError
from services.gateway.adapters.http import tokens

NATS_PORT = 4222
PORTS = {"gateway": int(DEFAULT_URL.rpartition(":")[2]), "monitor": 8421}
"""What people and Alertmanager are told, so these stay the same when they can."""


def up(
    room: Annotated[list[str] | None, typer.Option(help="Only this room; may be repeated.")] = None,
    log: Annotated[Path | None, typer.Option(help="File for the log; else stderr, on a terminal the state folder.")] = None,
    as_json: Json = False,
) -> None:
    """Runs until Ctrl-C or SIGTERM. Where the rooms are is printed, and kept in the state folder's rooms.json."""
    common: Common = load(Common)
    chosen = _known(room or list(ROOMS))
    out = Output(as_json)
    # before anything is started or written
    check(_plans(chosen, {}), common)
    read_kept(Path(common.state) / "cli.json")
    with _logging(common, log), _server(common, out) as reachable:
        _admit(common, chosen)
        asyncio.run(run_rooms(_blueprints(chosen), reachable, lambda running: _announce(out, reachable, running)))
    out.note("stopped")


def _known(rooms: list[str]) -> list[str]:
    for name in rooms:
        if name not in ROOMS:
            raise OperatorError(f"--room {name}: there is no such room", tip=f"one of {', '.join(ROOMS)}")
    return rooms


@contextmanager
def _logging(common: Common, path: Path | None) -> Iterator[None]:
    if path is None and sys.stderr.isatty():
        path = Path(common.state) / "up.log"
    if path is None:
        logs.set_up(common.log_level)
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", buffering=1) as file:
        with redirect_stderr(file):
            logs.set_up(common.log_level)
        yield


@contextmanager
def _server(common: Common, out: Output) -> Iterator[Common]:
    """The settings with a NATS server in them: the configured one, else one of our own in the state folder."""
    if "nats_url" in common.model_fields_set:
        yield common
        return
    folder = Path(common.state).resolve() / "nats"
    folder.mkdir(parents=True, exist_ok=True)
    with locks.held(folder / "lock") as ours:
        if not ours:
            tip = "use that one, end it, or set AUTOPATCH_STATE to another folder"
            raise OperatorError(f"an AutoPatch runs here already, with its data in {folder}", tip=tip)
        keys = Path(common.nkey_folder or folder / "keys")
        users = permissions.server_config(permissions.make_keys(keys))
        server = nats.start(folder, port=NATS_PORT if is_free(NATS_PORT) else 0, authorization=users)
        out.note(f"started nats-server at {server.url}, its data in {folder}")
        try:
            yield common.model_copy(update={"nats_url": server.url, "nkey_folder": str(keys)})
        finally:
            server.stop()


def _admit(common: Common, rooms: Sequence[str]) -> None:
    """When nobody can enter the gateway yet, make an operator's token for whoever started it."""
    if "gateway" not in rooms:
        return
    path = Path(_settings("gateway").tokens_file)
    if path.exists():
        return
    token, entry = tokens.mint(os.environ.get("USER") or "operator", "admin", person=True)
    tokens.write(path, [entry])
    keep(Path(common.state) / "cli.json", DEFAULT_URL, token)


def _settings(room: str) -> Any:
    return load(_part(room, "settings").Settings)


def _part(room: str, module: str) -> Any:
    return import_module(f"services.{room}.{module}")


def _blueprints(rooms: Sequence[str]) -> list[Blueprint]:
    """Ports are chosen here where one room has to know another's."""
    given: dict[str, dict[str, Any]] = {name: {} for name in rooms}
    for name in set(rooms) & set(PORTS):
        if "port" not in _settings(name).model_fields_set and is_free(PORTS[name]):
            given[name]["port"] = PORTS[name]
    if {"gateway", "knowledge"} <= set(rooms):
        _introduce(given["gateway"], given["knowledge"])
    return _plans(rooms, given)


def _plans(rooms: Sequence[str], given: dict[str, dict[str, Any]]) -> list[Blueprint]:
    return [
        Blueprint(name, _part(name, "settings").Settings, _part(name, "service").build, given.get(name, {})) for name in rooms
    ]


def _introduce(gateway: dict[str, Any], knowledge: dict[str, Any]) -> None:
    """The gateway hands documents on: it is told where, and with which token. What was configured stays."""
    door, room = _settings("gateway"), _settings("knowledge")
    token = room.token or door.knowledge_token or SecretStr(secrets.token_urlsafe(32))
    knowledge["token"], gateway["knowledge_token"] = token, door.knowledge_token or token
    if not door.knowledge_url:
        knowledge["port"] = room.port or free_port()
        gateway["knowledge_url"] = f"http://{room.host}:{knowledge['port']}"


def _announce(out: Output, common: Common, running: list[Running]) -> None:
    urls = {each.name: each.url for each in running}
    state = Path(common.state)
    _write(state / "rooms.json", {"pid": os.getpid(), "nats": common.nats_url, "rooms": urls})
    if "gateway" in urls:
        _remember(state / "cli.json", urls["gateway"])
    if out.json:
        out.data({"pid": os.getpid(), "nats": common.nats_url, "rooms": urls})
        return
    out.table(("ROOM", "URL (/healthz /readyz /metrics)"), list(urls.items()))
    if "monitor" in urls:
        out.head("Alertmanager, to send its alerts here")
        out.say(SNIPPET.format(url=urls["monitor"]))
    out.say("\nCtrl-C stops.")


SNIPPET = """\
receivers:
  - name: autopatch
    webhook_configs:
      - url: {url}/v1/webhooks/alertmanager
        send_resolved: true
        http_config:
          authorization: {{type: Bearer, credentials_file: /path/to/the/webhook/token}}"""


def _remember(path: Path, url: str) -> None:
    """Later commands find this gateway with the token that was kept before."""
    kept = read_kept(path)
    if kept and kept.url != url:
        keep(path, url, kept.token.get_secret_value())


def _write(path: Path, value: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".new")
    draft.write_text(json.dumps(value, indent=2) + "\n")
    draft.replace(path)

