"""GitHub's own description of its API, served by a mock that refuses what the description does not allow."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from autopatch.cli.lab.probes import free_port, listens
from autopatch.cli.lab.process import Server, on_free_port
from autopatch.contract.errors import Unavailable

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / ".cache" / "prism"
PACKAGES = ("@octokit/openapi@23.0.2", "@stoplight/prism-cli@5.14.2")
PATHS = ("/repos/{owner}/{repo}", "/repos/{owner}/{repo}/pulls")
CUT = FOLDER / "pulls.json"
INSTALL_S = 110


def served(log: Path) -> tuple[Server, str]:
    """A running mock and its address. Raises Unavailable with the reason when it cannot be had here."""
    program = FOLDER / "node_modules" / ".bin" / "prism"
    if not CUT.exists() or not program.exists():
        _install()

    def make() -> "_Prism":
        return _Prism(program, free_port(), log)

    server = on_free_port(make)
    return server, f"http://127.0.0.1:{server.ports[0]}"


class _Prism(Server):
    def __init__(self, program: Path, port: int, log: Path) -> None:
        command = [program, "mock", "--host", "127.0.0.1", "--port", port, CUT]
        super().__init__("prism", command, log=log, ready=listens(port), ports=[port], deadline_s=60)


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
