"""What a commit of a target's repository holds, by git's plumbing: neither the checkout nor anybody's configuration matters."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from autopatch.contract.errors import OperatorError, Unavailable
from autopatch.contract.target import DockerRuntime, Target
from autopatch.repair.tree import FILE_BYTES, FILES, TOTAL_BYTES, Files, unfit_path
from services.executor.adapters.branches.git import Git, GitFailed, names

ENVIRONMENT = {"PATH": os.defpath}
_REGULAR = {b"100644": False, b"100755": True}


def unpatchable(target: Target) -> tuple[str, str]:
    """What a target's file lacks for its code to be patched, and the remedy; empty when nothing."""
    if not isinstance(target.runtime, DockerRuntime):
        return "its runtime is a process, and code is patched in containers only", "leave patch_code to its own deployment"
    if not target.runtime.source:
        return "runtime.source is not set", "name the folder of the image that is the repository's root, such as /app"
    if not target.repository:
        return "repository is not set", "name a git repository on this machine that has what is deployed checked out"
    if not target.tests:
        return "tests is not set", "add the command that runs the repository's tests, such as [python3, -m, pytest, -q]"
    return "", ""


def repository_of(target: Target) -> Git:
    """Raises OperatorError when the target's file names none, or no folder."""
    why, tip = unpatchable(target)
    if why:
        raise OperatorError(f"target {target.name}: {why}", tip=tip)
    folder = Path(target.repository)
    if not folder.is_dir():
        raise OperatorError(f"target {target.name}: repository: {folder} is not a folder", tip="correct it in the target's file")
    return Git(folder, environment=ENVIRONMENT)


def commit_of(git: Git, wanted: str = "HEAD") -> str:
    """The id of a commit, by default of what is checked out. Raises OperatorError, Unavailable."""
    try:
        git.run("rev-parse", "--git-dir")
    except GitFailed as error:
        raise OperatorError(f"{git.folder}: {error.said}", tip="repository names a git repository, or a folder in one") from None
    found = git.ask("rev-parse", "--verify", "--quiet", f"{wanted}^{{commit}}")
    if not found:
        what = "has no commit yet" if wanted == "HEAD" else f"has no commit {wanted[:12]} any more"
        raise OperatorError(f"{git.folder} {what}", tip="check out what is deployed there")
    return found


def still_there(target: Target, commit: str) -> None:
    """Raises Unavailable: while a patch could not be offered as a branch, it is not run."""
    try:
        commit_of(repository_of(target), commit)
    except OperatorError as error:
        raise Unavailable("repository", str(error.args[0]), tip=error.tip) from error


class _Entry(NamedTuple):
    path: str
    blob: str
    executable: bool


def files_at(git: Git, commit: str) -> Files:
    """The regular files of the folder at that commit; links and submodules are left out. Raises OperatorError, Unavailable."""
    entries = list(_entries(git, git.run("ls-tree", "-r", "-z", "-l", commit)))
    if not entries:
        raise OperatorError(f"{git.folder}: nothing is there at {commit[:12]}", tip="name a repository, or a folder in it")
    asked = "".join(f"{entry.blob}\n" for entry in entries).encode()
    contents = _contents(git.run("cat-file", "--batch", stdin=asked), entries)
    return Files(contents, {entry.path for entry in entries if entry.executable})


def _entries(git: Git, listing: bytes) -> Iterator[_Entry]:
    total = 0
    for count, row in enumerate(names(listing)):
        about, _, name = row.partition(b"\t")
        mode, _, blob, size = about.split()
        if mode not in _REGULAR:
            continue
        path = name.decode(errors="surrogateescape")
        total += int(size)
        if why := unfit_path(path):
            raise OperatorError(f"{git.folder}: {path!r} {why}", tip="such a file cannot be repaired around")
        if int(size) > FILE_BYTES or total > TOTAL_BYTES or count >= FILES:
            what = f"{path} is larger than {FILE_BYTES // 1024**2} MiB" if int(size) > FILE_BYTES else "it holds too much"
            raise OperatorError(f"{git.folder}: {what}", tip="name the folder of it that the service and its tests need")
        yield _Entry(path, blob.decode(), _REGULAR[mode])


def _contents(batch: bytes, entries: Sequence[_Entry]) -> Iterator[tuple[str, bytes]]:
    """Each is a line `<id> blob <size>`, the content, and a line's end."""
    at = 0
    for entry in entries:
        end = batch.index(b"\n", at)
        size = int(batch[at:end].split()[2])
        yield entry.path, batch[end + 1 : end + 1 + size]
        at = end + 2 + size
