"""Stands between a tool and the model server and counts: calls, tokens as the server tells them, seconds.

The tool needs no key; the server's stays here. An answer is never longer than `longest` tokens, whatever the tool asks for.
"""

import json
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from autopatch.chassis.llm.endpoint import Endpoint
from autopatch.contract.errors import Unavailable

PATIENCE_S = 600.0


@dataclass
class Use:
    """What was asked of the model. `failed` counts calls that brought no answer; they are among `calls`."""

    calls: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0


@dataclass
class Proxy:
    """A context manager: `address` is an OpenAI-compatible URL up to and including /v1 while it is open."""

    upstream: Endpoint
    longest: int = 1024
    seed: int = 7
    use: Use = field(default_factory=Use)
    address: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _open: set[HTTPConnection] = field(default_factory=set)
    _away: str = ""
    _server: ThreadingHTTPServer | None = None

    def __enter__(self) -> "Proxy":
        proxy = self

        class Handler(_Handler):
            owner = proxy

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
        self.address = f"http://127.0.0.1:{self._server.server_port}/v1"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Calls that nobody waits for any more are dropped, so that the server stops generating."""
        assert self._server
        self._server.shutdown()
        with self._lock:
            dropped, self._open = self._open, set()
        for connection in dropped:
            if connection.sock:
                with suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)
        self._server.server_close()

    def reset(self) -> Use:
        """What was used since the last time. Raises Unavailable when the server was away, for no tool could show what it can."""
        with self._lock:
            used, self.use = self.use, Use()
        if self._away:
            raise Unavailable("model server", self._away, tip="the same command goes on from here")
        return used

    def forward(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """Status and body of the server's answer; 502 when it does not answer."""
        chat = path.endswith("/chat/completions")
        began = time.monotonic()
        status, answer = self._ask(method, path, self._bounded(body) if chat else body)
        if chat:
            self._count(status, answer, time.monotonic() - began)
        return status, answer

    def _bounded(self, body: bytes) -> bytes:
        asked: dict[str, Any] = json.loads(body)
        given = asked.pop("max_completion_tokens", None) or asked.get("max_tokens") or self.longest
        bounds = {"model": self.upstream.model, "max_tokens": min(given, self.longest)}
        return json.dumps({"seed": self.seed, **asked, **bounds}).encode()

    def _ask(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        url = urlsplit(self.upstream.base_url)
        kind = HTTPSConnection if url.scheme == "https" else HTTPConnection
        connection = kind(url.netloc, timeout=PATIENCE_S)
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.upstream.api_key.get_secret_value()}"}
        with self._lock:
            self._open.add(connection)
        try:
            connection.request(method, url.path.removesuffix("/v1") + path, body or None, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, HTTPException) as error:
            with self._lock:
                self._away = str(error) if connection in self._open else self._away
            return 502, json.dumps({"error": {"message": f"the model server does not answer: {error}"}}).encode()
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()

    def _count(self, status: int, answer: bytes, seconds: float) -> None:
        try:
            usage = json.loads(answer)["usage"] if status == 200 else {}
        except (ValueError, KeyError, TypeError):
            usage = {}
        with self._lock:
            self.use.calls += 1
            self.use.failed += status != 200
            self.use.prompt_tokens += usage.get("prompt_tokens", 0)
            self.use.output_tokens += usage.get("completion_tokens", 0)
            self.use.seconds += seconds


class _Handler(BaseHTTPRequestHandler):
    owner: Proxy
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server looks for
        self._answer(*self.owner.forward("GET", self.path, b""))

    def do_POST(self) -> None:  # noqa: N802
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            streaming = json.loads(body).get("stream")
        except (ValueError, AttributeError):
            self._answer(400, b'{"error": {"message": "the request is no JSON object"}}')
            return
        if streaming:
            self._answer(400, b'{"error": {"message": "answers are counted whole: ask without stream"}}')
            return
        self._answer(*self.owner.forward("POST", self.path, body))

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on the terminal: the progress bar is there."""

    def _answer(self, status: int, body: bytes) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
