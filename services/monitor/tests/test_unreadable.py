"""Alerts with gaps and nonsense in them: what is not needed costs nothing, and what cannot be used is shown to people."""

from datetime import datetime, timedelta
from typing import Any

import pytest
import structlog.testing

from autopatch.contract.lifecycle import State
from services.monitor.tests.given import NOW, FakeAlertmanager, alert, chassis, group, held, http, room
from services.monitor.tests.test_reconcile import comparing

PATH = "/v1/webhooks/alertmanager"
ORDERS = {"alertname": "Slow", "service": "orders"}
BEYOND = "9999-12-31T23:59:59-05:00"
"""A date that is none in UTC."""


@pytest.mark.parametrize(
    "changes",
    [
        {"annotations": None}, {"annotations": []}, {"annotations": "x"}, {"generatorURL": None}, {"generatorURL": 7},
        {"status": None}, {"endsAt": None}, {"endsAt": ""}, {"endsAt": "10000-01-01T00:00:00Z"}, {"endsAt": BEYOND},
        {"endsAt": {"at": 1}}, {"fingerprint": None},
    ],
)
async def test_a_firing_alert_opens_whatever_stands_where_nothing_is_needed(changes: dict[str, Any]) -> None:
    on = chassis()
    answer = await http(room(on)).post(PATH, json=group(alert(**changes)))
    assert (answer.status_code, answer.json()["opened"], answer.json()["ignored"]) == (200, 1, 0)
    assert on.incidents[0].opened.alert and on.unmatched.added == []


@pytest.mark.parametrize("ends", [None, "", "0001-01-01T00:00:00Z"])
async def test_a_resolved_alert_that_does_not_say_when_ended_now(ends: str | None) -> None:
    on = chassis()
    client = http(room(on))
    await client.post(PATH, json=group(alert()))
    await client.post(PATH, json=group(alert(status="resolved", endsAt=ends)))
    assert on.incidents[0].state is State.CLOSED


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"labels": None}, "it has no alertname"), ({"labels": 7}, "its labels cannot be read"),
        ({"labels": ["alertname"]}, "its labels cannot be read"),
        ({"status": "exploded"}, "its status is neither firing nor resolved"),
        ({"status": 5}, "its status is neither firing nor resolved"),
        ({"startsAt": None}, "it has no startsAt"), ({"startsAt": ""}, "it has no startsAt"),
        ({"startsAt": "soon"}, "its startsAt cannot be read"), ({"startsAt": BEYOND}, "its startsAt cannot be read"),
        ({"startsAt": "10000-01-01T00:00:00Z"}, "its startsAt cannot be read"), ({"startsAt": []}, "its startsAt cannot be read"),
        ({"status": "resolved", "endsAt": BEYOND}, "its endsAt cannot be read"),
        ({"status": "resolved", "endsAt": "later"}, "its endsAt cannot be read"),
    ],
)
async def test_an_alert_that_cannot_be_used_is_shown_once_with_the_reason_and_costs_no_other(
    changes: dict[str, Any], reason: str
) -> None:
    on = chassis()
    client = http(room(on))
    for minute in range(3):
        on.clock.at = NOW + timedelta(minutes=minute)
        answer = await client.post(PATH, json=group(alert(**changes), alert(labels=ORDERS)))
        assert (answer.status_code, answer.json()["unmatched"], answer.json()["ignored"]) == (200, 1, 0)
    assert [why for _, why in on.unmatched.added] == [reason]
    assert [incident.target for incident in on.incidents] == ["orders"]


async def test_a_status_that_is_absent_here_and_in_the_group_is_a_fault() -> None:
    on = chassis()
    answer = await http(room(on)).post(PATH, json=group(alert() | {"status": None}, status=None))
    assert answer.json()["unmatched"] == 1 and on.unmatched.added[0][1] == "its status is neither firing nor resolved"


async def test_an_end_that_cannot_be_read_leaves_its_incident_open() -> None:
    on = chassis()
    client = http(room(on))
    await client.post(PATH, json=group(alert()))
    await client.post(PATH, json=group(alert(status="resolved", endsAt=BEYOND)))
    assert on.told() == ["opened"]


@pytest.mark.parametrize("item", [1, None, "x", []])
async def test_what_is_no_alert_at_all_is_counted_and_said_in_the_log(item: Any) -> None:
    on = chassis()
    with structlog.testing.capture_logs() as said:
        answer = await http(room(on)).post(PATH, json=group(item, alert()))
    assert (answer.status_code, answer.json()["ignored"], answer.json()["opened"]) == (200, 1, 1)
    assert [(s["sender"], s["count"]) for s in said if "no alert" in s["event"]] == [("alertmanager", 1)]


async def test_a_date_beyond_all_dates_does_not_end_the_comparison_with_alertmanager() -> None:
    on = chassis()
    odd = held("Odd").model_copy(update={"starts_at": datetime.fromisoformat(BEYOND)})
    alertmanager = FakeAlertmanager([odd, held()])
    await comparing(on, alertmanager).once(alertmanager)
    assert len(on.incidents) == 1 and on.unmatched.added[0][1] == "its startsAt cannot be read"
