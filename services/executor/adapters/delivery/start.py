"""Adapters over the settings: hands for a target, the rehearsal, and a look around before the room hears anything."""

from pathlib import Path
from typing import assert_never

import structlog

from autopatch.chassis.clock import Clock
from autopatch.contract.errors import Unavailable
from autopatch.contract.target import DockerRuntime, ProcessRuntime, Target
from services.executor.adapters.delivery.files import fence
from services.executor.adapters.delivery.hands import TargetHands
from services.executor.adapters.delivery.runtime import Runtime
from services.executor.adapters.rules.policy_file import load_policy
from services.executor.adapters.runtimes.container import ContainerOfTarget
from services.executor.adapters.runtimes.engine import Engine
from services.executor.adapters.runtimes.process import ProcessOfTarget
from services.executor.adapters.sandbox.container import DockerSandbox
from services.executor.adapters.sandbox.limits import Limits
from services.executor.adapters.sandbox.owner import reap
from services.executor.adapters.sandbox.rehearsal import SandboxRehearsal
from services.executor.ports import PatchesReleases
from services.executor.settings import Settings

log = structlog.get_logger("executor")


class HandsFor:
    """Called with a target it gives the hands for it."""

    def __init__(self, settings: Settings, engine: Engine, clock: Clock, code: PatchesReleases) -> None:
        self._settings = settings
        self._code = code
        self._engine = engine
        self._clock = clock

    def __call__(self, target: Target) -> TargetHands:
        """New for every use: nothing is remembered between two looks at a target."""
        return TargetHands(target, self._runtime(target), Path(self._settings.locks), self._clock.now, self._code)

    def _runtime(self, target: Target) -> Runtime:
        grace_s, well_s = self._settings.stop_grace_s, self._settings.well_s
        match target.runtime:
            case DockerRuntime() as spec:
                return ContainerOfTarget(spec, self._engine, health=target.health, grace_s=grace_s, patience_s=well_s)
            case ProcessRuntime() as spec:
                paths = {config.name: config.path for config in target.configs}
                path = self._settings.process_path
                return ProcessOfTarget(spec, paths, health=target.health, path=path, grace_s=grace_s, patience_s=well_s)
            case other:
                assert_never(other)


def rehearsal_for(settings: Settings, engine: Engine) -> SandboxRehearsal:
    """In the sandbox of that engine."""
    limits = Limits(cpus=settings.sandbox_cpus)
    return SandboxRehearsal(DockerSandbox(engine, limits, slots=settings.sandbox_slots, runtime=settings.sandbox_runtime))


async def look_around(settings: Settings, engine: Engine) -> None:
    """Removes what dead executors left. Raises OperatorError for a mistake in the policy or an unusable folder of locks.

    A missing policy or engine does not keep the room from starting: it waits for them, and applies nothing meanwhile.
    """
    async with fence(Path(settings.locks), "start"):
        pass  # orphans are looked for outside of it: that may take long, and of two that remove them neither minds the other
    try:
        load_policy(Path(settings.policy))
        log.info("orphans of the sandbox removed", runs=await reap(engine))
    except Unavailable as error:
        log.warning("nothing will be applied until it is there", missing=error.service, reason=error.reason)
