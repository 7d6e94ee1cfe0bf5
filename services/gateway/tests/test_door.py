"""Who gets in, how much they may send, and what errors say."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from autopatch.contract.errors import OperatorError
from services.gateway.adapters.http.tokens import TokenFile, mint, read, write
from services.gateway.ports import Unauthenticated
from services.gateway.tests import story
from services.gateway.tests.conftest import As
from services.gateway.tests.fakes import FakeChassis
from services.gateway.tests.story import ID

A, B = "a" * 64, "b" * 64
ROUTES = [
    ("GET", "/v1/incidents"), ("GET", f"/v1/incidents/{ID}"), ("GET", f"/v1/incidents/{ID}/events"),
    ("POST", f"/v1/incidents/{ID}/approve"), ("POST", f"/v1/incidents/{ID}/reject"), ("POST", f"/v1/incidents/{ID}/cancel"),
    ("POST", f"/v1/incidents/{ID}/reopen"), ("GET", "/v1/events"), ("GET", "/v1/targets"), ("GET", "/v1/targets/payments/hold"),
    ("POST", "/v1/targets/payments/hold"), ("DELETE", "/v1/targets/payments/hold"), ("GET", "/v1/pause"), ("POST", "/v1/pause"),
    ("DELETE", "/v1/pause"), ("GET", "/v1/unmatched"), ("GET", "/v1/knowledge/search"), ("POST", "/v1/knowledge/ingest"),
    ("POST", "/v1/repairs"), ("GET", f"/v1/repairs/{ID}"), ("GET", f"/v1/repairs/{ID}/diff"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_nobody_without_a_token_gets_anything(chassis: FakeChassis, person: As, method: str, path: str) -> None:
    story.awaiting(chassis)
    before = len(chassis.log.stored)
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic eDp5"}, {"Authorization": "Bearer "}):
        answer = await person("").request(method, path, headers=headers)
        assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer" and answer.json()["tip"]
    assert len(chassis.log.stored) == before and chassis.control.reason == ""


async def test_every_route_that_there_is_was_tried_without_a_token(person: As) -> None:
    app = person("")._transport.app  # type: ignore[attr-defined]
    told = {(m.upper(), p) for p, ms in app.openapi()["paths"].items() for m in ms if p.startswith("/v1/")}
    tried = {(m, p.replace(ID, "{incident_id}").replace("payments", "{name}")) for m, p in ROUTES}
    assert told == tried


@pytest.mark.parametrize(("method", "path", "body"), [
    ("POST", "/v1/pause", {"reason": "x"}), ("DELETE", "/v1/pause", None), ("POST", "/v1/targets/payments/hold", {}),
    ("POST", f"/v1/incidents/{ID}/cancel", {}), ("POST", f"/v1/incidents/{ID}/reopen", {}),
    ("POST", "/v1/knowledge/ingest", {"documents": [{"source": "a.md", "text": "b"}]}),
])
async def test_a_viewer_changes_nothing(chassis: FakeChassis, person: As, method: str, path: str, body: object) -> None:
    story.awaiting(chassis)
    assert (await person("vic").request(method, path, json=body)).status_code == 403


async def test_a_large_body_is_refused_announced_or_not(chassis: FakeChassis, person: As) -> None:
    story.awaiting(chassis)
    announced = await person("ann").post(f"/v1/incidents/{ID}/cancel", content=b"x" * 70_000)
    assert announced.status_code == 413

    async def drip() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"x" * 1024

    streamed = await person("ann").post(f"/v1/incidents/{ID}/cancel", content=drip())
    assert streamed.status_code == 413 and len(streamed.content) < 1024


@pytest.mark.parametrize(("body", "error"), [
    (b"{SECRETINPUT", "the body is not JSON"),
    (b'{"plan_hash": "SECRETINPUT"}', "body.plan_hash: does not have the right form"),
    (b'{"SECRETINPUT": 1, "plan_hash": "' + b"a" * 64 + b'"}', "there is a field that is not known here"),
    (b'{}', "body.plan_hash: is missing"),
    (b'["SECRETINPUT"]', "body: not what this takes"),
    (b"[" * 60_000, "the body is not JSON"),
    (b'{"comment": "\xffSECRETINPUT"}', "the body is not JSON"),
])
async def test_errors_name_the_field_and_never_repeat_what_was_sent(
    chassis: FakeChassis, person: As, body: bytes, error: str
) -> None:
    story.awaiting(chassis)
    answer = await person("ann").post(f"/v1/incidents/{ID}/approve", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400 and answer.json()["error"] == error
    assert "SECRETINPUT" not in answer.text and len(answer.content) < 1024


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/v1/SECRETINPUT", 404), ("PUT", "/v1/pause", 405)])
async def test_what_is_no_route_is_answered_in_the_same_form(person: As, method: str, path: str, status: int) -> None:
    answer = await person("vic").request(method, path)
    assert answer.status_code == status and set(answer.json()) == {"error", "tip"} and answer.json()["tip"]
    assert "SECRETINPUT" not in answer.text


@pytest.mark.parametrize("after", ["18446744073709551615", "1" * 400, "-1"])
async def test_a_sequence_that_no_log_could_hold_is_refused(person: As, after: str) -> None:
    answer = await person("vic").get(f"/v1/events?after={after}")
    assert answer.status_code == 400 and "after" in answer.json()["error"]


async def test_a_rejection_without_words_is_refused(chassis: FakeChassis, person: As) -> None:
    made = story.awaiting(chassis)
    before = len(chassis.log.stored)
    for reason in (" ", "\x00 ", "\u200b"):
        answer = await person("ann").post(f"/v1/incidents/{ID}/reject", json={"plan_hash": made.hash, "reason": reason})
        assert answer.status_code == 400 and "reason" in answer.json()["error"] and answer.json()["tip"]
    assert len(chassis.log.stored) == before


@pytest.mark.parametrize("incident", ["SECRETINPUT", "a.*", "x" * 300, "%2e%2e", "a b"])
async def test_an_unknown_incident_is_404_without_echo(person: As, incident: str) -> None:
    answer = await person("vic").get(f"/v1/incidents/{incident}")
    assert answer.status_code == 404 and "SECRET" not in answer.text


async def test_when_the_log_is_away_it_is_503_and_says_so(chassis: FakeChassis, person: As) -> None:
    made = story.awaiting(chassis)
    chassis.log.down = True
    for answer in (
        await person("vic").get("/v1/incidents"), await person("vic").get(f"/v1/incidents/{ID}"),
        await person("ann").post(f"/v1/incidents/{ID}/approve", json={"plan_hash": made.hash}),
    ):
        assert answer.status_code == 503 and answer.json()["error"] == "nats: not connected" and answer.headers["retry-after"]


def test_without_a_tokens_file_nobody_gets_in(tmp_path: Path) -> None:
    with pytest.raises(Unauthenticated):
        TokenFile(tmp_path / "none.yaml").caller("Bearer x")


def test_a_token_that_was_taken_out_no_longer_opens(tmp_path: Path) -> None:
    path, (token, entry) = tmp_path / "t.yaml", mint("ann", "approver", person=True)
    _, other = mint("bob", "viewer", person=True)
    write(path, [entry, other])
    tokens = TokenFile(path)
    assert tokens.caller(f"Bearer {token}").name == "ann"
    assert path.stat().st_mode & 0o777 == 0o600 and token not in path.read_text()
    write(path, [other])
    with pytest.raises(Unauthenticated):
        tokens.caller(f"Bearer {token}")
    for broken in ("- {name: [", "- {until: 2026-02-30}", f"- {'9' * 5000}", "[" * 1000):
        write(path, [entry])
        assert tokens.caller(f"Bearer {token}").name == "ann"
        path.write_text(broken)
        for _ in range(2):
            with pytest.raises(Unauthenticated):
                tokens.caller(f"Bearer {token}")


@pytest.mark.parametrize(("text", "fault"), [
    ("- {name: ann, role: boss, sha256: " + "a" * 64 + "}", "0.role"),
    ("- {name: ann, role: viewer}", "0.sha256"),
    ("[]", "at least 1 item"),
    ("a: [", ":1: not YAML"),
    ("- {name: ann, until: 2026-02-30}", "not YAML"),
    ("- " + "9" * 5000, "not YAML"),
    ("[" * 1000, "not YAML"),
    ("- {name: !!int ''}", "not YAML"),
    ("- {name: planner, role: approver, sha256: " + "a" * 64 + "}", "planner is the name of a room"),
    (f"- {{name: a, role: viewer, sha256: {A}}}\n- {{name: a, role: admin, sha256: {B}}}", "same name"),
    (f"- {{name: a, role: viewer, sha256: {A}}}\n- {{name: b, role: admin, sha256: {A}}}", "same sha256"),
])
def test_a_broken_tokens_file_names_the_entry(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(text)
    with pytest.raises(OperatorError, match=fault):
        read(path)


def test_a_tokens_file_that_everybody_may_write_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    write(path, [mint("ann", "approver", person=True)[1]])
    os.chmod(path, 0o666)
    with pytest.raises(OperatorError, match="writable by everybody"):
        read(path)
