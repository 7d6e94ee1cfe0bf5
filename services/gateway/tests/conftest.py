"""The gateway on a chassis in memory, behind real routes."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx2
import pytest

from autopatch.chassis.http import application
from services.gateway.adapters.http.tokens import mint, write
from services.gateway.service import build
from services.gateway.settings import Settings
from services.gateway.tests.fakes import FakeChassis
from services.gateway.tests.story import target

PEOPLE = {
    "vic": ("viewer", True), "olga": ("operator", True), "ann": ("approver", True), "bob": ("approver", True),
    "root": ("admin", True), "robot": ("approver", False),
}
As = Callable[[str], httpx2.AsyncClient]


async def _ready() -> dict[str, str]:
    return {}


@pytest.fixture
def chassis() -> FakeChassis:
    return FakeChassis(target())


@pytest.fixture
def tokens(tmp_path: Path) -> dict[str, str]:
    made = {name: mint(name, role, person=person) for name, (role, person) in PEOPLE.items()}  # type: ignore[arg-type]
    write(tmp_path / "tokens.yaml", [entry for _, entry in made.values()])
    return {name: token for name, (token, _) in made.items()}


@pytest.fixture
async def person(chassis: FakeChassis, tokens: dict[str, str], tmp_path: Path) -> AsyncIterator[As]:
    """A client with that person's token; '' has none."""
    room = build(Settings(tokens_file=str(tmp_path / "tokens.yaml")), chassis)
    transport = httpx2.ASGITransport(application("gateway", room.routers, _ready))
    clients: list[httpx2.AsyncClient] = []

    def make(name: str) -> httpx2.AsyncClient:
        headers = {"Authorization": f"Bearer {tokens[name]}"} if name else {}
        clients.append(httpx2.AsyncClient(transport=transport, base_url="http://gateway.test", headers=headers))
        return clients[-1]

    yield make
    for client in clients:
        await client.aclose()
