"""The gateway on a real port, in a thread of its own, for whoever talks to it from outside."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from autopatch.chassis.http import HttpServer, application
from services.gateway.adapters.http.tokens import mint, write
from services.gateway.service import build
from services.gateway.settings import Settings
from services.gateway.tests.conftest import PEOPLE, _ready
from services.gateway.tests.fakes import FakeChassis


@dataclass
class Served:
    """Where it is and who may enter."""

    url: str
    tokens: dict[str, str]
    chassis: FakeChassis


@contextmanager
def served(folder: Path, chassis: FakeChassis, *, port: int = 0, **settings: float) -> Iterator[Served]:
    """Until the block ends. Tokens are made once per folder, so that a second server knows them too."""
    made = {name: mint(name, role, person=person) for name, (role, person) in PEOPLE.items()}  # type: ignore[arg-type]
    path, kept = folder / "tokens.yaml", folder / "plain"
    if not path.exists():
        write(path, [entry for _, entry in made.values()])
        kept.write_text("\n".join(f"{name} {token}" for name, (token, _) in made.items()))
    ready, done, loop = threading.Event(), asyncio.Event(), asyncio.new_event_loop()
    address: list[int] = []

    async def serve() -> None:
        room = build(Settings(tokens_file=str(path), **settings), chassis)  # type: ignore[arg-type]
        server = HttpServer(application("gateway", room.routers, _ready), "127.0.0.1", port)
        address.append(server.port)
        task = asyncio.create_task(server.serve())
        ready.set()
        await done.wait()
        server.stop()
        for hook in room.on_stop:
            await hook()
        await task

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        tokens = dict(line.split() for line in kept.read_text().splitlines())
        yield Served(f"http://127.0.0.1:{address[0]}", tokens, chassis)
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join(10)
        assert not thread.is_alive(), "the gateway did not end"
        loop.close()
