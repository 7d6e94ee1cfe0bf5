"""Stores for the tests; one suite runs over both adapters."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from qdrant_client import QdrantClient

from services.knowledge.adapters.edge import EdgeStore
from services.knowledge.adapters.server import ServerStore
from services.knowledge.ports import Store


@pytest.fixture(params=["edge", "server"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    made: Store = EdgeStore(tmp_path / "qdrant") if request.param == "edge" else ServerStore(lambda: QdrantClient(":memory:"))
    await made.open()
    yield made
    await made.close()


@pytest.fixture
async def edge(tmp_path: Path) -> AsyncIterator[EdgeStore]:
    made = EdgeStore(tmp_path / "qdrant")
    await made.open()
    yield made
    await made.close()
