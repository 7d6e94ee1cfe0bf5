"""Incidents: list, show, watch."""

import json
import threading
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from autopatch.cli.main import app
from autopatch.cli.tests.conftest import Run, only_json
from autopatch.contract import events as ev
from services.gateway.tests import story
from services.gateway.tests.fakes import FakeChassis
from services.gateway.tests.serving import Served, served
from services.gateway.tests.story import ID


def resolved(gateway: Served) -> None:
    made = story.awaiting(gateway.chassis)
    gateway.chassis.log.say(ID, ev.Approved(plan_hash=made.hash, person="ann", comment="fine"), by="person:ann")
    story.resolve(gateway.chassis, made)


def test_the_list_is_a_table_for_people_and_rows_for_machines(run: Run, gateway: Served) -> None:
    assert "No incidents" in run("vic", "incidents", "list").stdout
    for number in range(5):
        story.awaiting(gateway.chassis, f"payments-{number}")
    shown = run("vic", "incidents", "list", "--open", "--limit", "3")
    assert shown.exit_code == 0 and "payments-4" in shown.stdout and "payments-1" not in shown.stdout
    rows = only_json(run("vic", "incidents", "list", "--state", "awaiting", "--json"))
    assert [r["id"] for r in rows] == [f"payments-{n}" for n in (4, 3, 2, 1, 0)]
    assert only_json(run("vic", "incidents", "list", "--target", "other", "--json")) == []


def test_an_id_stays_on_one_line_in_a_narrow_terminal(run: Run, gateway: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    story.awaiting(gateway.chassis)
    assert any(line.startswith(ID) for line in run("vic", "incidents", "list").stdout.splitlines())


def test_show_leads_with_one_sentence_and_then_gives_the_proof(run: Run, gateway: Served) -> None:
    resolved(gateway)
    lines = run("vic", "incidents", "show", ID).stdout.splitlines()
    assert lines[0].startswith("Resolved in 9.0 s: set database.pool_size to 20 in main, then reload the configuration")
    text = "\n".join(lines)
    wanted = (
        "Stages", "6.0 s", "Causes", "0.91", "the connection pool is full", "Evidence", "m1", "not to be had: log: no lines",
        "not: restart: the pool would fill again", '+    "pool_size": 20,', "unchanged", "red", "changed", "green",
        "undo: set database.pool_size to 10 in main", "Before and after", "0.86 s", "0.12 s", "-86%", "better", "no data",
        "ann approved: fine", "Lesson", "trust 0.50", "Model calls: 0", "Trace: http://jaeger.test/trace/",
    )
    assert [part for part in wanted if part not in text] == []
    sections = ("Stages", "Causes", "Evidence", "Plan", "Diff", "Rehearsal", "Before and after", "Lesson")
    order = [text.index(part) for part in sections]
    assert order == sorted(order)


def test_show_takes_a_beginning_of_the_id_and_gives_the_raw_log_on_request(run: Run, gateway: Served) -> None:
    resolved(gateway)
    assert only_json(run("vic", "incidents", "show", "payments-1a", "--json"))["id"] == ID
    events = only_json(run("vic", "incidents", "show", ID, "--events", "--json"))
    assert [e["sequence"] for e in events] == list(range(1, 12)) and events[0]["envelope"]["event"] == "opened"
    assert '"event_id"' not in run("vic", "incidents", "show", ID, "--events").stdout
    assert "config-within-bounds" in run("vic", "incidents", "show", ID, "--events").stdout


def test_a_beginning_that_several_incidents_have_is_refused(run: Run, gateway: Served) -> None:
    story.awaiting(gateway.chassis, "payments-1")
    story.awaiting(gateway.chassis, "payments-12")
    assert "payments-1 " in run("vic", "incidents", "show", "payments-1").stdout
    result = run("vic", "cancel", "payments")
    assert result.exit_code == 1 and "2 incidents begin so" in result.stderr


def test_an_unknown_incident_is_one_line_with_a_remedy(run: Run) -> None:
    for name in ("nope", "payments", "../../x", "-"):
        result = run("vic", "incidents", "show", name)
        assert result.exit_code == 1 and result.stdout == ""
        assert result.stderr.splitlines() == [
            "error: there is no such incident", "  try: `autopatch incidents list` shows those there are",
        ]
    told = run("vic", "incidents", "show", "nope", "--json")
    assert told.exit_code == 1 and only_json(told)["error"] == "there is no such incident"


def test_nothing_that_came_from_outside_can_steer_the_terminal_or_the_markup(run: Run, gateway: Served) -> None:
    gateway.chassis.log.say(ID, ev.Opened(target="payments", title="[bold]boo[/bold] \x1b[2J\x1b]0;pwned\x07"), by="monitor")
    for arguments in (("list",), ("show", ID), ("show", ID, "--events")):
        text = run("vic", "incidents", *arguments).stdout
        assert "[bold]boo[/bold]" in text and "\x1b]" not in text and "\x1b[2J" not in text and "\x07" not in text


def test_watch_ends_with_the_incident_and_its_exit_code_says_how(run: Run, gateway: Served) -> None:
    resolved(gateway)
    watched = run("vic", "incidents", "watch", ID)
    assert watched.exit_code == 0 and "recovered" in watched.stdout and f"autopatch approve {ID}" in watched.stdout
    story.awaiting(gateway.chassis, "bad-1")
    gateway.chassis.log.say("bad-1", ev.Cancelled(person="olga"), by="person:olga")
    ended = run("vic", "incidents", "watch", "bad-1", "--json")
    events = [json.loads(line) for line in ended.stdout.splitlines()]
    assert ended.exit_code == 1 and [e["state"] for e in events][-2:] == ["awaiting", "cancelled"]


def test_watch_resumes_without_a_gap_when_the_gateway_restarts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chassis = FakeChassis(story.target())
    made = story.awaiting(chassis)
    with served(tmp_path, chassis) as first:
        port = int(first.url.rsplit(":")[-1])
        monkeypatch.setenv("AUTOPATCH_URL", first.url)
        monkeypatch.setenv("AUTOPATCH_TOKEN", first.tokens["vic"])
        results = []
        watching = threading.Thread(target=lambda: results.append(CliRunner().invoke(app, ["incidents", "watch", ID, "--json"])))
        watching.start()
        while not chassis.log.followers:
            time.sleep(0.02)
    chassis.log.say(ID, ev.Approved(plan_hash=made.hash, person="ann"), by="person:ann")
    time.sleep(1.2)
    with served(tmp_path, chassis, port=port):
        story.resolve(chassis, made)
        watching.join(15)
    assert [json.loads(line)["sequence"] for line in results[0].stdout.splitlines()] == list(range(1, 11))
    assert results[0].exit_code == 0 and "trying again" in results[0].stderr
