"""A repository folder as a snapshot: what is tracked or not ignored, as it is on disk now. The folder itself is only read."""

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from autopatch.contract.errors import OperatorError, Unavailable
from autopatch.repair.tree import LINK, Files, tree_digest, write_archive
from services.executor.adapters.branches.git import Git, GitFailed, names

FILE_BYTES = 8 * 1024**2
TOTAL_BYTES = 96 * 1024**2
FILES = 100_000
NEVER = {".git", ".hg", ".svn"}
WITHOUT_GIT = {"node_modules", "__pycache__", ".venv", "venv", ".tox", ".nox", ".pytest_cache", ".mypy_cache", ".ruff_cache"}
"""Folders that are left out where no git says what is ignored."""
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class LeftOut:
    """A file, or a folder, that does not travel, and why."""

    path: str
    why: str


@dataclass(frozen=True)
class Snapshot:
    """`archive`: gzipped tar. `tree`: its digest. `commit`: where it began from; '' without git. `size`: bytes of all files."""

    folder: Path
    name: str
    archive: bytes
    tree: str
    commit: str
    files: Files
    left_out: tuple[LeftOut, ...]
    size: int


def take(folder: Path, environment: Mapping[str, str]) -> Snapshot:
    """Raises OperatorError when it is no folder, is too large or holds nothing; Unavailable when git does not answer."""
    files, left_out, commit = collect(folder, environment)
    return Snapshot(
        folder, name_of(folder), write_archive(files), tree_digest(files), commit, files, left_out,
        sum(map(len, files.values())),
    )


def digest_now(folder: Path, environment: Mapping[str, str]) -> str:
    """The digest of what the folder holds now. Raises what `take` raises."""
    return tree_digest(collect(folder, environment)[0])


def collect(folder: Path, environment: Mapping[str, str]) -> tuple[Files, tuple[LeftOut, ...], str]:
    """Files by path relative to the folder, what was left out, and the commit. Raises what `take` raises."""
    if not folder.is_dir():
        raise OperatorError(f"{folder} is not a folder", tip="name the folder of a repository")
    folder, git = folder.resolve(), Git(folder, environment=environment)
    listed, ignored = _listed(git, environment)
    commit = git.ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}") if listed else ""
    reading = _Reading(folder)
    for path in listed or _walked(folder, reading.leave):
        reading.take(path)
    if not reading.files:
        raise OperatorError(f"{folder} holds no file that could be repaired", tip="name the folder that holds the code")
    reading.follow()
    if ignored:
        more = f" and {len(ignored) - 1} more" if len(ignored) > 1 else ""
        reading.leave(ignored[0], f"git ignores it{more}")
    return Files(sorted(reading.files.items()), reading.executable, reading.links), tuple(reading.left_out), commit


def name_of(folder: Path) -> str:
    """What the repository is called: the folder's name, with what a name may not hold replaced."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", folder.resolve().name)[:80].strip("-") or "repository"


class _Reading:
    """Reads one file after the other and keeps count."""

    def __init__(self, folder: Path) -> None:
        self.files: dict[str, bytes] = {}
        self.executable: set[str] = set()
        self.left_out: list[LeftOut] = []
        self.links: dict[str, str] = {}
        self._root = os.fsencode(folder)
        self._folders: dict[bytes, bool] = {b"": True}
        self._size = 0

    def leave(self, path: bytes, why: str) -> None:
        self.left_out.append(LeftOut(path.decode(errors="backslashreplace"), why))

    def take(self, path: bytes) -> None:
        """A file that is tracked and no longer there is no longer there: that is what the person has now."""
        if why := _unfit(path):
            return self.leave(path, why)
        if not self._real(os.path.dirname(path)):
            return self.leave(path, "its folder is a symbolic link")
        full = os.path.join(self._root, path)
        try:
            found = os.lstat(full)
            if stat.S_ISLNK(found.st_mode):
                self.links[path.decode()] = LINK
                return None
            if why := _unlike(found):
                return self.leave(path, why)
            content = _content(full)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            return self.leave(path, f"cannot be read: {error.strerror}")
        if len(content) > FILE_BYTES:
            return self.leave(path, f"larger than {FILE_BYTES // 1024**2} MiB")
        self._count(content)
        self.files[path.decode()] = content
        if found.st_mode & stat.S_IXUSR:
            self.executable.add(path.decode())

    def follow(self) -> None:
        """A link to a file that travels becomes its copy, so that what is read by that name is there. No repair changes it."""
        for path in list(self.links):
            full = os.path.join(self._root, path.encode())
            target = os.path.relpath(os.path.realpath(full), self._root).decode(errors="replace")
            if target not in self.files or target in self.links:
                del self.links[path]
                self.leave(path.encode(), "a symbolic link that leads to no file of the snapshot")
                continue
            self._count(self.files[target])
            self.files[path] = self.files[target]
            if target in self.executable:
                self.executable.add(path)

    def _count(self, content: bytes) -> None:
        self._size += len(content)
        if self._size > TOTAL_BYTES or len(self.files) >= FILES:
            what = f"{FILES} files" if len(self.files) >= FILES else f"{TOTAL_BYTES // 1024**2} MiB"
            raise OperatorError(
                f"{os.fsdecode(self._root)} holds more than {what}",
                tip="add generated files and data to .gitignore, or name the part of the repository that the tests need",
            )

    def _real(self, folder: bytes) -> bool:
        """No part of the way is a symbolic link, which could lead out of the repository."""
        if folder not in self._folders:
            try:
                link = stat.S_ISLNK(os.lstat(os.path.join(self._root, folder)).st_mode)
            except OSError:
                link = False
            self._folders[folder] = not link and self._real(os.path.dirname(folder))
        return self._folders[folder]


def _unfit(path: bytes) -> str:
    try:
        name = path.decode()
    except UnicodeDecodeError:
        return "its name is not UTF-8"
    if not name.isprintable():
        return "its name holds control characters"
    return "a repository of its own" if name.endswith("/") else ""


def _unlike(found: os.stat_result) -> str:
    if stat.S_ISDIR(found.st_mode):
        return "a submodule"
    if not stat.S_ISREG(found.st_mode):
        return "not a regular file"
    return f"larger than {FILE_BYTES // 1024**2} MiB" if found.st_size > FILE_BYTES else ""


def _content(path: bytes) -> bytes:
    """Opened without following a link and without waiting for anybody; at most a byte more than is taken."""
    descriptor = os.open(path, _READ)
    try:
        parts, left = [], FILE_BYTES + 1
        while left and (part := os.read(descriptor, min(left, 1 << 20))):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def _listed(git: Git, environment: Mapping[str, str]) -> tuple[list[bytes], list[bytes]]:
    """Tracked files and those that are not ignored, none where there is no git or it ignores the folder; and what it ignores.

    Of the ignored, what tools make is not told: every repository has it.
    """
    try:
        inside = git.text("rev-parse", "--is-inside-work-tree")
    except GitFailed as error:
        if "not a git repository" in error.said:
            return [], []
        raise OperatorError(f"{git.folder}: git: {error.said}", tip="`git status` there should work") from None
    except Unavailable:
        if any((at / ".git").exists() for at in (git.folder, *git.folder.parents)):
            raise
        return [], []
    if inside != "true":
        raise OperatorError(f"{git.folder} has no working tree", tip="name a checkout, not a bare repository or .git")
    ignores = Git(git.folder, environment=environment, neutral=False).ask("config", "--type=path", "core.excludesFile")
    given = ("-c", f"core.excludesFile={ignores}") if ignores else ()
    found = set(names(git.run(*given, "ls-files", "-z", "--cached", "--others", "--exclude-standard")))
    ignored = names(git.run(*given, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"))
    return sorted(found), sorted(path for path in ignored if not _made(path))


def _made(path: bytes) -> bool:
    name = os.path.basename(path.rstrip(b"/")).decode(errors="replace")
    return name in WITHOUT_GIT or name.endswith((".pyc", ".egg-info"))


def _walked(folder: Path, leave: Callable[[bytes, str], None]) -> Iterator[bytes]:
    root = os.fsencode(folder)
    for at, folders, files in os.walk(root):
        below = os.path.relpath(at, root) if at != root else b""
        for name in list(folders):
            full = os.path.join(at, name)
            if name.decode(errors="replace") in NEVER:
                folders.remove(name)
            elif name.decode(errors="replace") in WITHOUT_GIT or os.path.exists(os.path.join(full, b"pyvenv.cfg")):
                folders.remove(name)
                leave(os.path.join(below, name), "made by tools; without git nothing says what belongs to the repository")
            elif os.path.islink(full):
                files.append(name)
        yield from (os.path.join(below, name) for name in files)
