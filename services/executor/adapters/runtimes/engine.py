"""The way to the Docker engine. Each piece of work has a client and a thread of its own, and a missing engine is told as such."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TypeVar

import docker
import requests
from docker import DockerClient
from docker.errors import APIError, DockerException

from autopatch.contract.errors import Unavailable

T = TypeVar("T")
THREADS = 256
"""Made on demand. Each of two sandboxes' runs has two and a spare has one or two: what kills them must find one that is free."""


class Engine:
    """A Docker engine, 20.10 or newer, by its address; empty: the machine's own socket."""

    def __init__(self, host: str = "", *, timeout_s: float = 60) -> None:
        self.host = host or "unix:///var/run/docker.sock"
        self._timeout_s = timeout_s
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="docker")

    async def do(self, work: Callable[[DockerClient], T], *, timeout_s: float | None = None) -> T:
        """Raises Unavailable when the engine cannot be reached; its own refusals (docker.errors.APIError) pass through."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._done, work, timeout_s or self._timeout_s)

    async def surely(self, work: Callable[[DockerClient], T]) -> T:
        """The same, but a cancellation waits until the work has ended, so that what it made is there to be removed."""
        doing = asyncio.ensure_future(self.do(work))
        try:
            return await asyncio.shield(doing)
        except asyncio.CancelledError:
            await asyncio.wait([doing])
            raise

    def _done(self, work: Callable[[DockerClient], T], timeout_s: float) -> T:
        try:
            with closing(docker.DockerClient(base_url=self.host, version="auto", timeout=int(timeout_s) or 1)) as client:
                return work(client)
        except APIError:
            raise
        except (DockerException, requests.RequestException) as error:
            tip = "start the engine, or name one that runs with DOCKER_HOST; `autopatch doctor` looks"
            raise Unavailable("docker", f"{self.host} does not answer", tip=tip) from error
