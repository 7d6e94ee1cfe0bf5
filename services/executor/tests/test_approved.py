"""A policy that was made stricter after people were asked counts when they approve."""

import json
from pathlib import Path
from typing import Any

import pytest

from autopatch.chassis.chassis import TargetRecord
from autopatch.contract import events as ev
from autopatch.contract.lifecycle import State
from services.executor.tests.given import CONFIG, NOW, RELOAD, pool, rehearsed
from services.executor.tests.worlds import POOL_20, a_world, plan_of

FREEZE = [{"start": "2026-12-01T00:00:00Z", "end": "2026-12-02T00:00:00Z", "why": "holidays"}]


@pytest.mark.parametrize(("rule", "says"), [
    ({"at_most": "observe"}, "rule all allows set_config at most by observe"),
    ({"at_most": "suggest"}, "rule all allows set_config at most by suggest"),
    ({"at_most": "suggest", "freeze": FREEZE}, "freeze of rule all: holidays"),
    ({"freeze": FREEZE}, "freeze of rule all: holidays"),
    ({"two_persons": True}, "by now 2 people must approve it"),
    ({"max_per_hour": 1}, "rule all allows 1 actions per hour"),
    ({"max_steps": 1}, "rule all allows 1 steps in a plan"),
    ({"actions": ["set_config"]}, "no rule covers reload"),
    ({}, ""),
])
async def test_what_the_policy_does_not_allow_any_more_is_refused_though_it_was_approved(
    tmp_path: Path, rule: dict[str, Any], says: str
) -> None:
    world = a_world(tmp_path, autonomy={"default": "approve"})
    plan = plan_of(pool(), RELOAD)
    world.has(rehearsed(plan))
    await world.run()
    assert world.incident().state is State.AWAITING
    world.chassis.records.kept["payments"] = (TargetRecord(actions=(NOW,)), 1)
    changed = {"name": "all", "actions": ["set_config", "reload"], "targets": ["*"], **rule}
    world.policy.write_text(json.dumps({"rules": [changed]}))
    world.says(ev.Approved(plan_hash=plan.hash, person="ann"))
    await world.run()
    refused = world.incident().last(ev.Refused)
    assert says in refused.reason if refused else not says
    assert world.story()[-1] == ("refused" if says else "applied")
    assert world.file.read_bytes() == (CONFIG if says else POOL_20)


async def test_a_target_whose_autonomy_was_lowered_since_is_not_changed_either(tmp_path: Path) -> None:
    world = a_world(tmp_path, autonomy={"default": "approve"})
    plan = plan_of(pool())
    world.has(rehearsed(plan))
    await world.run()
    lowered = world.target.model_copy(update={"autonomy": world.target.autonomy.model_copy(update={"default": "suggest"})})
    world.chassis.targets.known["payments"] = lowered
    world.says(ev.Approved(plan_hash=plan.hash, person="ann"))
    await world.run()
    refused = world.incident().last(ev.Refused)
    assert refused and refused.reason == "the target's autonomy for set_config is suggest"
    assert world.file.read_bytes() == CONFIG
