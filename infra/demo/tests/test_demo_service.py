"""The demo service as a process: where its bottleneck is, what a reload costs, what a bad release does."""

import asyncio
import itertools
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.quiet
PASSWORD = "demo-Gq7xW2-not-for-logs"
ORDER = {"amount_cents": 1250, "currency": "EUR"}


def measure(port: int, rate: float, seconds: float) -> list[Any]:
    """The samples of one load."""
    from load import Load

    async def run() -> list[Any]:
        load = Load("127.0.0.1", port, rate)
        await load.run(seconds)
        await load.finish(10)
        return list(load.samples)

    return asyncio.run(run())


def test_ten_connections_are_the_bottleneck_of_the_raised_load_and_twenty_are_not(start: Any) -> None:
    from load import Load, p95

    service = start()

    async def run() -> list[list[Any]]:
        loop, marks = asyncio.get_running_loop(), []
        load = Load("127.0.0.1", service.port, 60)

        async def stage(rate: float, seconds: float) -> None:
            marks.append(loop.time())
            load.rate = rate
            await load.run(seconds)

        await stage(60, 1.5)
        await stage(150, 2.5)
        assert (await asyncio.to_thread(service.metric, "payments_pool_waiting")) > 50
        service.edit("pool_size", "20")
        answer = await asyncio.to_thread(service.reload)
        assert answer == (200, {"reloaded": True, "changed": {"database.pool_size": [10, 20]}})
        await stage(150, 2)
        assert (await asyncio.to_thread(service.metric, "payments_pool_waiting")) < 5
        await stage(150, 2)
        await load.finish(5)
        marks.append(loop.time())
        assert not any(s.failed for s in load.samples)
        return [[s for s in load.samples if a <= s.due < b] for a, b in itertools.pairwise(marks)]

    normal, raised, _, healed = asyncio.run(run())
    assert p95(normal) < 0.2
    assert p95(raised) > 0.6
    assert p95(healed) < 0.2
    assert service.metric("payments_pool_waits_total") > 100
    assert any("waited for a connection from the pool" in line["message"] for line in service.lines)


def test_reloads_by_signal_and_by_request_lose_no_request(start: Any) -> None:
    service = start()

    async def reload_while_loaded() -> list[Any]:
        from load import Load

        load = Load("127.0.0.1", service.port, 80)
        running = asyncio.ensure_future(load.run(3))
        for size in (20, 4, 12, 1, 30, 10, 15, 9):
            service.edit("pool_size", str(size))
            if size % 2:
                os.kill(service.process.pid, signal.SIGHUP)
            else:
                assert (await asyncio.to_thread(service.reload))[0] == 200
            await asyncio.sleep(0.25)
        await running
        await load.finish(10)
        return list(load.samples)

    samples = asyncio.run(reload_while_loaded())
    assert len(samples) > 150
    assert [s for s in samples if s.status != 200] == []
    assert service.metric("payments_config_reloads_total") == 8
    assert service.metric("payments_pool_size") == 9


def test_a_refused_reload_names_the_field_and_changes_nothing(start: Any) -> None:
    service = start()
    before = service.config.read_text()
    for key, value, status, field in (
        ("pool_size", '"many"', 422, "database.pool_size"),
        ("timeout_ms", "1", 422, "database.timeout_ms"),
        ("max_connections", "50", 409, "api.max_connections"),
        ("password", '"another-secret"', 409, "database.password"),
    ):
        service.edit(key, value)
        if status == 409:
            service.edit("pool_size", "20")
        got, answer = service.reload()
        assert (got, answer["field"]) == (status, field)
        service.config.write_text(before)
    service.config.unlink()
    assert service.reload()[0] == 422
    assert service.metric("payments_pool_size") == 10
    assert service.call("/payments", ORDER)[0] == 200


def test_a_full_pool_answers_503_and_says_so_in_the_log(start: Any) -> None:
    service = start()
    service.edit("pool_size", "1")
    service.edit("timeout_ms", "1000")
    assert service.reload()[0] == 200
    samples = measure(service.port, 40, 2)
    refused = [s for s in samples if s.status == 503]
    assert len(refused) > 20
    assert service.metric("payments_pool_timeouts_total") == len(refused)
    complaints = [line for line in service.lines if line["message"] == "could not acquire a connection from the pool within 1s"]
    assert len(complaints) == len(refused)
    assert complaints[0]["level"] == "error" and complaints[0]["pool_size"] == 1


def test_release_2_fails_a_share_of_the_requests_and_logs_each(start: Any) -> None:
    service = start("2")
    samples = measure(service.port, 60, 3)
    failed = [s for s in samples if s.status == 500]
    assert 0.1 < len(failed) / len(samples) < 0.35
    errors = [line for line in service.lines if line["level"] == "error"]
    assert len(errors) == len(failed)
    assert {(e["message"], e["release"]) for e in errors} == {("cannot compute the fee", "2")}
    assert 'payments_release_info{release="2"} 1.0' in service.call("/metrics")[1]


def test_requests_that_are_none_are_refused(start: Any) -> None:
    service = start()
    for body in ({}, {"amount_cents": -1, "currency": "EUR"}, {"amount_cents": "12", "currency": "EUR"}):
        assert service.call("/payments", body)[0] == 400
    status, text = service.call("/refunds", ORDER)
    assert status == 200 and json.loads(text)["fee_cents"] == 43


def test_the_password_shows_up_nowhere(start: Any) -> None:
    service = start("2")
    assert PASSWORD in service.config.read_text()
    answers = [service.call("/healthz"), service.call("/metrics")]
    answers.append(service.call("/payments", {"amount_cents": 1, "currency": "CHF"}))
    answers.append(service.call("/-/reload", method="POST"))
    service.edit("password", f'"{PASSWORD}-changed"')
    answers.append(service.call("/-/reload", method="POST"))
    service.config.write_text(f'{{"password": "{PASSWORD}" broken')
    answers.append(service.call("/-/reload", method="POST"))
    service.stop()
    assert [status for status, _ in answers] == [200, 200, 500, 200, 409, 422]
    assert PASSWORD not in "".join(text for _, text in answers) + service.log
    assert PASSWORD not in Path(f"/proc/{os.getpid()}/cmdline").read_text()


def test_no_process_outlives_a_killed_service(start: Any) -> None:
    service = start()
    children = Path(f"/proc/{service.process.pid}/task/{service.process.pid}/children").read_text().split()
    assert len(children) == 1
    assert PASSWORD not in Path(f"/proc/{children[0]}/cmdline").read_text()
    service.process.kill()
    service.process.wait()
    deadline = time.monotonic() + 5
    while Path(f"/proc/{children[0]}").exists():
        assert time.monotonic() < deadline, "the database outlives its service"
        time.sleep(0.05)


def test_a_service_whose_database_dies_ends_with_an_error(start: Any) -> None:
    service = start()
    child = int(Path(f"/proc/{service.process.pid}/task/{service.process.pid}/children").read_text())
    os.kill(child, signal.SIGKILL)
    assert service.process.wait(10) == 1
    assert any("the database process ended" in line["message"] for line in service.lines)
