"""The collection `code`: what a repository's snapshot holds now. What is known by digest is neither read nor embedded again."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from autopatch.chassis.chassis import Blobs
from autopatch.chassis.outline import Definition, known
from autopatch.chassis.outlines import outlines
from autopatch.chassis.telemetry import span
from autopatch.contract.code import CodeJob
from autopatch.contract.model import digest
from autopatch.contract.requests import Indexed
from autopatch.repair.tree import Tree, read_archive, text_of
from services.knowledge.adapters.code.chunks import FORMAT, Chunk, chunks
from services.knowledge.adapters.code.files import left_out
from services.knowledge.corpus import Corpus, point_id
from services.knowledge.ports import Point, Where

log = structlog.get_logger("knowledge")

MOST_FILES = 5_000
MOST_CHUNKS = 50_000
BATCH = 250  # files: one process outlines them, one turn at the store writes them


@dataclass(frozen=True)
class _File:
    path: str
    text: str
    digest: str
    chunks: Sequence[Chunk] = ()


class CodeIndex:
    """Beside the chunks there is a point for each file, of a kind that no search asks for: its digest and how many chunks it has.

    The digest is blank from before the first write of a file's chunks until after the last, so whatever dies in between is
    completed by the next run, and a file that vanished meanwhile is still known.
    """

    def __init__(
        self, corpus: Corpus, blobs: Blobs, redact: Callable[[str], str], *, files: int = MOST_FILES, most: int = MOST_CHUNKS,
        outlining: Callable[[Sequence[tuple[str, bytes]]], Sequence[tuple[Definition, ...]]] = outlines,
    ) -> None:
        self._corpus = corpus
        self._blobs = blobs
        self._redact = redact
        self._files = files
        self._most = most
        self._outlining = outlining
        self._turn = asyncio.Lock()

    async def index(self, job: CodeJob) -> Indexed:
        """Read the job's snapshot. Raises Unavailable, and ContractError for an archive that is none."""
        with span("index code") as current:
            archive = await self._blobs.get(job.snapshot)
            async with self._turn:
                done = await self.replace(job.repository, await asyncio.to_thread(read_archive, archive))
            current.set_attribute("code.repository", job.repository)
            current.set_attribute("code.chunks", done.chunks)
            current.set_attribute("code.changed", done.changed)
        return done

    async def forget(self, repository: str) -> int:
        """All that is kept of it. Returns the number of chunks. Raises Unavailable."""
        async with self._turn:
            count = await self._corpus.store.count("code", Where({"kind": ("code",), "target": (repository,)}))
            await self.replace(repository, {})
        return count

    async def replace(self, repository: str, tree: Tree) -> Indexed:
        """Make the collection hold of this repository what the tree holds. One at a time."""
        held = await self._held(repository)
        files = await asyncio.to_thread(self._worth_finding, repository, tree)
        kept: set[str] = set()
        total = changed = 0
        for start in range(0, len(files), BATCH):
            batch = files[start : start + BATCH]
            unheld = [file for file in batch if held.get(file.path, ("", 0))[0] != file.digest]
            read = await asyncio.to_thread(self._read, unheld)
            sizes = {file.path: len(read[file.path].chunks) if file.path in read else held[file.path][1] for file in batch}
            fitting = _fitting(sizes, self._most - total)
            kept |= fitting.keys()
            total += sum(fitting.values())
            changed += await self._write(repository, [file for path, file in read.items() if path in fitting], held)
            if len(fitting) < len(batch):
                log.warning("code beyond the limit is not indexed", repository=repository, chunks=total, most=self._most,
                            first_left_out=batch[len(fitting)].path, files=len(files) - len(kept))
                break
        await self._remove(repository, sorted(held.keys() - kept))
        return Indexed(chunks=total, changed=changed)

    async def _held(self, repository: str) -> dict[str, tuple[str, int]]:
        points = await self._corpus.store.scroll("code", Where({"kind": ("file",), "target": (repository,)}))
        return {str(p.payload["source"]): (str(p.payload["digest"]), int(p.payload["chunks"])) for p in points}

    def _worth_finding(self, repository: str, tree: Tree) -> list[_File]:
        """In a fixed order, near the top of the repository first."""
        files, without = list[_File](), Counter[str]()
        for path in sorted(tree, key=lambda path: (path.count("/"), path)):
            why = left_out(path, tree[path]) or ("its path holds a secret" if self._redact(path) != path else "")
            if not why and len(files) >= self._files:
                why = f"beyond {self._files} files"
            if why:
                without[why] += 1
            else:
                files.append(_File(path, text_of(tree[path])[0], digest(FORMAT.encode() + tree[path])))
        log.info("files of a repository", repository=repository, indexed=len(files), left_out=dict(without))
        return files

    def _read(self, files: Sequence[_File]) -> dict[str, _File]:
        """With their chunks. Blocks."""
        asked = [file for file in files if known(file.path)]
        found = self._outlining([(file.path, file.text.encode()) for file in asked]) if asked else ()
        outline = dict(zip((file.path for file in asked), found, strict=True))
        return {
            file.path: _File(file.path, "", file.digest, chunks(file.path, file.text, outline.get(file.path, ()), self._redact))
            for file in files
        }

    async def _write(self, repository: str, files: Sequence[_File], held: Mapping[str, object]) -> int:
        """The number of chunks that are new. Others may have moved: then their lines change, and their vectors stay."""
        if not files:
            return 0
        made = {point.id: point for file in files for point in _points(repository, file)}
        store = self._corpus.store
        async with self._corpus.writing:
            await store.upsert("code", [_file_point(repository, file, "") for file in files])
            were = [id for file in files if file.path in held for id in (p.id for p in _points(repository, file))]
            there = {point.id: point for point in await store.get("code", were)}
            await self._corpus.write("code", [point for id, point in made.items() if id not in there])
            moved = {id: made[id].payload for id, was in there.items() if made[id].payload.items() - was.payload.items()}
            await store.set_payload("code", moved)
            for file in files:
                if file.path in held:
                    await store.delete("code", _of(repository, "code", [file.path], but=file.digest))
            await store.upsert("code", [_file_point(repository, file, file.digest) for file in files])
        return len(made) - len(there)

    async def _remove(self, repository: str, paths: Sequence[str]) -> None:
        """A vanished file is known, as one that is not whole, until its chunks are gone."""
        if paths:
            async with self._corpus.writing:
                await self._corpus.store.upsert("code", [_file_point(repository, _File(path, "", ""), "") for path in paths])
                for kind in ("code", "file"):
                    await self._corpus.store.delete("code", _of(repository, kind, paths))


def _fitting(sizes: Mapping[str, int], room: int) -> dict[str, int]:
    fitting = dict[str, int]()
    for path, size in sizes.items():
        room -= size
        if room < 0:
            break
        fitting[path] = size
    return fitting


def _of(repository: str, kind: str, paths: Sequence[str], but: str = "") -> Where:
    return Where({"kind": (kind,), "target": (repository,), "source": paths}, {"digest": (but,)} if but else {})


def _file_point(repository: str, file: _File, digest: str) -> Point:
    payload = {"kind": "file", "target": repository, "source": file.path, "digest": digest, "chunks": len(file.chunks)}
    return Point(point_id("file", repository, file.path), file.path, payload)


def _points(repository: str, file: _File) -> list[Point]:
    return [
        Point(point_id("code", repository, file.path, chunk.key), chunk.text, {
            "kind": "code", "id": f"{file.path}:{chunk.start}-{chunk.end}", "target": repository, "source": file.path,
            "title": f"{chunk.form} {chunk.name}".strip(), "form": chunk.form, "name": chunk.name, "start": chunk.start,
            "end": chunk.end, "digest": file.digest,
        })
        for chunk in file.chunks
    ]
