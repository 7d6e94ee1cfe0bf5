"""What a run may not do. Each entry stops an attack that docs/decisions names; none is optional."""

import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from docker.types import LogConfig, Ulimit

from services.executor.adapters.sandbox.job import Job

NOBODY = 65534
WORK = "/work"
MIB = 1024 * 1024
GO = ".autopatch-go"
READY = ".autopatch-ready"
SITE = "/opt/autopatch/site"
"""Where images with a repository's dependencies have Python's; Node's are in /node_modules."""
ENVIRONMENT = {
    "PATH": f"{SITE}/bin:/node_modules/.bin:/usr/local/bin:/usr/bin:/bin", "HOME": WORK, "TMPDIR": "/tmp", "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
}
_STARTER = f"until [ {WORK}/{GO} -ot {WORK} ]; do sleep 0.02; done; rm -f {WORK}/{GO}; "
"""Files can be put into a sized volume only while a container runs, so the command waits for the last of them to be whole: the
engine makes a file, gives it its owner and mode, and then its time, which is 1970."""


@dataclass(frozen=True)
class Limits:
    """Sizes in bytes. Under runsc the process limit counts the sandbox's own threads, so it is wider there and bounded inside."""

    memory: int = 256 * MIB
    processes: int = 128
    cpus: float = 1.0
    work: int = 64 * MIB
    scratch: int = 64 * MIB
    file: int = 64 * MIB
    inodes: int = 4096
    output: int = 16 * 1024

    def for_job(self, job: Job) -> "Limits":
        """With room for what the job's files unpack to."""
        more = {name: getattr(self, name) + job.more_bytes for name in ("memory", "work", "scratch")}
        return replace(self, **more, inodes=self.inodes + job.more_files)


def volume_options(limits: Limits) -> dict[str, str]:
    """A volume in memory, owned by nobody."""
    options = f"size={limits.work},uid={NOBODY},gid={NOBODY},mode=0700,nosuid,nodev,nr_inodes={limits.inodes}"
    return {"type": "tmpfs", "device": "tmpfs", "o": options}


def container_options(limits: Limits, volume: str, runtime: str, job: Job) -> dict[str, Any]:
    """Arguments for docker's `create`, without image, name and labels."""
    inside = runtime == "runsc"
    within = [f'{_STARTER}exec "$@"', "sh"] if job.first else [f'{_STARTER}exec timeout -k 1 "$0" "$@"', f"{job.timeout_s:g}"]
    return {
        "entrypoint": ["sh", "-c", *within],
        "command": list(job.command),
        "runtime": runtime,
        "user": f"{NOBODY}:{NOBODY}",
        "working_dir": WORK,
        "environment": ENVIRONMENT,
        "network_mode": "none",
        "ipc_mode": "private",
        "init": not job.first,
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges", f"seccomp={files(__package__).joinpath('seccomp.json').read_text()}"],
        "mem_limit": limits.memory,
        "memswap_limit": limits.memory,
        "pids_limit": 1024 if inside else limits.processes,
        "nano_cpus": int(limits.cpus * 1e9),
        "cpu_shares": 512,
        "shm_size": 8 * MIB,
        "tmpfs": {"/tmp": f"rw,nosuid,nodev,size={limits.scratch},nr_inodes={limits.inodes}"},
        "volumes": [f"{volume}:{WORK}"],
        "ulimits": _ulimits(limits, inside),
        "log_config": LogConfig(type="none"),
        "hostname": "sandbox",
        "stdin_open": False,
        "tty": False,
        "detach": True,
    }


def _ulimits(limits: Limits, inside: bool) -> list[Ulimit]:
    bounds = {"nofile": 1024, "core": 0, "fsize": limits.file, **({"nproc": limits.processes} if inside else {})}
    return [Ulimit(name=name, soft=bound, hard=bound) for name, bound in bounds.items()]


def archive(contents: Mapping[str, bytes], owner: int = NOBODY) -> bytes:
    """Files in their order, with their folders."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        folders: set[str] = set()
        for path, data in contents.items():
            parts = path.split("/")
            for depth in range(1, len(parts)):
                folder = "/".join(parts[:depth])
                if folder not in folders:
                    folders.add(folder)
                    tar.addfile(_entry(folder, 0, tarfile.DIRTYPE, owner))
            tar.addfile(_entry(path, len(data), tarfile.REGTYPE, owner), io.BytesIO(data))
    return made.getvalue()


def _entry(name: str, size: int, kind: bytes, owner: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.type, entry.uid, entry.gid = size, kind, owner, owner
    entry.mode = 0o755 if kind == tarfile.DIRTYPE else 0o644
    return entry
