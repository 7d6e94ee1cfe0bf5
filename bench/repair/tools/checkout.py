"""A case as a git repository with one commit, as a person would hand it over."""

import subprocess
from pathlib import Path

from bench.repair.case import Case, write

WHO = {
    "GIT_AUTHOR_NAME": "bench", "GIT_AUTHOR_EMAIL": "bench@localhost", "GIT_COMMITTER_NAME": "bench",
    "GIT_COMMITTER_EMAIL": "bench@localhost", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_DATE": "2024-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2024-01-01T00:00:00Z",
}
PLAIN = ("-c", "core.autocrlf=false", "-c", "core.hooksPath=/dev/null", "-c", "init.defaultBranch=main")


def make(case: Case, folder: Path) -> Path:
    """The repository in `folder`, named after the case."""
    repository = folder / case.id
    repository.mkdir(parents=True)
    write(case.repository, repository)
    for command in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "--message", "as it was found")):
        git(repository, *command)
    return repository


def git(folder: Path, *command: str, stdin: bytes = b"") -> bool:
    """Did it work? No settings of the person's or the machine's are read."""
    env = {**WHO, "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder)}
    done = subprocess.run(["git", *PLAIN, *command], cwd=folder, env=env, input=stdin, capture_output=True, check=False)
    return done.returncode == 0
