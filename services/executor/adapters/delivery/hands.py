"""Hands on one target: whether an effect is there, how it is brought about under the target's own check, how it is taken back."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from pathlib import Path

from autopatch.chassis import redaction
from autopatch.contract.actions import PatchCode, Reload, Restart, RollbackRelease, SetConfig
from autopatch.contract.errors import Refused, StaleTarget
from autopatch.contract.evidence import ConfigState, TargetState
from autopatch.contract.model import digest
from autopatch.contract.plan import Plan, Precondition, UndoRecord
from autopatch.contract.target import Target
from services.executor.adapters.code.sources import still_there
from services.executor.adapters.delivery.checks import demand
from services.executor.adapters.delivery.copies import (
    contents, diff, release_after, restored, spliced, undo_records, with_patched,
)
from services.executor.adapters.delivery.files import fence, read, replace, resolve
from services.executor.adapters.delivery.runtime import Runtime
from services.executor.adapters.editors import format_of, read_values
from services.executor.ports import PatchesReleases, Prepared

Records = Sequence[UndoRecord]


class TargetHands:
    """Files by splicing, everything else by the target's runtime."""

    def __init__(self, target: Target, runtime: Runtime, locks: Path, now: Callable[[], datetime], code: PatchesReleases) -> None:
        """`locks`: folder of the fences of this machine."""
        self._target = target
        self._runtime = runtime
        self._locks = locks
        self._now = now
        self._code = code

    def fence(self) -> AbstractAsyncContextManager[None]:
        """One action on this target at a time on this machine."""
        return fence(self._locks, self._target.name)

    async def state(self) -> TargetState:
        """Raises OperatorError when a configuration file cannot be read, Unavailable without an engine."""
        runs = await self._runtime.inspect()
        files = await asyncio.to_thread(contents, self._target)
        configs = []
        for name, content in files.items():
            values = read_values(content.data, format_of(content.config.format), content.config.editable, content.config.path)
            modified = datetime.fromtimestamp(content.real.stat().st_mtime, UTC)
            configs.append(ConfigState(file=name, digest=digest(content.data), values=values, modified=modified))
        return TargetState(
            target=self._target.name, at=self._now(), running=runs.running, release=runs.release, released_at=runs.released_at,
            releases=with_patched(self._target.runtime.releases, runs.release), instance=runs.instance, configs=tuple(configs),
        )

    async def prepare(self, plan: Plan) -> Prepared:
        """Looks at everything that the plan's preconditions name; changes nothing."""
        runs = await self._runtime.inspect()
        files = await asyncio.to_thread(contents, self._target)
        for step in plan.steps:
            demand(step.precondition, runs)
            wanted = step.precondition.config_digest
            if isinstance(step.action, SetConfig) and wanted != (found := digest(files[step.action.file].data)):
                raise StaleTarget(f"{step.action.file} is {found[:12]}, the plan was made for {(wanted or 'nothing')[:12]}")
            if isinstance(step.action, RollbackRelease) and step.action.release == runs.release and runs.running:
                raise Refused(f"release {runs.release} runs already")
            if isinstance(step.action, PatchCode):
                await asyncio.to_thread(still_there, self._target, step.action.base)
                await self._code.check(self._target, step.action, runs.release)
        records = undo_records(plan, files, runs.release)
        if any(record.kind == "splice" and record.old == record.new for record in records):
            raise Refused("the plan sets a value that is there already")
        return Prepared(records, diff(plan, files, runs.release))

    async def has_effect(self, plan: Plan, undo: Records, step: int) -> bool:
        """By digest, release or instance."""
        match plan.steps[step].action:
            case SetConfig(file=file):
                return self._digest(file) in {r.digest_after for r in undo[step:] if r.file == file}
            case RollbackRelease() | PatchCode():
                runs = await self._runtime.inspect()
                return runs.running and runs.release == release_after(plan.steps[step]) and not runs.half_way
            case Restart():
                runs = await self._runtime.inspect()
                up = runs.running or runs.unwell  # whether it gets well is for the validator to find
                return up and runs.instance != plan.steps[step].precondition.instance
            case _:
                return False

    async def act(self, plan: Plan, undo: Records, step: int) -> str:
        """One step."""
        known = plan.steps[step].precondition.model_copy(update={"config_digest": None})
        if any(isinstance(earlier.action, Restart | RollbackRelease) for earlier in plan.steps[:step]):
            known = Precondition()
        match plan.steps[step].action:
            case SetConfig(file=file):
                return await asyncio.to_thread(self._rewrite, file, undo[step], forward=True)
            case Reload():
                return await self._runtime.reload(known)
            case Restart():
                return await self._runtime.restart(known)
            case RollbackRelease(release=release):
                return await self._runtime.run_release(release, known)
            case PatchCode() as patch if known.release:
                return await self._runtime.run_release(await self._code.build(self._target, patch, known.release), known)
            case other:
                raise Refused(f"{other.kind} is not supported by this target's runtime")

    async def is_undone(self, plan: Plan, undo: Records, step: int, since: datetime) -> bool:
        """A file or release is as it was; a restart that loaded the old configuration again began after the rollback."""
        record, action = undo[step], plan.steps[step].action
        edited = any(r.kind == "splice" for r in undo)
        if record.kind == "splice":
            return self._digest(record.file) in {r.digest_before for r in undo[: step + 1] if r.file == record.file}
        if isinstance(action, Reload):
            return not edited
        runs = await self._runtime.inspect()
        if record.kind == "release":
            return runs.running and runs.release == record.release and not runs.half_way
        same = runs.instance == plan.steps[step].precondition.instance
        if not edited:  # the same instance, stopped, is a restart that was cut off
            return runs.running or not same
        return runs.running and (same or (runs.started_at is not None and runs.started_at >= since))

    async def is_untouched(self, plan: Plan, undo: Records, step: int) -> bool:
        """What does not run may have been stopped by this very step, half way. A reload alone changes nothing."""
        record = undo[step]
        if record.kind == "splice":
            return self._digest(record.file) == next(r.digest_before for r in undo if r.file == record.file)
        if isinstance(plan.steps[step].action, Reload):
            return True
        runs = await self._runtime.inspect()
        instance = plan.steps[step].precondition.instance
        same = runs.release == record.release if record.kind == "release" else runs.instance == instance
        return same and (runs.running or runs.unwell) and not runs.half_way

    async def take_back(self, plan: Plan, undo: Records, step: int) -> str:
        """The opposite of one step; after a configuration was put back, reload and restart are done again."""
        record = undo[step]
        if record.kind == "splice":
            return await asyncio.to_thread(self._rewrite, record.file, record, forward=False)
        if record.kind == "release":
            runs, made = await self._runtime.inspect(), release_after(plan.steps[step])
            if not runs.half_way and runs.release not in (made, record.release):
                raise StaleTarget(f"release {runs.release} runs, which is neither {made} nor {record.release}")
            return await self._runtime.run_release(record.release, Precondition(release=runs.release, instance=runs.instance))
        again = self._runtime.restart if isinstance(plan.steps[step].action, Restart) else self._runtime.reload
        return await again(Precondition())

    async def logs(self, start: datetime, end: datetime, limit: int) -> Sequence[str]:
        """The configuration is read first, so that its secrets are known to redaction."""
        await asyncio.to_thread(contents, self._target)
        lines = await self._runtime.logs(start, end, limit)
        return await asyncio.to_thread(lambda: tuple(redaction.redact(line) for line in lines))

    def _digest(self, name: str) -> str:
        return digest(read(self._real(name)))

    def _real(self, name: str) -> Path:
        config = self._target.config(name)
        if config is None:
            raise StaleTarget(f"the target has no configuration file {name!r} any more")
        return resolve(config.path)

    def _rewrite(self, name: str, record: UndoRecord, *, forward: bool) -> str:
        expected, wanted = record.digest_before, record.digest_after
        if not forward:
            expected, wanted = wanted, expected
        real = self._real(name)
        data = read(real)
        if digest(data) != expected:
            raise StaleTarget(f"{name} is {digest(data)[:12]}, expected was {expected[:12]}: somebody else changed it")
        made = spliced(data, record) if forward else restored(data, record)
        if digest(made) != wanted:
            raise StaleTarget(f"{name} would become {digest(made)[:12]} instead of {wanted[:12]}")
        replace(real, expected, made)
        return f"{name}: {record.new if forward else record.old} at byte {record.offset}"
