"""approve, reject, cancel, reopen, hold, pause, resume, kb."""

from pathlib import Path

from autopatch.cli.tests.conftest import Run, only_json
from autopatch.contract import events as ev
from autopatch.contract.evidence import Similar
from autopatch.contract.requests import Found
from services.gateway.tests import story
from services.gateway.tests.serving import Served
from services.gateway.tests.story import ID


def events(gateway: Served) -> list[str]:
    return [s.envelope.event for s in gateway.chassis.log.stored]


def test_approve_shows_what_will_be_done_and_binds_to_it(run: Run, gateway: Served) -> None:
    made = story.awaiting(gateway.chassis)
    result = run("ann", "approve", ID, "--comment", "looks right")
    wanted = (
        f"Plan {made.hash[:12]}, risk low", '+    "pool_size": 20,', "undo: set database.pool_size to 10 in main", "green",
        "the target's rung is approve", "Recorded. Approved for now",
    )
    assert result.exit_code == 0 and [part for part in wanted if part not in result.stdout] == []
    said = gateway.chassis.log.stored[-1].envelope.data
    assert isinstance(said, ev.Approved) and (said.plan_hash, said.person, said.comment) == (made.hash, "ann", "looks right")
    again = only_json(run("ann", "approve", ID, "--json"))
    assert again["already"] and again["plan_hash"] == made.hash and events(gateway).count("approved") == 1


def test_approve_with_another_plan_in_mind_is_refused(run: Run, gateway: Served) -> None:
    made = story.awaiting(gateway.chassis)
    for wrong in (story.plan(30).hash, made.hash[:4], "zzzzzzzz"):
        result = run("ann", "approve", ID, "--plan", wrong)
        assert result.exit_code == 1 and "the plan that waits is" in result.stderr
    assert "approved" not in events(gateway)
    assert run("ann", "approve", ID, "--plan", made.hash[:8]).exit_code == 0


def test_who_may_not_approve_is_told_why(run: Run, gateway: Served) -> None:
    story.awaiting(gateway.chassis)
    result = run("olga", "approve", ID)
    assert result.exit_code == 1 and "error: this needs the role approver, your token has operator" in result.stderr
    assert "Traceback" not in result.output and "approved" not in events(gateway)


def test_what_waits_for_nobody_is_not_approved(run: Run, gateway: Served) -> None:
    gateway.chassis.log.say(ID, story.opened(), by="monitor")
    result = run("ann", "approve", ID)
    assert result.exit_code == 1 and "no decision is asked for: the incident is open" in result.stderr


def test_reject_needs_a_reason_and_is_final(run: Run, gateway: Served) -> None:
    story.awaiting(gateway.chassis)
    assert run("ann", "reject", ID).exit_code == 2
    assert only_json(run("ann", "reject", ID, "--reason", "wrong pool", "--json"))["state"] == "escalated"
    late = run("bob", "approve", ID)
    assert late.exit_code == 1 and "ann has rejected it already" in late.stderr and "reopen" in late.stderr


def test_cancel_and_reopen(run: Run, gateway: Served) -> None:
    story.awaiting(gateway.chassis)
    assert only_json(run("olga", "cancel", ID, "--reason", "wrong host", "--json"))["state"] == "cancelled"
    assert gateway.chassis.live.told == [ID]
    assert "Recorded. Open for now" in run("olga", "reopen", ID).stdout


def test_hold_pause_and_resume(run: Run, gateway: Served) -> None:
    assert "payments is held by olga: migration" in run("olga", "hold", "payments", "--reason", "migration").stdout
    assert only_json(run("vic", "targets", "list", "--json"))[0]["held_by"] == "olga"
    assert "payments is not held" in run("olga", "hold", "payments", "--release").stdout
    assert only_json(run("olga", "pause", "--reason", "deploy", "--json")) == {"paused": True, "reason": "olga: deploy"}
    assert gateway.chassis.control.reason == "olga: deploy"
    assert run("olga", "resume").stdout == "not paused\n" and gateway.chassis.control.reason == ""
    assert run("vic", "pause").exit_code == 1


def test_knowledge_is_searched(run: Run, gateway: Served) -> None:
    gateway.chassis.asker.found = Found(items=(Similar(id="r", kind="runbook", title="Pool", text="raise it", score=0.03),))
    assert "raise it" in run("vic", "kb", "search", "pool").stdout
    assert only_json(run("vic", "kb", "search", "pool", "--kind", "runbook", "--json"))[0]["title"] == "Pool"
    assert gateway.chassis.asker.asked[-1].kinds == ("runbook",)
    gateway.chassis.asker.found = Found(items=())
    assert run("vic", "kb", "search", "x", "--target", "payments").stdout == "Nothing found.\n"
    assert "No target is called nope" in run("vic", "kb", "search", "x", "--target", "nope").stdout
    assert run("vic", "kb", "search", " ").exit_code == 2


def test_documents_without_a_knowledge_room_are_not_lost_silently(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A\ntext")
    result = run("root", "kb", "ingest", str(tmp_path / "a.md"))
    assert result.exit_code == 3 and "AUTOPATCH_GATEWAY_KNOWLEDGE_URL" in result.stderr
    missing = run("root", "kb", "ingest", str(tmp_path / "none"))
    assert missing.exit_code == 1 and "is not there" in missing.stderr
