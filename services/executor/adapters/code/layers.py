"""A patched release: the running release's image with the changed files laid over it, under a tag of its own."""

import io
import posixpath
import tarfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from docker import DockerClient
from docker.errors import APIError, NotFound

from autopatch.chassis.chassis import Blobs
from autopatch.contract.actions import PatchCode
from autopatch.contract.errors import OperatorError, Refused, StaleTarget
from autopatch.contract.model import canonical, digest
from autopatch.contract.target import DockerRuntime, Target
from autopatch.repair.localise import may_change
from autopatch.repair.tree import FILE_BYTES, Files
from services.executor.adapters.code import PATCHED
from services.executor.adapters.code.patches import Patch, understood
from services.executor.adapters.code.sources import unpatchable
from services.executor.adapters.runtimes.engine import Engine
from services.executor.ports import Failed

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

Work = Callable[[DockerClient], None]
_CACHE = "__pycache__"
_LENT = "autopatch-layer-"
_LONGEST_TAG = 128
_ROOT = "name the folder of the image that is the repository's root"
_DEPLOYED = "check out in the target's repository the commit that is deployed"
_LARGEST_CACHE = 64 * 1024**2


class Layers:
    """Nothing of an image is run for it. `left_s`: seconds after which a container that lends files was left by the dead."""

    def __init__(self, engine: Engine, blobs: Blobs, left_s: float = 600) -> None:
        self._left_s = left_s
        self._engine = engine
        self._blobs = blobs

    async def compare(self, target: Target, release: str, tree: Files) -> None:
        """Is the code in the image that of the tree? Raises OperatorError with what is not, Failed, Unavailable."""
        spec = _spec(target)
        await self._do(lambda client: _compared(client, spec, release, tree))

    async def check(self, target: Target, action: PatchCode, release: str) -> None:
        """Are the files that the diff changes in the image those that it was made for? Raises StaleTarget, Refused, Failed."""
        patch, spec = await understood(self._blobs, target, action), _spec(target)
        await self._do(lambda client: _looked(client, spec, patch, release))

    async def build(self, target: Target, action: PatchCode, release: str) -> str:
        """The patched release; the same call finds what an earlier one made. Raises as `check` does."""
        patch, spec = await understood(self._blobs, target, action), _spec(target)
        made = f"{release}-{action.diff[:12]}"
        await self._do(lambda client: _made(client, spec, patch, release, made))
        return made

    async def _do(self, work: Work) -> None:
        def tidied(client: DockerClient) -> None:
            for found in client.api.containers(all=True, filters={"name": _LENT, "status": "created"}):
                if time.time() - found["Created"] > self._left_s:
                    client.api.remove_container(found["Id"], force=True, v=True)
            work(client)

        try:
            await self._engine.surely(tidied)
        except APIError as error:
            raise Failed(f"the image with the patch: {error.explanation or error}") from error


def _spec(target: Target) -> DockerRuntime:
    why, tip = unpatchable(target)
    if why or not isinstance(target.runtime, DockerRuntime):
        raise Refused(f"target {target.name}: {why}", tip=tip)
    return target.runtime


def _compared(client: DockerClient, spec: DockerRuntime, release: str, tree: Files) -> None:
    """Files that are in both; what the image was built without (tests, tools) does not count."""
    seen, other = 0, list[str]()
    with _lent(client, f"{spec.image}:{release}") as container:
        try:
            chunks, _ = client.api.get_archive(container, f"{spec.source.rstrip('/')}/.")
        except NotFound:
            raise OperatorError(f"runtime.source: {spec.source} is not in {spec.image}:{release}", tip=_ROOT) from None
        with tarfile.open(fileobj=Stream(chunks), mode="r|") as archive:
            for member in archive:
                path = posixpath.normpath(member.name)
                if member.isfile() and path in tree and may_change(path, tree):
                    reader, seen = archive.extractfile(member), seen + 1
                    if reader is None or reader.read() != tree[path]:
                        other.append(path)
        for _ in chunks:
            pass  # what is read to its end gives its connection back
    if not seen:
        raise OperatorError(f"runtime.source: {spec.source} of {spec.image}:{release} holds no code of the repository", tip=_ROOT)
    if other:
        what = f"{', '.join(sorted(other)[:3])}{' and more' if len(other) > 3 else ''}"
        raise OperatorError(f"release {release} was built of another {what} than the one that is checked out", tip=_DEPLOYED)


def _looked(client: DockerClient, spec: DockerRuntime, patch: Patch, release: str) -> None:
    with _lent(client, f"{spec.image}:{release}") as container:
        _overlay(client, container, spec, patch)


def _made(client: DockerClient, spec: DockerRuntime, patch: Patch, release: str, tag: str) -> None:
    base = f"{spec.image}:{release}"
    if len(tag) > _LONGEST_TAG:
        raise Refused(f"{tag} is too long for a tag", tip="deploy the patches that run as a release of their own")
    try:
        made_of = digest(canonical([client.images.get(base).id, spec.source, patch.action.diff]))
    except NotFound:
        raise Failed(f"image {base} is not on the engine") from None
    with suppress(NotFound):
        if client.images.get(f"{spec.image}:{tag}").labels.get(PATCHED) == made_of:
            return
    with _lent(client, base) as container:
        client.api.put_archive(container, "/", _overlay(client, container, spec, patch))
        client.api.commit(container, spec.image, tag, changes=[f"LABEL {PATCHED}={made_of}"])


@contextmanager
def _lent(client: DockerClient, image: str) -> Iterator[str]:
    """A container that only lends its file system. It bears no label: a commit would hand it on to the image."""
    try:
        config = client.images.get(image).attrs["Config"] or {}
    except NotFound:
        raise Failed(f"image {image} is not on the engine") from None
    command = None if config.get("Cmd") or config.get("Entrypoint") else ["-"]
    apart = client.api.create_host_config(network_mode="none")
    made = client.api.create_container(image, command, name=f"{_LENT}{uuid.uuid4().hex[:12]}", host_config=apart)
    try:
        yield str(made["Id"])
    finally:
        with suppress(NotFound):
            client.api.remove_container(made["Id"], force=True, v=True)


def _overlay(client: DockerClient, container: str, spec: DockerRuntime, patch: Patch) -> bytes:
    """A tar of the new contents. Raises StaleTarget when a file in the image is not the one that the diff was made for."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for path, content in sorted(patch.changes.items()):
            assert content is not None
            full = posixpath.join(spec.source, path)
            found = {member.name: (member, data) for member, data in _files(client, container, full, FILE_BYTES)}
            member, data = found.get(posixpath.basename(full), (None, None))
            if data != patch.tree.get(path):
                what = "is not in the image, but" if data is None else "is another file in the image than"
                raise StaleTarget(f"{full} {what} in commit {patch.action.base[:12]}", tip=_DEPLOYED)
            _put(archive, full, member, content)
            for cached in _caches(client, container, full):
                _put(archive, posixpath.join(posixpath.dirname(full), _CACHE, cached.name), cached, b"")
    return made.getvalue()


def _caches(client: DockerClient, container: str, full: str) -> Iterator[tarfile.TarInfo]:
    """What Python compiled of the file: emptied, since it may count more than the file; Python then reads the file itself."""
    if full.endswith(".py"):
        folder = posixpath.join(posixpath.dirname(full), _CACHE)
        for member, _ in _files(client, container, folder, _LARGEST_CACHE):
            name = posixpath.basename(member.name)
            if name.startswith(f"{PurePosixPath(full).stem}.") and name.endswith(".pyc"):
                member.name = name
                yield member


def _files(client: DockerClient, container: str, path: str, largest: int) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    """The regular file at that path, or those in that folder; nothing where nothing is. Raises Refused for what is too large."""
    try:
        chunks, _ = client.api.get_archive(container, path)
    except NotFound:
        return
    data = bytearray()
    for chunk in chunks:
        data += chunk
        if len(data) > largest + 1024**2:
            raise Refused(f"{path} in the image is larger than {largest // 1024**2} MiB")
    with tarfile.open(fileobj=io.BytesIO(bytes(data))) as archive:
        for member in archive:
            if member.isfile():
                reader = archive.extractfile(member)
                yield member, reader.read() if reader else b""
            elif not member.isdir():
                raise Refused(f"{path} in the image is no regular file", tip="runtime.source must hold the files themselves")


class Stream(io.RawIOBase):
    """Chunks as a file to read from: an image's folder may be larger than memory."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._rest = b""

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """What is there, at most what fits; 0 at the end."""
        view = memoryview(buffer)
        while not self._rest:
            found = next(self._chunks, None)
            if found is None:
                return 0
            self._rest = found
        taken, self._rest = self._rest[: len(view)], self._rest[len(view) :]
        view[: len(taken)] = taken
        return len(taken)


def _put(archive: tarfile.TarFile, full: str, like: tarfile.TarInfo | None, content: bytes) -> None:
    """Mode and owner as before; a new file is root's and readable."""
    member = tarfile.TarInfo(full.lstrip("/"))
    member.size, member.mtime = len(content), int(time.time())
    if like:
        member.mode, member.uid, member.gid = like.mode, like.uid, like.gid
    archive.addfile(member, io.BytesIO(content))
