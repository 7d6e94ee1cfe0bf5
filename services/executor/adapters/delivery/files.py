"""Configuration files: read, and replaced only when the target still is what the plan was made for."""

import asyncio
import fcntl
import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from autopatch.chassis.room import RetryLater
from autopatch.contract.errors import OperatorError, StaleTarget
from autopatch.contract.model import digest
from services.executor.ports import Failed

LARGEST = 1024 * 1024
"""Bytes of a configuration file that are read at most."""


@asynccontextmanager
async def fence(folder: Path, name: str, patience_s: float = 3) -> AsyncIterator[None]:
    """A lock that the kernel holds for this process: a paused holder keeps it, a dead one loses it. Raises RetryLater."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise OperatorError(f"{folder}: no place for locks: {error.strerror}", tip="set AUTOPATCH_EXECUTOR_LOCKS") from error
    try:
        deadline = time.monotonic() + patience_s
        while not _locked(handle):
            if time.monotonic() > deadline:
                raise RetryLater(1, on="target", reason=f"another action on {name} has not ended")
            await asyncio.sleep(0.05)
        yield
    finally:
        os.close(handle)


def resolve(path: str) -> Path:
    """Where a configuration file really is; a link may not lead out of its folder. Raises OperatorError."""
    given = Path(path)
    folder, real = given.parent.resolve(), given.resolve()
    if not real.is_relative_to(folder):
        raise OperatorError(f"{path}: is a link that leads out of its folder, to {real}", tip="name that file in the target file")
    if not real.is_file():
        raise OperatorError(f"{path}: is not a file", tip="correct configs.path in the target file")
    return real


def read(real: Path) -> bytes:
    """The whole file. Raises OperatorError."""
    try:
        if real.stat().st_size > LARGEST:
            raise OperatorError(f"{real}: is larger than {LARGEST} bytes", tip="configuration files are smaller")
        return real.read_bytes()
    except OSError as error:
        raise OperatorError(f"{real}: cannot be read: {error.strerror}") from error


def replace(real: Path, expected: str, data: bytes) -> None:
    """Put `data` there if the file's SHA-256 is `expected`: all or nothing, same mode and owner, durable when it returns.

    Raises StaleTarget when it is another file by now, Failed when it cannot be written.
    """
    try:
        with _folder_lock(real.parent) as folder:
            _check(real, expected)
            handle, name = tempfile.mkstemp(prefix=f".{real.name}.", dir=real.parent)
            try:
                with os.fdopen(handle, "wb") as temporary:
                    temporary.write(data)
                    temporary.flush()
                    was = real.stat()
                    os.fchown(handle, was.st_uid, was.st_gid)
                    os.fchmod(handle, was.st_mode & 0o7777)
                    os.fsync(handle)
                _check(real, expected)
                os.rename(name, real)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(name)
                raise
            os.fsync(folder)
    except OSError as error:
        raise Failed(f"{real}: cannot be written: {error.strerror}") from error


def _check(real: Path, expected: str) -> None:
    found = digest(real.read_bytes())
    if found != expected:
        raise StaleTarget(f"{real.name} is {found[:12]}, the plan was made for {expected[:12]}")


@contextmanager
def _folder_lock(folder: Path) -> Iterator[int]:
    """The folder itself is the lock: nothing is left lying beside the file."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
