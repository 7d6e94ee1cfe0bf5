"""The virtual environment in .venv, with exactly the versions of constraints.txt."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from infra.setup.steps import ROOT, Failed, Report, Stamp, run

OLDEST = (3, 11)
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
EXTRAS = {"demo": "all,lab", "dev": "dev"}
"""Profile -> extras of pyproject.toml; `dev` has all of `demo`."""


def check_version() -> None:
    """Raises Failed when this Python is too old."""
    if sys.version_info < OLDEST:
        found, wanted = (".".join(map(str, v)) for v in (sys.version_info[:2], OLDEST))
        raise Failed(f"python: this is Python {found}, at least {wanted} is needed: make PYTHON=python{wanted} …", exit_code=2)


def environment(report: Report, profile: str) -> None:
    """Make or bring up to date the environment; nothing to do when versions and extras are what was installed last."""
    inputs = (ROOT / "pyproject.toml", ROOT / "constraints.txt", sys.version)
    stamps = {name: Stamp(f"python-{name}", *inputs, extras, str(VENV)) for name, extras in EXTRAS.items()}
    if PYTHON.exists() and (stamps[profile].fresh or stamps["dev"].fresh):
        return
    with report.doing("python", f"installing the extras {EXTRAS[profile]} into {VENV.name}"):
        if not _works():
            shutil.rmtree(VENV, ignore_errors=True)
            run("python", [sys.executable, "-m", "venv", VENV])
        _install(report, f"{ROOT}[{EXTRAS[profile]}]")
        stamps[profile].set()


def _works() -> bool:
    if not PYTHON.exists():
        return False
    return subprocess.run([PYTHON, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0


def _install(report: Report, what: str) -> None:
    """With uv, which is several times quicker; with pip where uv cannot be had or fails."""
    constraints = str(ROOT / "constraints.txt")
    pip = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "-c", constraints]
    uv = [str(VENV / "bin" / "uv"), "pip", "install", "--quiet", "--python", str(PYTHON), "-c", constraints]
    try:
        run("python", [*pip, "uv"])
        run("python", [*uv, "--index-strategy", "unsafe-best-match", *_pip_settings(), "-e", what], _env())
    except Failed as failure:
        reason = str(failure).splitlines()[-1].strip()[:120]
        report.say("python", f"uv did not work ({reason}); trying pip, which takes longer")
        run("python", [*pip, "--no-compile", "-e", what])


def _pip_settings() -> list[str]:
    """Options for uv that say what pip's configuration says: it reads none of it."""
    told = {}
    for line in run("python", [PYTHON, "-m", "pip", "config", "list"]).splitlines():
        key, _, value = line.partition("=")
        told[key.rpartition(".")[2]] = value.strip("'\"").replace("\\n", " ").split()
    options: list[str] = []
    for key, flag in (("index-url", "--default-index"), ("extra-index-url", "--index"), ("find-links", "--find-links")):
        for place in told.get(key, []):
            if not place.startswith(("file:", "/")) or Path(place.removeprefix("file://")).is_dir():
                options += [flag, place]
    return options


def _env() -> dict[str, str]:
    """uv reads its certificates from elsewhere than pip, and must not be led into another environment."""
    env = {**os.environ, "UV_LINK_MODE": "copy" if _crosses() else "hardlink"}
    env.pop("VIRTUAL_ENV", None)
    if "PIP_CERT" in env:
        env.setdefault("SSL_CERT_FILE", env["PIP_CERT"])
    return env


def _crosses() -> bool:
    cache = Path.home() / ".cache"
    return not cache.exists() or cache.stat().st_dev != ROOT.stat().st_dev
