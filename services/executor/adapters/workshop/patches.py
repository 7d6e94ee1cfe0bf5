"""What a candidate or a diff may change, and what git makes of a diff. No sandbox ever writes to the folder that git works in."""

import asyncio
import base64
import binascii
import os
import stat
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from autopatch.contract.code import FileChange, Trial
from autopatch.contract.errors import Refused, Unavailable
from autopatch.repair.diffs import parse_diff
from autopatch.repair.forgeries import suspicions
from autopatch.repair.patch_policy import refusals
from autopatch.repair.paths import guarded
from autopatch.repair.tree import FILE_BYTES, Files, unfit_path
from services.executor.adapters.workshop.batch import Changes, Run

_NEUTRAL = (
    "core.attributesFile=/dev/null", "core.excludesFile=/dev/null", "core.hooksPath=/dev/null", "core.fsmonitor=false",
    "core.autocrlf=false", "core.symlinks=false", "core.protectHFS=true", "core.protectNTFS=true", "apply.whitespace=nowarn",
)
_TIMEOUT_S = 30


def restored(trial: Trial, tree: Files) -> Run:
    """A candidate without what it does to tests and to files that steer tools: the snapshot's own are used.

    A path that leads out of the repository, bytes that are none, or code that could forge a verdict make it one that is not run.
    """
    changes: dict[str, bytes | None] = {}
    for change in trial.changes:
        why = unfit_path(change.path)
        if why:
            return Run(trial.id, 0, {}, f"refused: {change.path!r} {why}")
        if not guarded(change.path, tree):
            content = _content(change)
            if isinstance(content, str):
                return Run(trial.id, 0, {}, f"refused: {change.path!r} {content}")
            changes[change.path] = content
    after = {path for path in (*tree, *changes) if changes.get(path, b"") is not None}
    folders = {"/".join(parts[:depth]) for parts in (path.split("/") for path in after) for depth in range(1, len(parts))}
    if clash := sorted(folders & after):
        return Run(trial.id, 0, {}, f"refused: {clash[0]!r} is a file and a folder")
    return Run(trial.id, 0, changes, "; ".join(_forging(changes, tree)))


def _content(change: FileChange) -> bytes | str | None:
    if change.content is None:
        return None
    try:
        data = base64.b64decode(change.content, validate=True)
    except binascii.Error:
        return "has a content that is no base64"
    return data if len(data) <= FILE_BYTES else f"has more than {FILE_BYTES} bytes"


async def patched(diff: bytes, tree: Files) -> Changes:
    """New contents by path, None for removed files, as `git apply` has them.

    Raises Refused with every reason of the policy, Unavailable without git.
    """
    reasons = refusals(diff, tree)
    if reasons:
        raise Refused("; ".join(reasons))
    paths = {path for file in parse_diff(diff) for path in (file.old, file.new) if path is not None}
    changes = await asyncio.to_thread(_applied, diff, {path: tree[path] for path in paths if path in tree}, paths)
    forging = _forging(changes, tree)
    if forging:
        raise Refused("; ".join(forging))
    return changes


def _forging(changes: Changes, tree: Files) -> list[str]:
    """What no fix has a need of, a line each."""
    told = [(path, suspicions(path, tree.get(path, b""), after)) for path, after in changes.items() if after is not None]
    return [f"refused: {path}: {why}" for path, reasons in told for why in reasons]


def _applied(diff: bytes, before: Mapping[str, bytes], paths: set[str]) -> Changes:
    with tempfile.TemporaryDirectory(prefix="autopatch-patch-") as folder:
        work = Path(folder, "work")
        work.mkdir()
        for path, data in before.items():
            (work / path).parent.mkdir(parents=True, exist_ok=True)
            (work / path).write_bytes(data)
        _git(diff, work, Path(folder))
        return {path: _read(work / path) for path in sorted(paths)}


def _git(diff: bytes, work: Path, home: Path) -> None:
    """Outside of any repository, with nobody's configuration."""
    options = [part for setting in _NEUTRAL for part in ("-c", setting)]
    environment = {
        "PATH": os.defpath, "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "LC_ALL": "C",
        "GIT_CEILING_DIRECTORIES": str(home), "GIT_ATTR_NOSYSTEM": "1",
    }
    try:
        done = subprocess.run(
            ["git", *options, "apply", "-p1", "-"], input=diff, cwd=work, env=environment, capture_output=True,
            timeout=_TIMEOUT_S, check=False,
        )
    except FileNotFoundError:
        raise Unavailable("git", "there is no git command here", tip="install git") from None
    except subprocess.TimeoutExpired:
        raise Refused(f"git apply took more than {_TIMEOUT_S} s") from None
    if done.returncode:
        raise Refused(f"git does not apply the diff: {done.stderr.decode(errors='replace').strip()[-500:]}")


def _read(path: Path) -> bytes | None:
    """A regular file of one name only; None when it is gone."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Refused(f"the diff leaves {path.name!r} as something else than a file: {error.strerror}") from error
    with open(opened, "rb") as file:
        state = os.fstat(opened)
        if not stat.S_ISREG(state.st_mode) or state.st_nlink != 1 or state.st_size > FILE_BYTES:
            raise Refused(f"the diff leaves {path.name!r} as something else than a file, or too large")
        return file.read()
