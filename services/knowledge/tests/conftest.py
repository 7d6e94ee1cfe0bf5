"""Stores for the tests; one suite runs over both adapters."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from qdrant_client import QdrantClient

from services.knowledge.adapters.stores.edge import EdgeStore
from services.knowledge.adapters.stores.server import ServerStore
from services.knowledge.ports import Store


@pytest.fixture(scope="session")
def empty_shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as the engine makes it, once: making it anew for each test would cost more than the tests."""
    folder = tmp_path_factory.mktemp("empty") / "qdrant"

    async def make() -> None:
        made = EdgeStore(folder)
        await made.open()
        await made.close()

    asyncio.run(make())
    return folder


def copied(folder: Path, to: Path) -> None:
    """Holes stay holes: the engine's files are 300 MB wide and hold 400 kB, and where /tmp is memory that fills it."""
    subprocess.run(["cp", "-a", "--sparse=always", str(folder), str(to)], check=True)


@pytest.fixture(params=["edge", "server"])
async def store(request: pytest.FixtureRequest, tmp_path: Path, empty_shards: Path) -> AsyncIterator[Store]:
    copied(empty_shards, tmp_path / "qdrant")
    made: Store = EdgeStore(tmp_path / "qdrant") if request.param == "edge" else ServerStore(lambda: QdrantClient(":memory:"))
    await made.open()
    yield made
    await made.close()


@pytest.fixture
async def edge(tmp_path: Path, empty_shards: Path) -> AsyncIterator[EdgeStore]:
    copied(empty_shards, tmp_path / "qdrant")
    made = EdgeStore(tmp_path / "qdrant")
    await made.open()
    yield made
    await made.close()
