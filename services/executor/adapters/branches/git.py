"""Runs git so that neither a repository's own configuration nor the environment makes it start anything or ask anybody."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from autopatch.contract.errors import OperatorError, Refused, Unavailable

QUIET = {
    "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_LITERAL_PATHSPECS": "1",
    "GIT_PAGER": "cat", "LC_ALL": "C.UTF-8",
}
NEUTRAL = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_ATTR_NOSYSTEM": "1"}
SAFE = (
    "core.hooksPath=/dev/null", "core.fsmonitor=false", "core.untrackedCache=false", "core.quotePath=false", "core.pager=cat",
    "apply.whitespace=nowarn", "apply.ignoreWhitespace=no", "i18n.commitEncoding=UTF-8", "gc.auto=0", "maintenance.auto=false",
)
"""Over whatever the repository says: no hooks, no monitor, no conversion of what is applied."""
KEPT = ("PATH", "HOME", "XDG_CONFIG_HOME", "SSH_AUTH_SOCK", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""Of the environment: GIT_DIR, GIT_INDEX_FILE and their like do not come through."""


class GitFailed(Refused):
    """git said no; `said` is what it printed."""

    def __init__(self, command: str, said: str) -> None:
        super().__init__(f"git {command}: {said or 'failed'}")
        self.said = said


class Git:
    """One repository, or one folder inside it. `neutral`: the person's own configuration is not read either."""

    def __init__(self, folder: Path, *, environment: Mapping[str, str], neutral: bool = True, timeout_s: float = 60) -> None:
        """`environment`: that of the process; only `KEPT` of it reaches git."""
        self.folder = folder
        self._timeout_s = timeout_s
        kept = {name: environment[name] for name in KEPT if name in environment}
        self._environment = {**kept, **QUIET, **(NEUTRAL if neutral else {})}
        self._safe = [part for setting in (*SAFE, *(("safe.directory=*",) if neutral else ())) for part in ("-c", setting)]

    def run(self, *arguments: str, stdin: bytes = b"", extra: Mapping[str, str] | None = None) -> bytes:
        """What it prints. Raises GitFailed when it ends with another code than 0, Unavailable without git or in time."""
        command = ["git", *self._safe, *arguments]
        try:
            done = subprocess.run(
                command, cwd=self.folder, env={**self._environment, **(extra or {})}, input=stdin, capture_output=True,
                timeout=self._timeout_s, check=False,
            )
        except FileNotFoundError:
            if not self.folder.is_dir():
                raise OperatorError(f"{self.folder} is not a folder", tip="name the folder of a repository") from None
            raise Unavailable("git", "not found in PATH", tip="install git") from None
        except subprocess.TimeoutExpired:
            raise Unavailable("git", f"{arguments[0]} took more than {self._timeout_s:.0f} s in {self.folder}") from None
        if done.returncode:
            raise GitFailed(arguments[0], _short(done.stderr))
        return done.stdout

    def text(self, *arguments: str, stdin: bytes = b"", extra: Mapping[str, str] | None = None) -> str:
        """The same as text without the last line's end."""
        return self.run(*arguments, stdin=stdin, extra=extra).decode(errors="surrogateescape").rstrip("\n")

    def ask(self, *arguments: str) -> str:
        """The same, '' when git says no."""
        try:
            return self.text(*arguments)
        except GitFailed:
            return ""


def names(listing: bytes) -> Sequence[bytes]:
    """The entries of what a command with -z printed."""
    return [name for name in listing.split(b"\0") if name]


def _short(said: bytes) -> str:
    lines = [line.strip() for line in said.decode(errors="replace").splitlines() if line.strip()]
    wanted = [line for line in lines if line.startswith(("fatal:", "error:", "!", "remote:"))] or lines
    return "; ".join(wanted[:3]).replace("fatal: ", "").replace("error: ", "")[:400]
