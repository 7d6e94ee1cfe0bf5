"""Debian packages: only those that are missing, only as root, and without starting the services that they bring."""

import ctypes
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from infra.setup.steps import Failed, Report, run

Needs = Mapping[str, Callable[[], bool]]
"""Package -> is what we want of it here already?"""

POLICY = Path("/usr/sbin/policy-rc.d")
APT = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=120"]


def program(*names: str) -> Callable[[], bool]:
    """Is one of the programs on the path, or where Debian puts servers?"""
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
    return lambda: any(shutil.which(name, path=path) for name in names)


def library(name: str) -> Callable[[], bool]:
    """Can a shared library be loaded?"""

    def here() -> bool:
        try:
            ctypes.CDLL(name)
        except OSError:
            return False
        return True

    return here


def _venv() -> bool:
    try:
        import ensurepip
    except ImportError:
        return False
    return bool(ensurepip.version())


def _engine() -> bool:
    if not shutil.which("docker"):
        return False
    return program("dockerd")() or subprocess.run(["docker", "version"], capture_output=True, check=False).returncode == 0


FIRST: Needs = {"python3-venv": _venv}
"""What the virtual environment needs."""

SERVERS: Needs = {
    "docker.io": _engine,
    "prometheus": program("prometheus"),
    "prometheus-alertmanager": program("prometheus-alertmanager", "alertmanager"),
    "mmdebstrap": program("mmdebstrap"),
    "xz-utils": program("xz"),
    "util-linux": program("setpriv"),
    "libgomp1": library("libgomp.so.1"),
}


def install(report: Report, needs: Needs) -> None:
    """Raises Failed, with the command to run by hand where we cannot."""
    missing = [package for package, here in needs.items() if not here()]
    if not missing:
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        by_hand = f"sudo apt-get install {' '.join(missing)}"
        raise Failed(f"packages: missing here: {', '.join(missing)}. On Debian: {by_hand}", exit_code=2)
    with report.doing("packages", f"installing {', '.join(missing)}"), _no_services():
        _install(missing)
        if "docker.io" in missing and not shutil.which("docker"):
            _install(["docker-cli"])  # a package of its own since Debian 13


def _install(missing: list[str]) -> None:
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = [*APT, "install", "-y", "--no-install-recommends", *missing]
    try:
        run("packages", command, env)
    except Failed:  # no lists of packages yet, or old ones
        run("packages", [*APT, "update"], env)
        run("packages", command, env)


@contextmanager
def _no_services() -> Iterator[None]:
    """Debian starts what it installs, unless this file says no: the demo starts its own, on its own ports."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink(missing_ok=True)


__all__ = ["FIRST", "SERVERS", "install"]
