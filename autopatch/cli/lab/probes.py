"""Free ports, and questions that tell whether a server is ready."""

import socket
from collections.abc import Callable

import httpx2

LOOPBACK = "127.0.0.1"

Probe = Callable[[], str]
"""Returns '' when the server is ready, else what it still lacks."""


def free_port() -> int:
    """A TCP port of the loopback that is free now; somebody else may take it before it is used, so starts are retried."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


class Reserved:
    """Free ports by name, kept from being given to anybody who asks for any free port until `close`.

    They are bound and not listened on, so that a server that is told their number can still have them.
    """

    def __init__(self, *names: str) -> None:
        self._sockets = {name: socket.socket() for name in names}
        for held in self._sockets.values():
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind((LOOPBACK, 0))

    def __getitem__(self, name: str) -> int:
        return int(self._sockets[name].getsockname()[1])

    def all(self) -> list[int]:
        """The ports."""
        return [self[name] for name in self._sockets]

    def close(self) -> None:
        """Give them back. Safe to repeat."""
        for held in self._sockets.values():
            held.close()


def is_free(port: int) -> bool:
    """Can somebody listen on this port of the loopback now?"""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def answers_http(url: str, says: str = "") -> Probe:
    """Ready when `url` answers 2xx and its body contains `says`."""

    def probe() -> str:
        try:
            # a proxy of the environment has no business between us and the loopback
            answer = httpx2.get(url, timeout=2, trust_env=False)
        except httpx2.HTTPError as error:
            return f"{url}: {type(error).__name__}"
        if not answer.is_success:
            return f"{url}: status {answer.status_code}"
        return "" if says in answer.text else f"{url}: does not say {says!r} yet"

    return probe


def greets(port: int, says: bytes) -> Probe:
    """Ready when who listens on the port sends a first line that contains `says`."""

    def probe() -> str:
        try:
            with socket.create_connection((LOOPBACK, port), timeout=2) as connection:
                line = connection.makefile("rb").readline(65536)
        except OSError as error:
            return f"port {port}: {error.strerror or type(error).__name__}"
        return "" if says in line else f"port {port}: greets without {says.decode()!r}"

    return probe


def listens(port: int) -> Probe:
    """Ready when somebody accepts connections on the port."""

    def probe() -> str:
        try:
            socket.create_connection((LOOPBACK, port), timeout=2).close()
        except OSError as error:
            return f"port {port}: {error.strerror or type(error).__name__}"
        return ""

    return probe
