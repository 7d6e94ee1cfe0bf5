"""Where code that a model wrote is run: a container, or a process without network, disk and much memory.

python -m bench.repair.box [--limit-s S] -- COMMAND …    runs it as such a process on a copy of this folder
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

from bench.repair.case import write
from bench.repair.proc import Ran, run

MIB = 1024 * 1024
MEMORY = 1024 * MIB
"""Address space of a Python program. Node reserves more than it uses and is bounded by its heap instead."""
FILE = 16 * MIB
_GRACE_S = 5.0


class Box(Protocol):
    """Runs a command on a copy of files; whatever it does to them is lost."""

    @property
    def name(self) -> str:
        """For the report."""
        ...

    def run(self, files: Mapping[str, bytes], command: Sequence[str], limit_s: float) -> Ran:
        """Raises Unavailable when it can run nothing."""
        ...


def environment() -> dict[str, str]:
    """What a test run sees: the programs of this Python first, nothing of the caller's own settings."""
    path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
    return {
        "PATH": path, "HOME": "/tmp", "LANG": "C.UTF-8", "TZ": "UTC", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p no:cacheprovider",
        "NODE_OPTIONS": "--max-old-space-size=512",
    }


_SEAL = """
mount -t tmpfs -o size=64m,mode=1777 tmpfs /mnt && cp -R . /mnt/ || exit 125
while read -r _ where kind _; do
  case $kind in ext*|xfs|btrfs|overlay|zfs|f2fs|virtiofs|9p|nfs*|sysfs|cgroup*)
    mount -o remount,bind,ro "$where" || ! mountpoint -q "$where" || exit 125 ;; esac
done < /proc/self/mounts
case $PYTHON_HOME in /tmp/*|/run/*) mkdir /mnt/.python && mount --bind "$PYTHON_HOME" /mnt/.python || exit 125 ;; esac
for where in /tmp /run /dev/shm; do mount -t tmpfs -o size=64m,mode=1777 tmpfs "$where" || exit 125; done
if [ -d /mnt/.python ]; then
  mkdir -p "$PYTHON_HOME" && mount --bind /mnt/.python "$PYTHON_HOME" && mount -o remount,bind,ro "$PYTHON_HOME" || exit 125
  umount /mnt/.python && rmdir /mnt/.python || exit 125
fi
cd /mnt && exec setpriv --bounding-set=-all --inh-caps=-all --no-new-privs "$@"
"""
"""In namespaces of its own: a copy of this folder in memory is all that can be written, and no capability is left.

A virtual environment that lies in a folder which is hidden stays to be read.
"""


@cache
def _sealed() -> tuple[str, ...]:
    """The prefix that takes network, other processes and the disk away, or () where this machine does not let us."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    spaces = ["unshare", *user, "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    prefix = ["env", f"PYTHON_HOME={sys.prefix}", *spaces, "sh", "-c", _SEAL, "seal"]
    if not shutil.which("unshare") or not shutil.which("setpriv"):
        return ()
    with tempfile.TemporaryDirectory() as empty:
        done = subprocess.run([*prefix, "true"], cwd=empty, capture_output=True, check=False)
    return tuple(prefix) if done.returncode == 0 else ()


def confined(command: Sequence[str], limit_s: float) -> list[str]:
    """The command behind limits of processor seconds, file size and memory, sealed in where this machine lets us."""
    node = Path(command[0]).name in ("node", "npm", "npx")
    memory = [] if node else [f"--as={MEMORY}"]
    return ["prlimit", *memory, f"--cpu={int(limit_s) + 5}", f"--fsize={FILE}", "--core=0", *_sealed(), *command]


@dataclass
class ProcessBox:
    """A confined process on this machine, on a copy that nobody else uses."""

    name: str = ""

    def __post_init__(self) -> None:
        self.name = self.name or ("a sealed process" if _sealed() else "a process with limits only")

    def run(self, files: Mapping[str, bytes], command: Sequence[str], limit_s: float) -> Ran:
        """A fresh folder each time, gone afterwards."""
        with tempfile.TemporaryDirectory(prefix="bench-repair-") as folder:
            write(files, Path(folder))
            return run(confined(command, limit_s), Path(folder), environment(), limit_s)


@dataclass
class ContainerBox:
    """A container of the engine at `host`: no network, nothing of the host mounted, read-only but for memory."""

    host: str
    images: Mapping[str, str]
    name: str = "a container"

    def run(self, files: Mapping[str, bytes], command: Sequence[str], limit_s: float) -> Ran:
        """Files go in by standard input; the container is removed whatever happens."""
        from autopatch.repair.tree import write_archive

        name = f"bench-repair-{uuid.uuid4().hex[:12]}"
        docker = ["docker", "--host", self.host]
        image = self.images["node" if Path(command[0]).name == "node" else "python"]
        inside = ["sh", "-c", _INSIDE, f"{limit_s:g}", *command]
        env = {key: value for key, value in environment().items() if key not in ("PATH", "HOME")}
        settings = [f"--env={key}={value}" for key, value in env.items()]
        here = {"PATH": environment()["PATH"], "HOME": "/tmp"}
        try:
            ran = run(
                [*docker, "run", "--name", name, *_OPTIONS, *settings, image, *inside], Path("/"), here, limit_s + 4 * _GRACE_S,
                stdin=write_archive(files),
            )
        finally:
            run([*docker, "rm", "--force", "--volumes", name], Path("/"), here, 30)
        return Ran(None, ran.stdout, ran.stderr, ran.seconds) if ran.code in (124, 137) else ran


_INSIDE = 'mkdir /tmp/work && cd /tmp/work && tar -xzf - && exec timeout -k 1 "$0" "$@"'
_OPTIONS = (
    "--rm", "--interactive", "--init", "--network=none", "--read-only", "--user=65534:65534", "--cap-drop=ALL",
    "--security-opt=no-new-privileges", "--memory=512m", "--memory-swap=512m", "--pids-limit=256", "--env=HOME=/tmp",
    "--tmpfs=/tmp:rw,size=64m,mode=1777",
)


def main() -> int:
    """Exit code of the command; 124 at the limit."""
    parser = argparse.ArgumentParser("python -m bench.repair.box", description="Run a command on a copy of this folder.")
    parser.add_argument("--limit-s", type=float, default=60)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    command = given.command[1:] if given.command[:1] == ["--"] else given.command
    if not command:
        parser.error("no command")
    ran = run(confined(command, given.limit_s), Path.cwd(), environment(), given.limit_s)
    sys.stdout.write(ran.stdout)
    sys.stderr.write(ran.stderr)
    return 124 if ran.code is None else ran.code


if __name__ == "__main__":
    raise SystemExit(main())
