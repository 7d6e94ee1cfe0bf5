"""A nats-server with JetStream that syncs every write."""

from pathlib import Path

from autopatch.cli.lab.probes import LOOPBACK, free_port, greets
from autopatch.cli.lab.process import Server, on_free_port
from autopatch.cli.lab.programs import at_least, find
from autopatch.cli.lab.templates import render

OLDEST = (2, 12, 0)
"""Scheduled messages came with it."""


class Nats(Server):
    """`url` is where to connect to. After `kill` or `stop`, `start` brings it back on the same port and data."""

    def __init__(self, folder: Path, port: int, *, authorization: str = "") -> None:
        data = str(folder / "data")
        config = render("nats/lab.conf.tmpl", folder / "nats.conf", port=port, store=data, authorization=authorization)
        command = [at_least(find("nats-server"), OLDEST), "--config", config]
        super().__init__("nats", command, log=folder / "nats.log", ready=greets(port, b'"jetstream":true'), ports=[port])
        self.folder = folder
        self.url = f"nats://{LOOPBACK}:{port}"


def start(folder: Path, *, port: int = 0, authorization: str = "") -> Nats:
    """A running server whose files are all in `folder`.

    `authorization` is a piece of nats-server configuration, such as an `accounts { … }` block.
    `port` 0 means a free one. Raises Unavailable.
    """
    return on_free_port(lambda: Nats(folder, port or free_port(), authorization=authorization))
