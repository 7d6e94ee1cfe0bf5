"""The Docker engine: the one that answers already, or a private one that ends with its last user. Standard library only."""

import fcntl
import os
import subprocess
from contextlib import suppress
from pathlib import Path

from autopatch.cli import locks
from autopatch.cli.lab.programs import ROOT, find
from autopatch.contract.errors import Unavailable

FOLDER = ROOT / ".cache" / "engine"
"""A private engine's files; its images stay there for the next time."""
LABEL = "org.autopatch.lab"
"""On every container that the lab starts; its value names the lab."""


class Engine:
    """`host` is the DOCKER_HOST once started. The private engine is shared: who stops last stops it."""

    def __init__(self, folder: Path = FOLDER, log: Path | None = None) -> None:
        self.folder = folder
        self.host = ""
        self._log = log or folder / "engine.log"
        self._users = -1

    def start(self) -> None:
        """Find or start it. Raises Unavailable with the remedy."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._users = os.open(self.folder / "users", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._users, fcntl.LOCK_SH)
        try:
            self.host = self._script("engine.sh", "start", str(self.folder)).strip()
        except Unavailable:
            self.stop()
            raise

    def stop(self) -> None:
        """Leave it; a private engine that nobody else uses ends. Safe to repeat."""
        if self._users < 0:
            return
        try:
            fcntl.flock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._script("engine.sh", "stop", str(self.folder))
        except BlockingIOError:
            pass  # somebody else uses it
        finally:
            os.close(self._users)
            self._users, self.host = -1, ""

    def build_images(self) -> list[str]:
        """Build those that are out of date; the names of all. Raises Unavailable."""
        return self._script("build.sh", settings=[f"DOCKER_HOST={self.host}"]).split()

    def docker(self, *arguments: str, timeout_s: float = 60) -> str:
        """What `docker ARGUMENTS` prints. Raises Unavailable with what it complains about."""
        command = [str(find("docker")), "--host", self.host, *arguments]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
        except subprocess.TimeoutExpired:
            raise Unavailable("docker", f"`docker {arguments[0]}` took more than {timeout_s:.0f} s") from None
        if done.returncode:
            raise Unavailable("docker", f"`docker {' '.join(arguments[:3])} …`: {done.stderr.strip()[-300:]}")
        return done.stdout.strip()

    def containers(self, lab: str = "") -> list[str]:
        """Ids of the lab's containers, or of all labs'."""
        label = f"label={LABEL}={lab}" if lab else f"label={LABEL}"
        return self.docker("ps", "--all", "--quiet", "--filter", label).split()

    def remove(self, containers: list[str]) -> None:
        """Kill and remove them with their anonymous volumes."""
        if containers:
            self.docker("rm", "--force", "--volumes", *containers)

    def _script(self, name: str, *arguments: str, settings: list[str] | None = None) -> str:
        script = ROOT / "infra" / "images" / name
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("a+") as log:
            start = log.tell()
            command = ["env", *(settings or []), str(script), *arguments]
            # the engine that it leaves behind must not hold our pipe or our lock
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True, check=False)
            log.seek(start)
            said = [line for line in log.read().splitlines() if line.strip()]
        if done.returncode:
            raise Unavailable("docker", said[-1] if said else f"{script} failed with exit code {done.returncode}")
        return done.stdout


def left(host: str, lab: str, folder: Path = FOLDER) -> list[str]:
    """What a lab that has ended left: its containers on the engine at `host`, and a private engine that nobody uses any more.

    Raises Unavailable when the engine at `host` is there and does not tell.
    """
    engine, socket = Engine(folder), host.removeprefix("unix://")
    engine.host = host
    gone = not host or (socket != host and not Path(socket).exists())
    found = [] if gone else [f"container {one}" for one in engine.containers(lab)]
    if pid := _private(folder):
        with locks.held(folder / "users") as unused:
            found += [f"a private Docker engine (process {pid})"] if unused else []
    return found


def _private(folder: Path) -> int:
    """The process of that folder's engine; 0 when it does not run. Its pid file may be of a process that is gone."""
    ours = f"--data-root\0{folder.resolve()}/data\0".encode()
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if ours in command.read_bytes():
                return int(command.parent.name)
    return 0
