"""Fresh copies of the repository on disk, and nothing left of the last one: neither a process nor a file."""

from __future__ import annotations

import base64
import io
import os
import shutil
import tarfile
import time
from pathlib import Path
from typing import Any

HOME = "/work"
INSIDE = HOME + "/.autopatch"
READY = HOME + "/.autopatch-ready"
ROOT = HOME + "/repository"
_WRITABLE = (HOME, "/tmp", "/dev/shm")
_PATIENCE_S = 3


class Copies:
    """The snapshot, which nobody else can write to, and this package's own files by their path."""

    def __init__(self, ours: dict[str, bytes]) -> None:
        self.ours = ours
        with open(INSIDE + "/snapshot.tar.gz", "rb") as file:
            data = file.read()
        self._files: dict[str, bytes] = {}
        self._executable: set[str] = set()
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            for entry in tar:
                content = tar.extractfile(entry) if entry.isreg() else None
                if content:
                    self._files[entry.name] = content.read()
                    self._executable |= {entry.name} if entry.mode & 0o100 else set()

    def lay_out(self, changes: dict[str, str | None], node: bool) -> str:
        """Writes the snapshot with these changes (base64; None removes a file). Returns why it can't; '' when it could."""
        files: dict[str, bytes] = {**self._files, **{path: base64.b64decode(text or "") for path, text in changes.items()}}
        for path, text in changes.items():
            if text is None:
                del files[path]
        try:
            os.makedirs(ROOT)
            for name in ("reporter.mjs", "covered.mjs") if node else ():
                _write(f"{INSIDE}/{name}", self.ours[f"listeners/{name}"])
            for path, data in files.items():
                _write(ROOT + "/" + path, data)
                if path in self._executable:
                    os.chmod(ROOT + "/" + path, 0o755)
        except OSError as error:
            return f"the repository does not fit into the sandbox: {error.strerror}"
        return ""


def _write(path: str, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def kill_all() -> bool:
    """Every process of this container but this one, however it hides. True when all are gone."""
    patience = time.monotonic() + _PATIENCE_S
    while time.monotonic() < patience:
        try:
            os.kill(-1, 9)
        except ProcessLookupError:
            return True
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return True
        time.sleep(0.001)
    return False


def clean() -> bool:
    """Empties every folder that a run could write to. True when they are empty."""
    os.chdir("/")
    os.chmod(HOME, 0o700)
    for folder in _WRITABLE:
        for name in os.listdir(folder):
            _remove(os.path.join(folder, name))
    return not any(os.listdir(folder) for folder in _WRITABLE)


def _remove(path: str) -> None:
    try:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, onerror=_insist)
        else:
            os.unlink(path)
    except (OSError, RecursionError):
        return


def _insist(_: Any, path: str, __: Any) -> None:
    """A folder without permissions is still ours."""
    os.chmod(os.path.dirname(path), 0o700)
    if os.path.isdir(path) and not os.path.islink(path):
        os.chmod(path, 0o700)
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def sources() -> dict[str, bytes]:
    """This package's own files, for children that start as processes of their own."""
    root, kept = Path(__file__).absolute().parent, {}
    for path in (*root.iterdir(), *root.joinpath("listeners").iterdir()):
        if path.is_file():
            kept[str(path.relative_to(root))] = path.read_bytes()
    return kept
