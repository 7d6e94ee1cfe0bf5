"""Hands for a target, over the runtime that its file names."""

from pathlib import Path
from typing import assert_never

from autopatch.chassis.clock import Clock
from autopatch.contract.target import DockerRuntime, ProcessRuntime, Target
from services.executor.adapters.delivery.hands import TargetHands
from services.executor.adapters.delivery.runtime import Runtime
from services.executor.adapters.runtimes.container import ContainerOfTarget
from services.executor.adapters.runtimes.engine import Engine
from services.executor.adapters.runtimes.process import ProcessOfTarget
from services.executor.settings import Settings


class HandsFor:
    """Called with a target it gives the hands for it."""

    def __init__(self, settings: Settings, engine: Engine, clock: Clock) -> None:
        self._settings = settings
        self._engine = engine
        self._clock = clock

    def __call__(self, target: Target) -> TargetHands:
        """New for every use: nothing is remembered between two looks at a target."""
        return TargetHands(target, self._runtime(target), Path(self._settings.locks), self._clock.now)

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
