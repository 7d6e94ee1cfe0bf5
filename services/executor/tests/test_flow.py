"""What the executor tells of targets, and its traces."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from autopatch.chassis.room import Reject
from autopatch.chassis.telemetry import scope
from autopatch.contract import events as ev
from autopatch.contract import requests as rq
from autopatch.contract.errors import OperatorError
from autopatch.contract.lifecycle import Incident, State
from autopatch.contract.model import digest
from services.executor.tests.given import (
    CONFIG,
    MODEL,
    NOW,
    RELOAD,
    planned,
    pool,
    rehearsed,
)
from services.executor.tests.worlds import a_world, plan_of


# --- answers --------------------------------------------------------------------------------------------------------


async def test_inspect_shows_editable_values_only(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    state: Any = await world.room.responders[rq.Inspect](rq.Inspect(target="payments"))
    assert state.model_dump(include={"release", "instance", "running", "releases"}) == {
        "release": "r1",
        "instance": "i1",
        "running": True,
        "releases": ("r1", "r2"),
    }
    assert state.configs[0].values == {"database.pool_size": 10, "database.timeout_ms": 5000}
    assert state.configs[0].digest == digest(CONFIG)
    with pytest.raises(OperatorError, match="no target 'nope'"):
        await world.room.responders[rq.Inspect](rq.Inspect(target="nope"))


async def test_logs_are_redacted_also_of_the_configurations_own_secrets(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    answer: Any = await world.room.responders[rq.Logs](rq.Logs(target="payments", start=NOW, end=NOW, limit=10))
    assert "hunter2" not in "".join(answer.lines)
    assert answer.lines[-1] == "plain"
    assert not answer.truncated


async def test_a_plan_whose_hash_was_tampered_with_is_rejected(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    plan = plan_of(pool())
    incident = planned(plan)
    forged = incident.log[-1].envelope.model_copy(update={"data": ev.Planned(plan=plan, plan_hash="x", model=MODEL)})
    world.has(Incident("one", State.PLANNED, (*incident.log[:-1], type(incident.log[-1])(4, forged)), forged.event_id))
    with pytest.raises(Reject, match="hash"):
        await world.deliver()


# --- traces ---------------------------------------------------------------------------------------------------------


async def test_a_trace_shows_verdict_wait_actions_and_rollback(tmp_path: Path) -> None:
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    world = a_world(tmp_path, autonomy={"default": "approve"})
    plan = plan_of(pool(), RELOAD)
    with scope(provider.get_tracer("test"), "one"):
        world.has(rehearsed(plan))
        await world.run()
        world.chassis.clock.at += timedelta(seconds=90)
        world.says(ev.Approved(plan_hash=plan.hash, person="ann"))
        await world.run()
        world.says(ev.NotRecovered(reason="red"))
        await world.run()
    spans = kept.get_finished_spans()
    assert all((span.attributes or {})["incident.id"] == "one" for span in spans)
    names = [span.name for span in spans]
    assert names == ["policy verdict", "policy verdict", "human wait", "action", "action", "rollback", "rollback"]
    verdict, wait, action = ({**(spans[i].attributes or {})} for i in (0, 2, 3))
    assert (verdict["rung"], verdict["rule"], verdict["rehearsed"]) == ("approve", "all", True)
    assert verdict["reasons"] == (
        "the target's autonomy for set_config is approve",
        "the target's autonomy for reload is approve",
    )
    assert wait["people"] == ("ann",)
    assert spans[2].end_time and spans[2].start_time and spans[2].end_time - spans[2].start_time == 90 * 10**9
    assert action["action"] == "set database.pool_size to 20 in main"
