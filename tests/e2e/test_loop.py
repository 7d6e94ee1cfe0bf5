"""The loop on real parts: a real alert of a real service, through all rooms, to a proven fix and a lesson, in one trace."""

import json
import os
import threading
import time
from pathlib import Path

import httpx2
import pytest

from autopatch.cli.lab.payments import DEMO
from autopatch.cli.lab.programs import CACHE
from autopatch.cli.watching import Episode
from autopatch.contract.lifecycle import State
from tests.e2e.lab import PASSWORD, Running, lab, model_is_there
from tests.e2e.trace import tells_everything, trace_of

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.quiet, pytest.mark.timeout(900)]


def episode(it: Running, fault: str, *, approve: bool = False) -> Episode:
    """One fault from healthy to the end; in approve mode a person's part is played by the command line."""
    it.watcher.wait_healthy()
    known = {row["id"] for row in it.cli("incidents", "list")}
    found: list[Episode] = []
    following = threading.Thread(target=lambda: found.append(it.watcher.episode(fault, lambda: it.hosted.tell(f"fault {fault}"))))
    following.start()
    if approve:
        incident_id = _awaiting(it, known, following)
        assert Path(it.places.config).read_bytes() == (DEMO / "config.json").read_bytes(), "applied before the approval"
        it.cli("approve", incident_id, "--comment", "looks right")
        it.cli("reject", incident_id, "--reason", "too late", code=1)
    following.join()
    assert found, "\n".join(it.said[-20:])
    seen = found[0]
    assert seen.view.state is State.RESOLVED, "\n".join(it.said[-20:])
    assert seen.view.chain_ok
    return seen


def _awaiting(it: Running, known: set[str], following: threading.Thread) -> str:
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and following.is_alive():
        for row in it.cli("incidents", "list"):
            if row["id"] not in known and row["state"] == "awaiting":
                return str(row["id"])
        time.sleep(1)
    raise AssertionError("nothing waits for a person: " + "\n".join(it.said[-20:]))


def healed_pool(seen: Episode) -> None:
    """Only the pool size changed, and the latency came back."""
    changed = [row for row in seen.diff.splitlines() if row[:1] in "+-" and row[:3] not in ("+++", "---")]
    assert [row.split("pool_size")[1].strip() for row in changed] == ['": 10,', '": 20,']
    assert seen.broken and seen.healed and seen.broken > 0.2 > seen.healed


@pytest.fixture
def newest(monkeypatch: pytest.MonkeyPatch) -> str:
    """Prometheus 3 where there is one, else the installed one; how its version begins."""
    if not (CACHE / "prometheus").exists():
        return ""
    monkeypatch.setenv("PATH", f"{CACHE}:{os.environ['PATH']}")
    return "3."


def prometheus_version(it: Running) -> str:
    answer = httpx2.get(f"{it.places.prometheus}/api/v1/status/buildinfo", timeout=10, trust_env=False)
    return str(answer.raise_for_status().json()["data"]["version"])


def test_with_a_persons_approval_both_faults_are_healed_and_one_trace_tells_it_all(tmp_path: Path, newest: str) -> None:
    with lab(tmp_path, autonomy="approve") as it:
        assert prometheus_version(it).startswith(newest)
        pool = episode(it, "pool", approve=True)
        healed_pool(pool)
        assert pool.model_calls == 0
        if it.places.jaeger:
            tells_everything(trace_of(it, pool), pool)
        it.hosted.tell("heal")
        release = episode(it, "release", approve=True)
        assert release.view.plan and [s.action.kind for s in release.view.plan.steps] == ["rollback_release"]
        assert release.broken and release.healed is not None and release.broken > 0.05 > release.healed
        if it.places.jaeger:
            assert release.view.plan.rejected, "the pool's runbook answers this alert too"
            tells_everything(trace_of(it, release), release)
        nowhere(it, pool, release)
    if not it.places.jaeger:
        pytest.skip(f"healed, but there is no trace to read: {it.places.missing.get('jaeger')}")


@pytest.mark.model
@pytest.mark.local
def test_with_a_local_model_the_fault_is_healed_and_the_second_time_the_lesson_does_it_without(tmp_path: Path) -> None:
    if not model_is_there():
        pytest.skip("the local model is not there; `autopatch model pull` gets it")
    with lab(tmp_path, model="local") as it:
        first = episode(it, "pool")
        healed_pool(first)
        assert first.model_calls >= 1
        it.hosted.tell("heal")
        second = episode(it, "pool")
        healed_pool(second)
        assert second.model_calls == 0
        assert second.view.plan and second.view.plan.basis.kind == "lesson"
        assert any("lesson" in use.note and "not asked" in use.note for use in second.view.models)
        nowhere(it, first, second)


def nowhere(it: Running, *episodes: Episode) -> None:
    """The password that the service's own files hold is in no log, event, object, collection or trace as it is written."""
    secret = PASSWORD.encode()
    own = (Path(it.places.config), Path(it.places.repository))
    places = [p for p in Path(it.places.folder).rglob("*") if p.is_file() and not any(p.is_relative_to(at) for at in own)]
    assert len(places) > 10
    assert [str(p) for p in places if secret in p.read_bytes()] == []
    for seen in episodes:
        assert PASSWORD not in seen.view.model_dump_json()
        if it.places.jaeger:
            assert PASSWORD not in json.dumps(trace_of(it, seen))
