"""GitHub's own description of its API, served by a mock that refuses what the description does not allow."""

import json
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from autopatch.contract.errors import Unavailable

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / ".cache" / "prism"
PACKAGES = ("@octokit/openapi@23.0.2", "@stoplight/prism-cli@5.14.2")
PATHS = ("/repos/{owner}/{repo}", "/repos/{owner}/{repo}/pulls")
CUT = FOLDER / "pulls.json"
INSTALL_S = 110
START_S = 60


@contextmanager
def served(log: Path) -> Iterator[str]:
    """The address of a running mock. Raises Unavailable with the reason when it cannot be had here."""
    program = FOLDER / "node_modules" / ".bin" / "prism"
    if not CUT.exists() or not program.exists():
        _install()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(program), "mock", "--host", "127.0.0.1", "--port", str(port), str(CUT)]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as mock:
        try:
            _wait(mock, port, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            mock.terminate()


def _wait(mock: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and mock.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise Unavailable("prism", f"does not serve GitHub's description: {log.read_text(errors='replace')[-300:]}")


def _install() -> None:
    if not (npm := shutil.which("npm")):
        raise Unavailable("npm", "not found in PATH", tip="install Node 18 or newer")
    FOLDER.mkdir(parents=True, exist_ok=True)
    command = [npm, "install", "--no-audit", "--no-fund", "--no-save", "--ignore-scripts", "--loglevel=error", *PACKAGES]
    try:
        done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    except subprocess.TimeoutExpired:
        raise Unavailable("npm", f"{' '.join(PACKAGES)} were not installed within {INSTALL_S} s") from None
    if done.returncode:
        raise Unavailable("npm", f"{' '.join(PACKAGES)} cannot be installed: {done.stderr.strip()[-300:]}")
    described = FOLDER / "node_modules" / "@octokit" / "openapi"
    draft = CUT.with_suffix(".new")
    draft.write_text(json.dumps(_cut(json.loads((described / "generated" / "api.github.com.json").read_text()))))
    draft.replace(CUT)
    shutil.rmtree(described)


def _cut(whole: dict[str, Any]) -> dict[str, Any]:
    """The same description with two paths and what they refer to: all of it takes the mock half a minute to read."""
    kept: dict[str, Any] = {key: whole[key] for key in ("openapi", "info", "servers") if key in whole}
    kept["paths"] = {path: whole["paths"][path] for path in PATHS}
    components: dict[str, dict[str, Any]] = {}
    unread = [json.dumps(kept["paths"])]
    while unread:
        for kind, name in re.findall(r'"\$ref": "#/components/([^/"]+)/([^"]+)"', unread.pop()):
            if name not in components.setdefault(kind, {}):
                components[kind][name] = whole["components"][kind][name]
                unread.append(json.dumps(components[kind][name]))
    return {**kept, "components": components}
