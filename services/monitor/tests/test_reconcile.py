"""What a comparison with Alertmanager finds, clears, and leaves alone; and what is said of silences."""

import asyncio
from datetime import timedelta

import pytest

from autopatch.contract import events as ev
from autopatch.contract.errors import Unavailable
from autopatch.contract.lifecycle import Incident, State
from autopatch.contract.requests import Silenced, SilenceState
from services.monitor.agent import Rules
from services.monitor.ingest import Ingest
from services.monitor.reconcile import UNSET, Reconciliation
from services.monitor.tests.given import NOW, Chassis, FakeAlertmanager, alert, chassis, group, held, http, room

PATH = "/v1/webhooks/alertmanager"


def comparing(on: Chassis, alertmanager: FakeAlertmanager | None) -> Reconciliation:
    ingest = Ingest(on, Rules(timedelta(seconds=300), 3), 0.3)
    return Reconciliation(on, ingest, alertmanager, interval_s=60, grace_s=300)


async def webhook(on: Chassis, *alerts: dict[str, object]) -> None:
    assert (await http(room(on)).post(PATH, json=group(*alerts))).status_code == 200


async def test_a_webhook_that_never_arrived_is_found() -> None:
    on, alertmanager = chassis(), FakeAlertmanager([held()])
    await comparing(on, alertmanager).once(alertmanager)
    opened = on.incidents[0].opened
    assert opened.alert and opened.alert.source == "reconciliation"
    await webhook(on, alert(annotations={"summary": "polled"}))
    assert on.told() == ["opened"]


async def test_what_is_known_already_is_left_alone_however_often_it_is_compared() -> None:
    on, alertmanager = chassis(), FakeAlertmanager([held()])
    await webhook(on, alert())
    compare = comparing(on, alertmanager)
    for _ in range(5):
        on.clock.later(60)
        await compare.once(alertmanager)
    assert on.told() == ["opened"]


async def test_an_alert_that_is_gone_is_cleared_when_it_is_no_longer_young() -> None:
    on, alertmanager = chassis(), FakeAlertmanager([])
    await webhook(on, alert())
    compare = comparing(on, alertmanager)
    on.clock.later(119)
    await compare.once(alertmanager)
    assert on.told() == ["opened"]
    on.clock.later(2)
    await compare.once(alertmanager)
    assert on.told() == ["opened", "cleared"] and on.incidents[0].state is State.CLOSED
    on.clock.later(60)
    await compare.once(alertmanager)
    assert on.told() == ["opened", "cleared"]


async def test_an_escalated_incidents_alert_is_cleared_as_a_note_so_that_a_new_firing_counts() -> None:
    on, alertmanager = chassis(), FakeAlertmanager([])
    await webhook(on, alert())
    await on.log.append(on.incidents[0], [ev.Escalated(reason="x", room="planner")], by="planner")
    on.clock.later(3600)
    compare = comparing(on, alertmanager)
    await compare.once(alertmanager)
    assert on.told()[-1] == "cleared" and on.incidents[0].state is State.ESCALATED
    alertmanager.held = [held(start=7200)]
    on.clock.later(3600)
    await compare.once(alertmanager)
    assert len(on.incidents) == 2


async def test_the_end_of_an_alert_that_the_record_forgot_is_found_as_well() -> None:
    on, alertmanager = chassis(), FakeAlertmanager([held()])
    await webhook(on, alert(), alert("Errors"))
    record, revision = on.records.kept["payments"]
    on.records.kept["payments"] = (record.model_copy(update={"episodes": {}}), revision)
    on.clock.later(121)
    await comparing(on, alertmanager).once(alertmanager)
    assert on.told() == ["opened", "alert_updated", "alert_updated"] and on.incidents[0].state is State.OPEN


@pytest.mark.parametrize("trouble", [{"away": True}, {"started_at": NOW + timedelta(seconds=400)}, {"cluster": "settling"}])
async def test_a_missing_alert_proves_nothing_while_alertmanager_is_away_young_or_settling(trouble: dict[str, object]) -> None:
    on, alertmanager = chassis(), FakeAlertmanager([], **trouble)  # type: ignore[arg-type]
    await webhook(on, alert())
    on.clock.later(600)
    try:
        await comparing(on, alertmanager).once(alertmanager)
    except Unavailable:
        assert alertmanager.away
    assert on.told() == ["opened"]


async def test_alerts_of_other_senders_are_not_cleared_by_alertmanagers_silence_about_them() -> None:
    on, alertmanager = chassis(), FakeAlertmanager([])
    answer = await http(room(on)).post("/v1/webhooks/grafana", json=group(alert()), headers={"authorization": "Bearer gr-token"})
    assert answer.status_code == 200
    on.clock.later(3600)
    await comparing(on, alertmanager).once(alertmanager)
    assert on.told() == ["opened"]


async def test_a_silence_is_noted_and_its_end_too() -> None:
    on, alertmanager = chassis(), FakeAlertmanager([held(silenced_by=("s1",))])
    await webhook(on, alert())
    compare = comparing(on, alertmanager)
    await compare.once(alertmanager)
    await compare.once(alertmanager)
    assert on.told() == ["opened", "alert_updated"] and on.incidents[0].silenced
    alertmanager.held = [held()]
    await compare.once(alertmanager)
    assert on.told() == ["opened", "alert_updated", "alert_updated"] and not on.incidents[0].silenced


async def test_a_silenced_alert_opens_nothing_until_it_is_heard_again() -> None:
    on, alertmanager = chassis(), FakeAlertmanager([held(silenced_by=("s1",))])
    compare = comparing(on, alertmanager)
    await compare.once(alertmanager)
    assert on.incidents == []
    alertmanager.held = [held()]
    await compare.once(alertmanager)
    assert len(on.incidents) == 1


async def test_unmatched_alerts_are_recorded_once_and_not_every_minute() -> None:
    on, alertmanager = chassis(), FakeAlertmanager([held(service="nobody")])
    compare = comparing(on, alertmanager)
    for _ in range(4):
        await compare.once(alertmanager)
    assert len(on.unmatched.added) == 1


async def test_without_an_address_the_loop_ends_and_says_why() -> None:
    compare = comparing(chassis(), None)
    async with asyncio.timeout(1):
        await compare.run()
    assert compare.problem == UNSET
    answer = await http(room(chassis())).get("/v1/webhooks")
    assert answer.json()["reconciliation"] == UNSET


async def test_the_loop_survives_an_alertmanager_that_is_away_and_says_so() -> None:
    on, alertmanager = chassis(), FakeAlertmanager([held()], away=True)
    ingest = Ingest(on, Rules(timedelta(seconds=300), 3), 0.3)
    compare = Reconciliation(on, ingest, alertmanager, interval_s=0.02, grace_s=300)
    loop = asyncio.create_task(compare.run())
    try:
        async with asyncio.timeout(5):
            while not compare.problem:
                await asyncio.sleep(0.01)
            alertmanager.away = False
            while not on.incidents or compare.problem:
                await asyncio.sleep(0.01)
    finally:
        loop.cancel()


async def ask(on: Chassis, alertmanager: FakeAlertmanager | None, incident_id: str = "") -> SilenceState:
    answer = await room(on, alertmanager).responders[Silenced](Silenced(incident_id=incident_id or on.incidents[0].id))
    assert isinstance(answer, SilenceState)
    return answer


@pytest.mark.parametrize(
    ("alertmanager", "status"),
    [
        (FakeAlertmanager([held()]), "active"),
        (FakeAlertmanager([held(silenced_by=("s1",))]), "silenced"),
        (FakeAlertmanager([]), "active"),
        (FakeAlertmanager([], started_at=NOW - timedelta(seconds=10)), "unknown"),
        (FakeAlertmanager([], cluster="settling"), "unknown"),
        (FakeAlertmanager([held()], away=True), "unknown"),
        (None, "unknown"),
    ],
)
async def test_what_cannot_be_known_of_a_silence_is_unknown(alertmanager: FakeAlertmanager | None, status: str) -> None:
    on = chassis()
    await webhook(on, alert())
    assert (await ask(on, alertmanager)).status == status


async def test_an_alert_that_did_not_come_from_alertmanager_cannot_be_silenced_there() -> None:
    on = chassis()
    await http(room(on)).post("/v1/webhooks/grafana", json=group(alert()), headers={"authorization": "Bearer gr-token"})
    assert (await ask(on, None)) == SilenceState(status="active", reason="no Alertmanager configured")
    assert (await ask(on, FakeAlertmanager([]))).status == "active"
    assert (await ask(on, FakeAlertmanager([], away=True))).status == "unknown"


async def test_an_unknown_incident_is_unknown_and_a_defect_job_is_active() -> None:
    on = chassis()
    assert (await ask(on, FakeAlertmanager([]), "nobody-1")).status == "unknown"
    await on.log.append(Incident("job-1"), [ev.Opened(target="payments", title="t")], by="gateway")
    assert (await ask(on, FakeAlertmanager([]))).status == "active"
