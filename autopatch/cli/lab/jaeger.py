"""A Jaeger that keeps its traces on disk."""

from pathlib import Path

from autopatch.cli.lab.probes import LOOPBACK, answers_http, free_port
from autopatch.cli.lab.process import Server, on_free_port
from autopatch.cli.lab.programs import CACHE, find
from autopatch.cli.lab.templates import render


class Jaeger(Server):
    """`url` is its page and query API, `otlp` where spans are sent to (OTLP over HTTP)."""

    def __init__(self, folder: Path, *, program: Path | None = None) -> None:
        otlp, grpc, query, query_grpc, health = ports = [free_port() for _ in range(5)]
        config = render(
            "jaeger/jaeger.yml", folder / "jaeger.yml", DATA=str(folder / "data"), OTLP_HTTP=otlp, OTLP_GRPC=grpc, QUERY=query,
            QUERY_GRPC=query_grpc, HEALTH=health,
        )
        self.url = f"http://{LOOPBACK}:{query}"
        self.otlp = f"http://{LOOPBACK}:{otlp}"
        command = [program or find("jaeger", folders=(CACHE,)), "--config", config]
        ready = answers_http(f"http://{LOOPBACK}:{health}/status", says="StatusOK")
        super().__init__("jaeger", command, log=folder / "jaeger.log", ready=ready, ports=ports)


def start(folder: Path, *, program: Path | None = None) -> Jaeger:
    """A running server whose files, traces included, are all in `folder`. Raises Unavailable."""
    return on_free_port(lambda: Jaeger(folder, program=program))
