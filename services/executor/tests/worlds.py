"""A world for the tests of deciding and acting: real files, a counting runtime."""

from pathlib import Path
from typing import Any


from autopatch.chassis.chassis import TargetRecord
from autopatch.contract.actions import Action
from autopatch.contract.lifecycle import Incident
from autopatch.contract.model import digest
from autopatch.contract.plan import Plan
from services.executor.tests.fakes import World
from services.executor.tests.given import (
    CONFIG,
    a_plan,
    a_target,
    rehearsed,
)

POOL_20 = CONFIG.replace(b'"pool_size": 10', b'"pool_size": 20')
REHEARSE = {"command": ["rehearse", "{config:main}"], "image": "i"}


def a_world(folder: Path, policy: str = "", **target: Any) -> World:
    (folder / "config.json").write_bytes(CONFIG)
    return World(folder, a_target(folder, **target), policy)


def plan_of(*actions: Action) -> Plan:
    return a_plan(*actions, digest=digest(CONFIG))


def applying(world: World, *actions: Action) -> Incident:
    """An incident whose rehearsed plan has been told to the room and has passed the gate."""
    return world.has(rehearsed(plan_of(*actions)))


def no_policy(world: World) -> None:
    world.policy.unlink()


def paused(world: World) -> None:
    world.chassis.control.why = "ann pulled the brake"


def held(world: World) -> None:
    world.chassis.records.kept["payments"] = (TargetRecord(held_by_operator="ann", hold_reason="migration"), 1)
