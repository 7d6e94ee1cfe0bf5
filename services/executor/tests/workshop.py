"""Repositories written in a test, and what the workshop says of them."""

import base64
import io
import tarfile
from collections.abc import Mapping, Sequence
from typing import Any

from autopatch.contract.code import CodeJob, FileChange, Report, Reports, Trial, Trials
from autopatch.contract.evidence import BlobRef
from autopatch.contract.model import digest
from autopatch.contract.requests import RanTests, RunTests
from autopatch.repair.tree import Tree, read_archive
from services.executor.adapters.sandbox.job import Sandbox
from services.executor.adapters.workshop.batch import Batch, Run, sources
from services.executor.adapters.workshop.responder import Workshop


class Kept:
    """Blobs in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    async def put(self, data: bytes) -> BlobRef:
        name = digest(data)
        self.kept[name] = data
        return BlobRef(name=name, size=len(data), digest=name)

    async def get(self, ref: BlobRef) -> bytes:
        return self.kept[ref.digest]


def archive(files: Mapping[str, str | bytes]) -> bytes:
    """A gzipped tar of regular files."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return made.getvalue()


def trial(name: str, **changes: str | bytes | None) -> Trial:
    """A candidate; in the names of its files __ stands for / and the last _ for the dot."""
    return of(name, {path.replace("__", "/")[::-1].replace("_", ".", 1)[::-1]: content for path, content in changes.items()})


def of(name: str, changes: Mapping[str, str | bytes | None]) -> Trial:
    """A candidate."""

    def encoded(content: str | bytes | None) -> str | None:
        if content is None:
            return None
        return base64.b64encode(content.encode() if isinstance(content, str) else content).decode()

    return Trial(id=name, changes=tuple(FileChange(path=path, content=encoded(content)) for path, content in changes.items()))


class Ready:
    """Images that have everything."""

    def __init__(self, python: str, node: str) -> None:
        self._images = {"python": python, "node": node}

    async def image_for(self, job: CodeJob, tree: Tree) -> str:
        return self._images[job.toolchain]


class Bench:
    """A workshop over a sandbox, with blobs in memory."""

    def __init__(self, sandbox: Sandbox, image: str, node: str = "", inside: Mapping[str, bytes] | None = None) -> None:
        self.blobs = Kept()
        self.workshop = Workshop(sandbox, self.blobs, Ready(image, node), inside)
        self._sandbox, self._image, self._inside = sandbox, image, inside or sources()
        self.answer: RanTests | None = None

    async def job(self, files: Mapping[str, str | bytes], command: str = "pytest -q", **fields: Any) -> CodeJob:
        """A job over a repository of these files."""
        snapshot = await self.blobs.put(archive(files))
        return CodeJob(repository="r", snapshot=snapshot, tree="t", command=tuple(command.split()), **fields)

    async def run(self, job: CodeJob, trials: Sequence[Trial] = (), **asked: Any) -> tuple[Report, ...]:
        """The reports."""
        if trials:
            asked["trials"] = await self.blobs.put(Trials(trials=tuple(trials)).model_dump_json().encode())
        self.answer = await self.workshop.run_tests(RunTests(incident_id="one", job=job, **asked))
        return Reports.model_validate_json(await self.blobs.get(self.answer.reports)).reports

    async def unread(self, job: CodeJob, runs: Sequence[tuple[str, Mapping[str, bytes]]], limit_s: float = 120) -> list[Report]:
        """The same of candidates whose code nobody has read, and whose tests and configuration nobody restores."""
        snapshot = await self.blobs.get(job.snapshot)
        request = RunTests(incident_id="one", job=job, limit_s=limit_s)
        batch = Batch(request, self._image, snapshot, read_archive(snapshot), self._inside)
        return [report async for report in batch.reports(self._sandbox, [Run(name, 0, changes) for name, changes in runs])]


def outcomes(report: Report) -> dict[str, str]:
    """By id."""
    return {case.id: case.outcome for case in report.cases}


def dulled(cuts: Sequence[tuple[str, str, str]]) -> dict[str, bytes]:
    """What runs inside without guards of its own: file, what is in it, and what is there instead."""
    inside = sources()
    for name, guarding, bare in cuts:
        text = inside[name].decode()
        assert text.count(guarding) == 1, f"{name} has changed: {guarding}"
        inside[name] = text.replace(guarding, bare).encode()
    return inside
