"""Reads a repository's history without running anything that the repository brings along."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime

from autopatch.contract.errors import Unavailable

_SAFE = (
    "--no-pager", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.pager=cat",
    "-c", "protocol.allow=never", "-c", "log.showSignature=false", "-c", "core.attributesFile=/dev/null",
)
_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin:/usr/local/bin", "LC_ALL": "C", "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1", "GIT_ASKPASS": "/bin/false",
}
_LONGEST = 200


class GitHistory:
    """`git log` in a process of its own. No hook, pager, signature program, transport or file-system monitor is started."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s

    async def commits(self, repository: str, since: datetime, limit: int) -> Sequence[tuple[datetime, str]]:
        """Time and subject of the newest commits on HEAD since then. Raises Unavailable("git")."""
        command = (
            "git", *_SAFE, "-C", repository, "log", f"--max-count={limit}", f"--since={int(since.timestamp())}",
            "--format=%ct%x09%h%x09%s", "--no-color", "--no-ext-diff", "--no-textconv", "--no-patch", "HEAD", "--",
        )
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
                env=_ENVIRONMENT,
            )
        except OSError as error:
            raise Unavailable("git", f"cannot be started: {error.strerror}", tip="install git") from error
        try:
            out, err = await asyncio.wait_for(process.communicate(), self._timeout_s)
        except TimeoutError as error:
            raise Unavailable("git", f"no answer within {self._timeout_s:g} s") from error
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode != 0:
            said = (err.decode(errors="replace").strip().splitlines() or ["no reason given"])[0]
            raise Unavailable("git", said[:_LONGEST], tip="is `repository` of the target a git repository of this user?")
        return [_commit(line) for line in out.decode(errors="replace").splitlines() if line.count("\t") >= 2]


def _commit(line: str) -> tuple[datetime, str]:
    at, short, subject = line.split("\t", 2)
    return datetime.fromtimestamp(int(at), UTC), f"commit {short}: {subject[:_LONGEST]}"
