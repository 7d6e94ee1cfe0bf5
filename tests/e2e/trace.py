"""What the trace of one incident must tell, span by span, as Jaeger gives it."""

import json
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import httpx2

from autopatch.cli.watching import Episode
from autopatch.contract.catalogue import ROOMS
from tests.e2e.lab import Running

RULES = {"set_config": "configuration", "rollback_release": "process", "patch_code": "demo_code"}
"""The rule of the demo's policy for what a plan does first."""


@dataclass(frozen=True)
class Span:
    """`room` said it."""

    room: str
    name: str
    seconds: float
    tags: dict[str, Any]


class Spans:
    """Of one trace, by when they began: what could not be judged on a busy machine is done again, and the last one counts."""

    def __init__(self, trace: dict[str, Any]) -> None:
        rooms = {key: value["serviceName"].removeprefix("autopatch-") for key, value in trace["processes"].items()}
        self.all = [
            Span(rooms[told["processID"]], told["operationName"], told["duration"] / 1e6, _tags(told["tags"]))
            for told in sorted(trace["spans"], key=lambda told: told["startTime"])
        ]

    def named(self, room: str, name: str) -> list[Span]:
        """At least one, of that room, whose name begins so."""
        found = [span for span in self.all if span.room == room and span.name.startswith(name)]
        assert found, f"no span {name!r} of {room} among {sorted({f'{s.room}: {s.name}' for s in self.all})}"
        return found


def trace_of(it: Running, seen: Episode) -> dict[str, Any]:
    """The trace as Jaeger's API gives it, once no more spans come."""
    known = 0
    while True:
        answer = httpx2.get(f"{it.places.jaeger}/api/traces/{seen.view.trace_id}", timeout=10, trust_env=False)
        found: dict[str, Any] = answer.raise_for_status().json()["data"][0]
        if len(found["spans"]) == known:
            return found
        known = len(found["spans"])
        time.sleep(2)


def tells_everything(trace: dict[str, Any], seen: Episode) -> Spans:
    """Spans of all rooms with incident.id on each, and every decision with what it was made of. A person approved."""
    spans = Spans(trace)
    assert set(ROOMS) <= {span.room for span in spans.all}
    assert [s.name for s in spans.all if s.tags.get("incident.id") != seen.view.id] == []
    assert {span.tags["alertname"] for span in spans.named("monitor", "monitor opened")} == {seen.alert}
    _tells_what_was_measured(spans, seen)
    _tells_why_this_plan(spans, seen)
    _tells_what_was_tried(spans, seen)
    _tells_who_decided(spans, seen)
    return spans


def _tells_what_was_measured(spans: Spans, seen: Episode) -> None:
    """Query and number of the check, red before and over the soak; and what the verdict compared."""
    measured = spans.named("validator", "measure ")
    assert all(span.tags["measurement.query"] and span.tags["measurement.status"] for span in measured)
    known = [span for span in measured if span.tags["measurement.status"] == "value"]
    assert all(isinstance(span.tags[f"measurement.{what}"], int | float) for span in known for what in ("last", "mean"))
    check = [span.tags for span in known if span.name == f"measure {seen.check}"]
    assert any(tags["measurement.kind"] == "now" and tags["measurement.red.share"] == 1 for tags in check)
    assert any(tags["measurement.kind"] == "window" and tags["measurement.blocks"] for tags in check)
    judged = spans.named("validator", "judge recovery")[-1].tags
    assert judged["verdict"] == "recovered"
    assert any(line.startswith(f"{seen.check} (check): ") for line in judged["verdict.comparisons"])


def _tells_why_this_plan(spans: Spans, seen: Episode) -> None:
    """Causes with their confidence, what was retrieved, and every alternative that the plan's event names, with why not."""
    plan = seen.view.plan
    assert plan
    assert spans.named("diagnosis", "rank causes")[-1].tags["causes"][0].startswith(f"{seen.view.causes[0].id} 0.")
    assert spans.named("planner", "retrieval lessons and runbooks")[-1].tags["retrieval.runbooks"]
    chosen = spans.named("planner", "choose a plan")[-1].tags
    assert (chosen["plan.hash"], chosen["plan.summary"]) == (seen.view.plan_hash, plan.summary)
    assert chosen["plan.basis"] == f"{plan.basis.kind} {plan.basis.ref}"
    told = chosen["alternatives.rejected"]
    assert len(told) >= len(plan.rejected)
    for line, alternative in zip(told, plan.rejected, strict=False):
        assert alternative.why_not and line.startswith(alternative.summary) and alternative.why_not in line


def _tells_what_was_tried(spans: Spans, seen: Episode) -> None:
    """The rehearsal's verdicts and figures, and each action with what came of it."""
    plan = seen.view.plan
    assert plan
    if plan.steps[0].action.kind == "patch_code":
        assert spans.named("executor", "rehearsal")[-1].tags["passed"] is True
        assert all(span.tags["reports"] for span in spans.named("executor", "test runs"))
    else:
        runs = {span.tags["label"]: span.tags for span in spans.named("executor", "rehearsal run")}
        ended = {label: (tags["outcome"], tags["exit.code"]) for label, tags in runs.items()}
        assert ended == {"unchanged": ("red", 1), "changed": ("green", 0)}, ended
        assert all(isinstance(tags["figure.p95.s"], int | float) for tags in runs.values())
    acted = {span.tags["step"]: span.tags for span in spans.named("executor", "action") if "detail" in span.tags}
    assert [acted[number]["action"] for number in range(len(plan.steps))] == [step.action for step in seen.view.steps]
    assert {tags["plan.hash"] for tags in acted.values()} == {seen.view.plan_hash}


def _tells_who_decided(spans: Spans, seen: Episode) -> None:
    """The policy's verdict with rung, rule and reasons; and how long a person was waited for, and who it was."""
    plan = seen.view.plan
    assert plan
    for span in spans.named("executor", "policy verdict"):
        told = {key: span.tags[key] for key in ("plan.hash", "rung", "rule", "rehearsed", "people")}
        assert told == {
            "plan.hash": seen.view.plan_hash, "rung": "approve", "rule": RULES[plan.steps[0].action.kind], "rehearsed": True,
            "people": 1,
        }
        assert span.tags["reasons"]
    people = [decision.person for decision in seen.view.decisions if decision.said == "approved"]
    for span in spans.named("executor", "human wait"):
        assert span.tags["people"] == people and people and span.seconds > 0


def _tags(told: list[dict[str, Any]]) -> dict[str, Any]:
    """Jaeger knows no lists: it gives them as JSON in a text."""
    found = {tag["key"]: tag["value"] for tag in told}
    for key, value in found.items():
        if isinstance(value, str) and value.startswith("["):
            with suppress(ValueError):
                found[key] = json.loads(value)
    return found
