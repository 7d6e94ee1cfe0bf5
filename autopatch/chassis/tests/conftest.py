"""A fresh nats-server per test."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from autopatch.chassis import admin
from autopatch.chassis.bus import Bus, connect
from autopatch.chassis.tests.nats_server import NatsServer


@pytest.fixture
def nats_server(tmp_path: Path) -> Iterator[NatsServer]:
    server = NatsServer(tmp_path).start()
    yield server
    server.kill()


@pytest.fixture
async def bus(nats_server: NatsServer) -> AsyncIterator[Bus]:
    made = await connect(nats_server.url, "executor", budget_s=10)
    await admin.prepare(made, admin.Limits(ack_wait_s=2))
    yield made
    await made.client.close()
