"""Jobs over HTTP: begun once, however often they are asked for; what is wrong with one is named."""

import base64
import gzip
from typing import Any

import pytest

from autopatch.contract.code import RepairVerdict
from autopatch.repair.tree import Files, read_archive, tree_digest
from services.gateway.tests import job_story, story
from services.gateway.tests.conftest import As
from services.gateway.tests.fakes import FakeChassis
from services.gateway.tests.job_story import DIFF, FILES, asked
from services.gateway.tests.story import ID


async def begin(person: As, name: str = "olga", **other: Any) -> Any:
    return await person(name).post("/v1/repairs", json=asked(**other))


async def test_a_job_is_opened_with_all_that_was_said(chassis: FakeChassis, person: As) -> None:
    answer = await begin(
        person, issue="double(2) is 5\nsince today", commit="a" * 40, image="python:3.12", test_s=5, suite_s=60, request_id="r1"
    )
    assert answer.status_code == 201 and answer.json()["created"]
    incident = await chassis.log.load(answer.json()["incident"])
    job = incident.opened.job
    assert job and incident.opened.target == "calc" and incident.opened.title == "double(2) is 5"
    assert (job.command, job.commit, job.image, job.test_s, job.suite_s) == (("pytest", "-q"), "a" * 40, "python:3.12", 5, 60)
    assert job.tree == tree_digest(FILES) and read_archive(await chassis.blobs.get(job.snapshot)) == FILES
    assert incident.log[0].envelope.by == "person:olga" and answer.headers["location"] == f"/v1/repairs/{incident.id}"


async def test_the_same_request_again_finds_the_same_job(chassis: FakeChassis, person: As) -> None:
    first, again = await begin(person, request_id="r1"), await begin(person, "ann", request_id="r1")
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["incident"] == again.json()["incident"] and not again.json()["created"]
    assert len(chassis.log.stored) == 1


async def test_another_packing_of_the_same_files_is_the_same_job(chassis: FakeChassis, person: As) -> None:
    first = await begin(person)
    packed = gzip.compress(gzip.decompress(base64.b64decode(asked()["archive"])), 1)
    again = await begin(person, archive=base64.b64encode(packed).decode())
    assert again.status_code == 200 and again.json()["incident"] == first.json()["incident"] and len(chassis.log.stored) == 1


async def test_other_files_another_command_or_another_request_are_other_jobs(chassis: FakeChassis, person: As) -> None:
    other = asked(Files({"calc.py": b"x\n"}))["archive"]
    made = [
        await begin(person), await begin(person, archive=other), await begin(person, command=["pytest"]),
        await begin(person, command=["pytest -q"]), await begin(person, request_id="r2"), await begin(person, repository="calc2"),
    ]
    assert [a.status_code for a in made] == [201] * 6 and len({a.json()["incident"] for a in made}) == 6


async def test_another_job_under_a_known_request_is_refused(chassis: FakeChassis, person: As) -> None:
    await begin(person, request_id="r1")
    answer = await begin(person, request_id="r1", issue="something else")
    assert answer.status_code == 409 and "request_id" in answer.json()["error"] and len(chassis.log.stored) == 1


async def test_whoever_is_slower_finds_what_the_faster_one_began(chassis: FakeChassis, person: As) -> None:
    first = await begin(person)
    opened = chassis.log.stored.pop().envelope
    chassis.log.rivals.append(("person:ann", opened.data))
    again = await begin(person)
    assert again.status_code == 200 and again.json()["incident"] == first.json()["incident"] and len(chassis.log.stored) == 1


@pytest.mark.parametrize("name", ["vic"])
async def test_a_viewer_begins_none(chassis: FakeChassis, person: As, name: str) -> None:
    assert (await begin(person, name)).status_code == 403 and not chassis.log.stored and not chassis.blobs.held


@pytest.mark.parametrize(("change", "says"), [
    ({"repository": "../x"}, "body.repository: does not have the right form"), ({"repository": None}, "body.repository"),
    ({"archive": "!"}, "body.archive"), ({"archive": "AAAA"}, "body.archive"), ({"archive": ""}, "body.archive"),
    ({"archive": base64.b64encode(gzip.compress(b"no tar")).decode()}, "body.archive"),
    ({"command": []}, "body.command: is empty"), ({"command": "pytest"}, "body.command"), ({"command": [""]}, "body.command"),
    ({"commit": "HEAD"}, "body.commit"), ({"issue": "x" * 8001}, "body.issue: is too long"),
    ({"toolchain": "cobol"}, "body.toolchain"),
    ({"image": "a; rm -rf /"}, "body.image"), ({"test_s": 0}, "body.test_s: is too small"),
    ({"suite_s": 1e9}, "body.suite_s: is too large"), ({"cancel_on_disconnect": True}, "body.cancel_on_disconnect"),
    ({"shell": "x"}, "a field that is not known"),
])
async def test_what_is_wrong_with_a_request_is_named(chassis: FakeChassis, person: As, change: dict[str, Any], says: str) -> None:
    answer = await begin(person, **change)
    assert answer.status_code == 400 and says in answer.json()["error"], answer.text
    assert not chassis.log.stored and not chassis.blobs.held


async def test_an_archive_that_is_too_large_is_413_and_other_routes_stay_as_narrow_as_they_were(
    chassis: FakeChassis, person: As
) -> None:
    answer = await person("olga").post("/v1/repairs", content=b"x" * (45 * 1024**2))
    assert answer.status_code == 413 and not chassis.log.stored
    story.awaiting(chassis)
    assert (await person("olga").post(f"/v1/incidents/{ID}/cancel", content=b"x" * 70_000)).status_code == 413


async def test_a_full_log_opens_nothing_new(chassis: FakeChassis, person: As) -> None:
    await begin(person, request_id="r1")
    chassis.log.full = True
    assert (await begin(person, request_id="r2")).status_code == 503 and len(chassis.log.stored) == 1
    assert (await begin(person, request_id="r1")).status_code == 200


async def test_without_the_object_store_nothing_is_opened(chassis: FakeChassis, person: As) -> None:
    chassis.blobs.down = True
    assert (await begin(person)).status_code == 503 and not chassis.log.stored


async def test_the_verdict_comes_when_it_has_ended_and_its_diff_byte_by_byte(chassis: FakeChassis, person: As) -> None:
    incident = (await begin(person)).json()["incident"]
    early = await person("vic").get(f"/v1/repairs/{incident}")
    assert early.status_code == 202 and early.json()["state"] == "open" and early.json()["id"] == incident
    assert (await person("vic").get(f"/v1/repairs/{incident}/diff")).status_code == 404
    await job_story.fixed(chassis, incident)
    answer = await person("vic").get(f"/v1/repairs/{incident}")
    verdict = RepairVerdict.model_validate(answer.json())
    assert answer.status_code == 200 and verdict.verdict == "fixed" and verdict.runtime == "runsc" and verdict.seconds == 7
    assert verdict.before == job_story.BEFORE and verdict.after == job_story.AFTER and "drop-term" in verdict.basis
    assert verdict.diff == DIFF.decode("latin-1").replace("é", "\\xe9")
    assert verdict.diff_blob and verdict.diff_blob.size == len(DIFF)
    diff = await person("vic").get(f"/v1/repairs/{incident}/diff")
    assert diff.content == DIFF and diff.headers["content-type"].startswith("text/x-diff")


async def test_a_job_that_was_cancelled_has_a_verdict_and_no_diff(chassis: FakeChassis, person: As) -> None:
    incident = (await begin(person)).json()["incident"]
    await person("olga").post(f"/v1/incidents/{incident}/cancel", json={"reason": "enough"})
    verdict = (await person("vic").get(f"/v1/repairs/{incident}")).json()
    assert verdict["verdict"] == "cancelled" and verdict["diff"] == "" and chassis.live.told == [incident]
    assert (await person("vic").get(f"/v1/repairs/{incident}/diff")).status_code == 404


async def test_an_alerts_incident_is_no_repair(chassis: FakeChassis, person: As) -> None:
    story.awaiting(chassis)
    for path in (f"/v1/repairs/{ID}", f"/v1/repairs/{ID}/diff", "/v1/repairs/nowhere"):
        assert (await person("vic").get(path)).status_code == 404


async def test_secrets_in_an_issue_are_redacted(chassis: FakeChassis, person: As) -> None:
    answer = await begin(person, issue="it fails with\npassword=hunter2hunter2\x1b[2J")
    job = (await chassis.log.load(answer.json()["incident"])).opened.job
    assert job and "hunter2hunter2" not in job.issue and "\x1b" not in job.issue and job.issue.startswith("it fails with\n")


async def test_the_trace_of_a_job_begins_where_it_is_opened(chassis: FakeChassis, person: As) -> None:
    incident = (await begin(person)).json()["incident"]
    shown = (await person("vic").get(f"/v1/incidents/{incident}")).json()
    assert len(shown["trace_id"]) == 32 and [s.name for s in chassis.spans.get_finished_spans()] == ["gateway opened"]
    assert shown["stages"][0]["text"] == "repair what fails in: pytest -q on calc"


async def test_stages_tell_tests_as_numbers(chassis: FakeChassis, person: As) -> None:
    incident = (await begin(person)).json()["incident"]
    await job_story.fixed(chassis, incident)
    told = [stage["text"] for stage in (await person("vic").get(f"/v1/incidents/{incident}")).json()["stages"]]
    assert "the check tests is red: 3 passed, 1 failed" in told and told[-1] == "recovered: 4 passed, 0 failed"
