"""A model server that says what it is told to, in order, and remembers what it was asked."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pydantic import SecretStr

from autopatch.chassis.llm.endpoint import Endpoint

KEY = "secret-of-the-server"
PROMPT, OUTPUT = 100, 10
"""Tokens that each answer is said to have cost."""


class Scripted:
    """The last answer is repeated. `asked` are the requests' bodies."""

    def __init__(self, answers: list[str]) -> None:
        self.answers = answers
        self.asked: list[dict[str, Any]] = []
        self.endpoint = Endpoint("", "scripted", SecretStr(KEY))

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        text = self.answers[min(len(self.asked), len(self.answers) - 1)]
        self.asked.append(body)
        message = {"role": "assistant", "content": text}
        return {
            "id": "1", "object": "chat.completion", "created": 1, "model": "scripted",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": PROMPT, "completion_tokens": OUTPUT, "total_tokens": PROMPT + OUTPUT},
        }


@contextmanager
def scripted(*answers: str) -> Iterator[Scripted]:
    """On a free port of this machine, until the end of the block."""
    made = Scripted(list(answers))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:  # noqa: N802 - the name that http.server looks for
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            allowed = self.headers.get("Authorization") == f"Bearer {KEY}"
            data = json.dumps(made.answer(body) if allowed else {"error": {"message": "wrong key"}}).encode()
            self.send_response(200 if allowed else 401)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    made.endpoint = Endpoint(f"http://127.0.0.1:{server.server_port}/v1", "scripted", SecretStr(KEY))
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
