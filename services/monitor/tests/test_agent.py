"""What a word about an alert does, decided purely over logs in memory."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from autopatch.contract import events as ev
from autopatch.contract.lifecycle import Incident, State
from services.monitor import agent
from services.monitor.adapters.sources import wire
from services.monitor.agent import Rules
from services.monitor.ingest import Ingest
from services.monitor.tests.given import NOW, Chassis, alert, chassis, group

RULES = Rules(timedelta(seconds=300), 3)


async def hear(on: Chassis, *alerts: dict[str, object], **changes: object) -> str:
    """Take a group the way a webhook does; returns what became of it, compactly."""
    batch = wire.parse(json.dumps(group(*alerts, **changes)).encode(), "alertmanager", on.clock.now())
    taken = await Ingest(on, RULES, 1).take(batch.alerts, {})
    return " ".join(f"{k}:{v}" for k, v in taken.model_dump().items() if v)


async def end(on: Chassis, *events: ev.Event, index: int = 0) -> Incident:
    return await on.log.append(on.incidents[index], events, by="test")


NOT_RED = ev.NotReproduced(reason="green")
REPRODUCED = ev.Reproduced(signal="s", checks=())
ESCALATED = ev.Escalated(reason="x", room="planner")
CANCELLED = ev.Cancelled(person="ada")


async def test_a_new_alert_opens_an_incident_with_a_readable_deterministic_id() -> None:
    ids = set()
    for _ in range(2):
        on = chassis()
        assert await hear(on, alert()) == "opened:1"
        ids.add(on.incidents[0].id)
    assert len(ids) == 1
    name, _, hexadecimal = ids.pop().rpartition("-")
    assert name == "payments" and len(hexadecimal) == 12 and int(hexadecimal, 16) >= 0


async def test_the_order_of_labels_and_empty_labels_do_not_change_an_identity() -> None:
    assert agent.identity({"a": "1", "b": "2"}) == agent.identity({"b": "2", "a": "1", "c": ""})
    assert agent.identity({"a": "1", "b": "2"}) != agent.identity({"a": "2", "b": "1"})
    assert len(agent.identity({"a": "1"})) == 16


async def test_a_start_in_nanoseconds_and_in_milliseconds_is_the_same_incident() -> None:
    first, second = chassis(), chassis()
    await hear(first, alert(startsAt="2026-01-05T12:00:00.123456789Z"))
    await hear(second, alert(startsAt="2026-01-05T13:00:00.123+01:00"))
    assert first.incidents[0].id == second.incidents[0].id


async def test_a_repeat_changes_nothing_and_a_changed_annotation_is_told() -> None:
    on = chassis()
    await hear(on, alert())
    assert await hear(on, alert(), alert(generatorURL="http://other-replica.test")) == "nothing:2"
    assert await hear(on, alert(annotations={"summary": "worse"})) == "told:1"
    assert await hear(on, alert(annotations={"summary": "worse"})) == "nothing:1"
    assert on.told() == ["opened", "alert_updated"]


async def test_another_alert_of_the_target_joins_its_open_incident() -> None:
    on = chassis()
    assert await hear(on, alert("Slow"), alert("Errors"), alert("Errors")) == "opened:1 told:1 nothing:1"
    assert len(on.incidents) == 1 and on.told() == ["opened", "alert_updated"]


async def test_an_alert_of_another_target_opens_its_own() -> None:
    on = chassis()
    other = alert(labels={"alertname": "Slow", "service": "orders"})
    assert await hear(on, alert(), other) == "opened:2"
    assert sorted(i.target for i in on.incidents) == ["orders", "payments"]


async def test_resolved_clears_and_closes_before_anything_was_applied() -> None:
    on = chassis()
    await hear(on, alert())
    assert await hear(on, alert(status="resolved")) == "told:1"
    assert on.incidents[0].state is State.CLOSED and on.told() == ["opened", "cleared"]
    assert await hear(on, alert(status="resolved"), alert(status="resolved")) == "nothing:2"


async def test_resolved_for_an_alert_that_was_never_seen_firing_is_no_incident() -> None:
    on = chassis()
    assert await hear(on, alert(status="resolved")) == "nothing:1"
    assert on.incidents == []


async def test_a_late_resolved_of_an_earlier_firing_does_not_clear_the_present_one() -> None:
    on = chassis()
    await hear(on, alert(start=600))
    assert await hear(on, alert(status="resolved", start=0)) == "nothing:1"
    assert on.told() == ["opened"]


async def test_a_joined_alert_that_resolves_does_not_close_the_incident_of_the_first() -> None:
    on = chassis()
    await hear(on, alert("Slow"), alert("Errors"))
    assert await hear(on, alert("Errors", status="resolved")) == "told:1"
    assert on.incidents[0].state is State.OPEN and on.told()[-1] == "alert_updated"


async def test_a_group_that_mixes_firing_and_resolved_is_taken_apart() -> None:
    on = chassis()
    await hear(on, alert("Slow"))
    orders = alert("Slow", labels={"alertname": "Slow", "service": "orders"})
    assert await hear(on, alert("Slow", status="resolved"), orders, status="firing") == "opened:1 told:1"
    assert [i.state for i in on.incidents] == [State.CLOSED, State.OPEN]


async def test_after_an_end_the_same_alert_opens_the_next_generation_when_it_has_cooled_down() -> None:
    on = chassis()
    await hear(on, alert())
    await end(on, NOT_RED)
    on.clock.later(299)
    assert await hear(on, alert()) == "nothing:1"
    on.clock.later(2)
    assert await hear(on, alert()) == "opened:1"
    assert [i.opened.generation for i in on.incidents] == [0, 1]


async def test_at_most_three_incidents_a_day_are_opened_by_one_alert() -> None:
    on = chassis()
    for hour in range(6):
        await hear(on, alert(start=hour * 3600))
        if on.incidents[-1].state is State.OPEN:
            await end(on, NOT_RED, index=-1)
        on.clock.later(3600)
    assert len(on.incidents) == 3
    on.clock.later(86400)
    assert await hear(on, alert(start=90_000)) == "opened:1"


async def test_a_flapping_alert_opens_one_incident_within_the_cool_down() -> None:
    on = chassis()
    for change in range(60):
        start = change * 5
        on.clock.at = NOW + timedelta(seconds=start)
        await hear(on, alert(start=start, status="resolved" if change % 2 else "firing"))
    assert len(on.incidents) == 1


@pytest.mark.parametrize("ending", [(REPRODUCED, ESCALATED), (CANCELLED,)])
async def test_after_a_person_or_an_escalation_a_fault_that_keeps_firing_opens_nothing(ending: tuple[ev.Event, ...]) -> None:
    on = chassis()
    await hear(on, alert("Slow"), alert("Errors"))
    await end(on, *ending)
    for _ in range(5):
        on.clock.later(4 * 3600)
        await hear(on, alert("Slow"), alert("Errors"))
    assert len(on.incidents) == 1


async def test_after_an_escalation_a_new_firing_opens_only_when_the_old_one_had_cleared() -> None:
    on = chassis()
    await hear(on, alert())
    await end(on, ESCALATED)
    on.clock.later(3600)
    assert await hear(on, alert(start=3600, annotations={"a": "b"})) == "told:1"
    assert len(on.incidents) == 1
    assert await hear(on, alert(status="resolved", start=3600)) == "told:1"
    on.clock.later(3600)
    assert await hear(on, alert(start=7200)) == "opened:1"


async def test_an_older_clearing_does_not_open_the_way_for_the_firing_that_was_escalated() -> None:
    on = chassis()
    await hear(on, alert())
    incident = on.incidents[0]
    on.log.incidents[incident.id] = replace(incident, state=State.APPLYING)
    await hear(on, alert(status="resolved"))
    await hear(on, alert(start=100))
    assert on.told() == ["opened", "cleared", "alert_updated"]
    await end(on, ESCALATED)
    on.clock.later(3600)
    assert await hear(on, alert(start=100)) == "nothing:1"


async def test_a_new_firing_noted_during_the_cool_down_opens_afterwards() -> None:
    on = chassis()
    await hear(on, alert())
    await end(on, ESCALATED)
    await hear(on, alert(status="resolved"))
    on.clock.later(120)
    assert await hear(on, alert(start=120)) == "told:1"
    on.clock.later(300)
    assert await hear(on, alert(start=120)) == "opened:1"


async def test_an_alert_that_joined_is_cooled_down_with_the_incident_it_joined() -> None:
    on = chassis()
    await hear(on, alert("Slow"), alert("Errors"))
    await end(on, NOT_RED)
    assert await hear(on, alert("Errors")) == "nothing:1"
    on.clock.later(301)
    assert await hear(on, alert("Errors")) == "opened:1"


async def test_a_reopened_incident_takes_its_alert_again() -> None:
    on = chassis()
    await hear(on, alert())
    await end(on, ESCALATED, ev.Reopened(person="ada"))
    on.clock.later(3600)
    assert await hear(on, alert(annotations={"summary": "still"})) == "told:1"
    assert len(on.incidents) == 1


async def test_a_defect_job_is_not_joined() -> None:
    on = chassis()
    await on.log.append(Incident("job-1"), [ev.Opened(target="payments", title="a failing test")], by="gateway")
    record, revision = await on.records.get("payments")
    await on.records.put("payments", record.model_copy(update={"open_incident": "job-1"}), revision)
    assert await hear(on, alert()) == "opened:1"


async def test_a_forgotten_record_does_not_open_a_second_incident_for_the_same_firing() -> None:
    on = chassis()
    await hear(on, alert())
    on.records.kept.clear()
    assert await hear(on, alert()) == "nothing:1"
    await end(on, NOT_RED)
    on.records.kept.clear()
    on.clock.later(600)
    assert await hear(on, alert()) == "opened:1"
    assert [i.opened.generation for i in on.incidents] == [0, 1]


async def test_the_record_of_a_target_does_not_grow_without_end() -> None:
    on = chassis()
    for number in range(agent.MOST_EPISODES + 50):
        await hear(on, alert(f"Alert{number}", start=number))
    record, _ = await on.records.get("payments")
    assert len(record.episodes) == agent.MOST_EPISODES
    assert len(record.model_dump_json()) < 60_000


def crowd(more: int) -> list[dict[str, object]]:
    """More alerts of one target than its record remembers."""
    labels = [{"alertname": "Slow", "service": "payments", "pod": f"p-{n}"} for n in range(agent.MOST_EPISODES + more)]
    return [alert(labels=one) for one in labels]


async def test_a_repeat_of_more_alerts_than_are_remembered_changes_nothing() -> None:
    on, alerts = chassis(), crowd(60)
    assert await hear(on, *alerts) == "opened:1 told:259"
    for _ in range(3):
        on.clock.later(600)
        assert await hear(on, *alerts) == "nothing:260"
    assert len(on.incidents) == 1 and len(on.incidents[0].log) == 260


async def test_the_end_of_an_alert_that_joined_and_was_forgotten_is_noted_once() -> None:
    on, alerts = chassis(), crowd(60)
    await hear(on, *alerts)
    ended = [one | {"status": "resolved", "endsAt": (NOW + timedelta(seconds=60)).isoformat()} for one in alerts[1:]]
    assert await hear(on, *ended) == "told:259"
    assert await hear(on, *ended) == "nothing:259"
    assert on.incidents[0].state is State.OPEN


async def test_an_alert_that_joined_and_was_forgotten_is_cooled_down_with_the_incident_it_joined() -> None:
    on, alerts = chassis(), crowd(60)
    await hear(on, *alerts)
    await end(on, NOT_RED)
    assert await hear(on, *alerts) == "nothing:260"
    on.clock.later(301)
    assert await hear(on, *alerts) == "opened:1 told:259"


async def two_ended(on: Chassis) -> None:
    """A was rejected, B was opened by another alert, A was reopened while B was open, and B was cancelled."""
    await hear(on, alert("A"))
    await end(on, ESCALATED)
    assert await hear(on, alert("B")) == "opened:1"
    await end(on, ev.Reopened(person="ada"))
    await end(on, CANCELLED, index=1)


async def test_after_a_reopen_the_next_alert_joins_what_is_open_instead_of_opening_beside_it() -> None:
    on = chassis()
    await two_ended(on)
    assert await hear(on, alert("C"), alert("D"), alert("C")) == "told:2 nothing:1"
    assert [i.state for i in on.incidents] == [State.OPEN, State.CANCELLED]
    assert on.records.kept["payments"][0].open_incident == on.incidents[0].id


async def test_a_reopened_incident_is_found_though_the_record_forgot_the_alert_that_opened_it() -> None:
    on = chassis()
    await two_ended(on)
    record, revision = on.records.kept["payments"]
    on.records.kept["payments"] = (record.model_copy(update={"episodes": {}}), revision)
    assert await hear(on, alert("C")) == "told:1"
    on.clock.later(600)
    assert await hear(on, alert("B")) == "nothing:1"
    assert await hear(on, alert("B", status="resolved"), alert("B", start=700)) == "told:2"
    assert len(on.incidents) == 2


async def test_what_is_open_on_another_target_or_has_no_alert_is_not_joined() -> None:
    on = chassis()
    opened = ev.Opened(target="payments", title="a failing test")
    await on.log.append(Incident("payments-0123456789ab"), [opened], by="gateway")
    assert await hear(on, alert(labels={"alertname": "Slow", "service": "orders"})) == "opened:1"
    assert await hear(on, alert()) == "opened:1"
