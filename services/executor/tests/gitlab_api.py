"""GitLab's merge requests as its reference describes them, on a server that takes nothing else."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "glpat-right"
PROJECT = "group/sub/calc"
TAKEN = {"source_branch", "target_branch", "title", "description", "remove_source_branch"}
"""Of what the reference allows, what we send; anything else is refused."""


@dataclass
class State:
    """What the server holds. `url` is its API's address."""

    url: str = ""
    branches: set[str] = field(default_factory=lambda: {"main", "autopatch/calc-1"})
    requests: list[dict[str, Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    hide_once: bool = False


class _Handler(BaseHTTPRequestHandler):
    state: ClassVar[State]

    def do_GET(self) -> None:
        rest, query = self._entered()
        if rest == "":
            self._answer(200, {"id": 7, "default_branch": "main", "path_with_namespace": PROJECT})
        elif rest == "/merge_requests":
            branch, state = query.get("source_branch"), query.get("state")
            found = [r for r in self.state.requests if r["source_branch"] == branch and r["state"] == state]
            shown, self.state.hide_once = ([] if self.state.hide_once else found), False
            self._answer(200, shown)
        elif rest is not None:
            self._answer(404, {"error": "404 Not Found"})

    def do_POST(self) -> None:
        rest, _ = self._entered()
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if rest != "/merge_requests":
            return self._answer(404, {"error": "404 Not Found"}) if rest is not None else None
        missing = [name for name in ("source_branch", "target_branch", "title") if not isinstance(body.get(name), str)]
        if missing or set(body) - TAKEN:
            return self._answer(400, {"error": ", ".join(f"{name} is missing" for name in missing) or "unknown field"})
        if body["source_branch"] not in self.state.branches:
            return self._answer(422, {"message": {"source_branch": ["does not exist"]}})
        if any(r["source_branch"] == body["source_branch"] and r["state"] == "opened" for r in self.state.requests):
            return self._answer(409, {"message": ["Another open merge request already exists for this source branch: !1"]})
        number = len(self.state.requests) + 1
        made = {**body, "iid": number, "state": "opened", "web_url": f"https://gitlab.com/{PROJECT}/-/merge_requests/{number}"}
        self.state.requests.append(made)
        self._answer(201, made)

    def _entered(self) -> tuple[str | None, dict[str, str]]:
        """What follows the project in the path; None when it was answered already."""
        parts = urlsplit(self.path)
        self.state.asked.append(f"{self.command} {parts.path}")
        if self.headers.get("PRIVATE-TOKEN") != TOKEN:
            self._answer(401, {"message": "401 Unauthorized"})
            return None, {}
        begin, _, rest = parts.path.removeprefix("/api/v4/projects/").partition("/")
        if unquote(begin) != PROJECT or not parts.path.startswith("/api/v4/projects/"):
            self._answer(404, {"message": "404 Project Not Found"})
            return None, {}
        return (f"/{rest}" if rest else ""), {key: values[0] for key, values in parse_qs(parts.query).items()}

    def _answer(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@contextmanager
def served() -> Iterator[State]:
    """Until the block ends."""
    state = State()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"state": state}))
    state.url = f"http://127.0.0.1:{server.server_address[1]}/api/v4"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
