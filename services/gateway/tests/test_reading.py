"""Lists, the view, targets, the pause, knowledge."""

from autopatch.chassis.chassis import TargetRecord
from autopatch.contract import events as ev
from autopatch.contract.envelope import Unknown
from autopatch.contract.evidence import Similar
from autopatch.contract.requests import Found
from services.gateway import words
from services.gateway.tests import story
from services.gateway.tests.conftest import As
from services.gateway.tests.fakes import FakeChassis
from services.gateway.tests.story import DIFF, ID


async def test_the_view_tells_the_whole_story_of_a_resolved_incident(chassis: FakeChassis, person: As) -> None:
    made = story.awaiting(chassis)
    await person("ann").post(f"/v1/incidents/{ID}/approve", json={"plan_hash": made.hash, "comment": "fine"})
    story.resolve(chassis, made)
    found = (await person("vic").get(f"/v1/incidents/{ID}")).json()
    assert (found["state"], found["target"], found["severity"], found["open"]) == ("resolved", "payments", "page", False)
    assert found["headline"].startswith("Resolved in 9.0 s: set database.pool_size to 20 in main, then reload")
    assert "p95 0.86 s → 0.12 s" in found["headline"]
    assert [s["event"] for s in found["stages"]] == [
        "opened", "reproduced", "diagnosed", "planned", "rehearsed", "approval_requested", "approved", "applying", "applied",
        "recovered", "lesson_recorded",
    ]
    assert [s["elapsed"] for s in found["stages"]][:4] == [0, 1, 2, 3] and found["stages"][-1]["note"]
    assert found["causes"][0]["confidence"] == 0.91 and found["evidence"][0]["id"] == "m1"
    assert found["missing"] == ["log: no lines"]
    assert found["plan_hash"] == made.hash and found["diff"] == DIFF and found["risk"] == "low"
    assert found["steps"] == [
        {"action": "set database.pool_size to 20 in main", "undo": "set database.pool_size to 10 in main"},
        {"action": "reload the configuration", "undo": "nothing to undo"},
    ]
    assert found["plan"]["rejected"][0]["summary"] == "restart" and found["models"] == [story.OFF.model_dump()] * 2
    assert [r["outcome"] for r in found["rehearsal"]["runs"]] == ["red", "green"]
    assert found["approval"]["plan_hash"] == made.hash
    assert [(d["person"], d["said"], d["text"]) for d in found["decisions"]] == [("ann", "approved", "fine")]
    assert [c["verdict"] for c in found["comparisons"]] == ["better", "unknown"]
    assert found["lesson"]["lesson_id"] == "L1" and found["chain_ok"]
    assert found["attempt_list"][0]["outcome"].startswith("recovered")
    assert found["trace_url"] == f"http://jaeger.test/trace/{found['trace_id']}" and len(found["trace_id"]) == 32


async def test_a_changed_event_shows_as_a_broken_chain(chassis: FakeChassis, person: As) -> None:
    story.awaiting(chassis)
    stored = chassis.log.stored[1]
    forged = stored.envelope.model_copy(update={"by": "somebody"})
    chassis.log.stored[1] = type(stored)(stored.sequence, forged, stored.headers)
    found = (await person("vic").get(f"/v1/incidents/{ID}")).json()
    assert not found["chain_ok"] and "reproduced at 2 was changed" in found["chain_faults"]


async def test_lists_are_newest_first_filtered_and_paged(chassis: FakeChassis, person: As) -> None:
    for number in range(7):
        story.awaiting(chassis, f"payments-{number}")
    chassis.log.say("payments-3", ev.Cancelled(person="olga"), by="person:olga")
    vic = person("vic")
    first = (await vic.get("/v1/incidents", params={"limit": 3})).json()
    assert [i["id"] for i in first["items"]] == ["payments-6", "payments-5", "payments-4"]
    second = (await vic.get("/v1/incidents", params={"limit": 3, "before": first["next"], "open": True})).json()
    assert [i["id"] for i in second["items"]] == ["payments-2", "payments-1", "payments-0"] and second["next"] == ""
    cancelled = (await vic.get("/v1/incidents", params={"state": ["cancelled", "resolved"]})).json()
    assert [i["id"] for i in cancelled["items"]] == ["payments-3"]
    assert (await vic.get("/v1/incidents", params={"target": "other"})).json() == {"items": [], "next": ""}
    assert (await vic.get("/v1/incidents", params={"before": "x"})).status_code == 404


async def test_an_incident_that_cannot_be_read_does_not_hide_the_others(chassis: FakeChassis, person: As) -> None:
    story.awaiting(chassis)
    chassis.log.say("broken-1", ev.Stale(reason="without a beginning"), by="executor")
    assert [i["id"] for i in (await person("vic").get("/v1/incidents")).json()["items"]] == [ID]
    assert (await person("vic").get("/v1/incidents/broken-1")).status_code == 409


async def test_an_open_incident_says_what_it_waits_for(chassis: FakeChassis, person: As) -> None:
    chassis.log.say(ID, story.opened(), by="monitor")
    chassis.log.say(ID, ev.Waiting(on="prometheus", reason="connection refused", room="validator"), by="validator")
    chassis.clock.pass_s(65)
    found = (await person("vic").get(f"/v1/incidents/{ID}")).json()
    assert found["waiting"]["on"] == "prometheus" and found["seconds"] == 65
    assert found["headline"] == "Open for now (1 min 05 s): validator waits for prometheus: connection refused."


async def test_the_log_itself_can_be_read(chassis: FakeChassis, person: As) -> None:
    story.awaiting(chassis)
    events = (await person("vic").get(f"/v1/incidents/{ID}/events", params={"after": 4})).json()
    assert [(e["sequence"], e["envelope"]["event"]) for e in events] == [(5, "rehearsed"), (6, "approval_requested")]
    assert events[0]["envelope"]["data"]["rehearsal"]["passed"] is True


async def test_a_target_names_only_incidents_that_have_not_ended(chassis: FakeChassis, person: As) -> None:
    story.awaiting(chassis)
    chassis.records.rivals.append(TargetRecord(holder=ID, open_incident=ID))
    held = (await person("ann").post("/v1/targets/payments/hold")).json()
    assert (held["holder"], held["open_incident"]) == (ID, ID)
    await person("ann").post(f"/v1/incidents/{ID}/cancel", json={})
    shown = (await person("vic").get("/v1/targets/payments/hold")).json()
    assert (shown["holder"], shown["open_incident"]) == ("", "")


async def test_a_hold_survives_a_rival_and_keeps_its_first_holder(chassis: FakeChassis, person: As) -> None:
    chassis.records.rivals.append(TargetRecord(holder="payments-9"))
    held = (await person("olga").post("/v1/targets/payments/hold", json={"reason": "migration"})).json()
    assert (held["held_by"], held["hold_reason"], held["holder"]) == ("olga", "migration", "payments-9")
    assert (await person("ann").post("/v1/targets/payments/hold")).json()["held_by"] == "olga"
    assert (await person("vic").get("/v1/targets/payments/hold")).json()["held_by"] == "olga"
    assert (await person("vic").delete("/v1/targets/payments/hold")).status_code == 403
    assert (await person("ann").delete("/v1/targets/payments/hold")).json()["held_by"] == ""
    assert (await person("ann").post("/v1/targets/nope/hold")).status_code == 404


async def test_targets_are_listed_without_their_commands(chassis: FakeChassis, person: As) -> None:
    found = (await person("vic").get("/v1/targets")).json()
    assert found[0]["name"] == "payments" and found[0]["autonomy"] == "approve"
    assert "runtime" not in found[0] and "prometheus" not in found[0]


async def test_an_operator_pauses_everything_and_resumes(chassis: FakeChassis, person: As) -> None:
    assert (await person("vic").post("/v1/pause", json={"reason": "x"})).status_code == 403
    paused = (await person("olga").post("/v1/pause", json={"reason": "deploy"})).json()
    assert paused == {"paused": True, "reason": "olga: deploy"}
    assert (await person("ann").post("/v1/pause", json={"reason": "mine"})).json()["reason"] == "olga: deploy"
    assert (await person("ann").delete("/v1/pause")).json() == {"paused": False, "reason": ""}
    assert chassis.control.reason == ""


async def test_knowledge_is_asked_with_the_filters(chassis: FakeChassis, person: As) -> None:
    chassis.asker.found = Found(items=(Similar(id="r1", kind="runbook", title="Pool", text="…", score=0.9),))
    found = await person("vic").get("/v1/knowledge/search", params={"q": "pool", "kind": ["runbook"], "target": "payments"})
    assert found.json()["items"][0]["id"] == "r1"
    asked = chassis.asker.asked[0]
    assert (asked.text, asked.target, asked.kinds) == ("pool", "payments", ("runbook",))


async def test_unmatched_alerts_are_shown_newest_first(chassis: FakeChassis, person: As) -> None:
    chassis.unmatched.alerts = [{"reason": "no target"}, {"reason": "two targets"}]
    assert [a["reason"] for a in (await person("vic").get("/v1/unmatched")).json()] == ["two targets", "no target"]


def test_every_event_has_a_line_for_people() -> None:
    assert {*ev.EVENTS.values(), Unknown} == set(words._LINES)
