"""What other rooms may know of a target: its state, its logs, and its source as a job."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

from autopatch.chassis.chassis import Chassis
from autopatch.contract import requests as rq
from autopatch.contract.code import CodeJob
from autopatch.contract.errors import OperatorError
from autopatch.contract.evidence import TargetState
from autopatch.contract.target import Target
from autopatch.repair.paths import is_test
from autopatch.repair.tree import Files, tree_digest, unfit_path, write_archive
from services.executor.adapters.code.sources import commit_of, files_at, repository_of
from services.executor.ports import Hands, PatchesReleases

LOG_BYTES = 48 * 1024
NODE = ("node", "npm", "npx")
"""Commands whose tests are Node's."""


class Answers:
    """Each raises OperatorError for an unknown target."""

    def __init__(self, chassis: Chassis, hands: Callable[[Target], Hands], code: PatchesReleases) -> None:
        self._chassis = chassis
        self._code = code
        self._hands = hands

    async def inspect(self, request: rq.Inspect) -> TargetState:
        """What it is right now."""
        return await self._hands(self._target(request.target)).state()

    async def logs(self, request: rq.Logs) -> rq.LogLines:
        """The newest lines that fit into an answer."""
        lines = await self._hands(self._target(request.target)).logs(request.start, request.end, request.limit)
        kept = await asyncio.to_thread(newest, lines, LOG_BYTES)
        return rq.LogLines(lines=kept, truncated=len(kept) < len(lines) or len(lines) >= request.limit)

    async def snapshot(self, request: rq.Snapshot) -> rq.Snapped:
        """What is checked out, with the attached tests over it, if it is what runs. Raises OperatorError when it is not."""
        target = self._target(request.target)
        commit, files = await asyncio.to_thread(_checked_out, target)
        await self._code.compare(target, (await self._hands(target).state()).release, files)
        tree = files.changed({path: text.encode() for path, text in _tests(request.attached)})
        job = CodeJob(
            repository=target.name, snapshot=await self._chassis.blobs.put(await asyncio.to_thread(write_archive, tree)),
            tree=tree_digest(tree), commit=commit, command=target.tests,
            toolchain="node" if PurePosixPath(target.tests[0]).name in NODE else "python",
        )
        return rq.Snapped(job=job)

    def _target(self, name: str) -> Target:
        target = self._chassis.targets.get(name)
        if target is None:
            raise OperatorError(f"there is no target {name!r}", tip="target files are listed by `autopatch doctor`")
        return target


def _checked_out(target: Target) -> tuple[str, Files]:
    git = repository_of(target)
    commit = commit_of(git)
    return commit, files_at(git, commit)


def _tests(attached: dict[str, str]) -> Sequence[tuple[str, str]]:
    for path in attached:
        if why := unfit_path(path) or ("" if is_test(path) else "is no test"):
            raise OperatorError(f"attached: {path!r} {why}", tip="correct patch_code.tests of the runbook")
    return list(attached.items())


def newest(lines: Sequence[str], size: int) -> tuple[str, ...]:
    """The last lines whose JSON stays below `size` bytes. Long ones lose their middle: a traceback ends with what counts."""
    kept: list[str] = []
    for line in reversed(lines):
        line = line if len(line) <= 4000 else f"{line[:2000]} … {line[-2000:]}"
        size -= len(line.encode()) * 2 + 4 if not line.isascii() or '"' in line or "\\" in line else len(line) + 4
        if size < 0:
            break
        kept.append(line)
    return tuple(reversed(kept))
