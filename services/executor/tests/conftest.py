"""What the tests marked docker have of their engine."""

import os
import uuid
from collections.abc import Iterator

import docker
import pytest
from docker import DockerClient
from docker.errors import DockerException

from services.executor.adapters.runtimes.engine import Engine


@pytest.fixture(scope="session")
def client(docker_host: str) -> Iterator[DockerClient]:
    """A client of that engine."""
    try:
        made = docker.DockerClient(base_url=docker_host, version="auto", timeout=60)
    except DockerException as error:
        pytest.skip(f"the Docker engine at {docker_host} does not answer: {error}")
    yield made
    made.close()


@pytest.fixture(scope="session")
def image(client: DockerClient) -> str:
    """An image with Python."""
    tags = sorted(tag for found in client.images.list() for tag in found.tags if tag.startswith("autopatch-sandbox:"))
    wanted = os.environ.get("AUTOPATCH_TEST_IMAGE") or (tags[0] if tags else "")
    if not wanted:
        pytest.skip("no image autopatch-sandbox:* on the engine: infra/images/build.sh makes it")
    return wanted


@pytest.fixture(scope="session")
def node_image(client: DockerClient) -> str:
    """An image with Node."""
    tags = sorted(tag for found in client.images.list() for tag in found.tags if tag.startswith("autopatch-sandbox-node:"))
    if not tags:
        pytest.skip("no image autopatch-sandbox-node:* on the engine: infra/images/build.sh makes it")
    return tags[0]


@pytest.fixture(scope="session")
def npm_image(client: DockerClient, node_image: str) -> str:
    """The same, where it has npm."""
    try:
        client.containers.run(node_image, ["npm", "--version"], network_mode="none", remove=True)
    except DockerException:
        pytest.skip(f"no npm in {node_image}: infra/images/build.sh puts it there where this machine has one")
    return node_image


@pytest.fixture
def engine(client: DockerClient, docker_host: str) -> Engine:
    """The executor's own way to that engine."""
    return Engine(docker_host)


@pytest.fixture
def name(client: DockerClient) -> Iterator[str]:
    """A container name of this test's own; what bears it is removed afterwards."""
    made = f"autopatch-test-{uuid.uuid4().hex[:10]}"
    yield made
    for container in client.containers.list(all=True, filters={"name": made}):
        container.remove(force=True)

collect_ignore_glob = ["attacks/*", "forgeries/*"]
"""Programs for the sandbox."""
