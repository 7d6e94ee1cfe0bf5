"""The client against answers as Prometheus words them, and against a real server when one is installed."""

import asyncio
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs

import httpx2
import pytest

from autopatch.chassis.prometheus import MAX_POINTS, Failed, Nothing, Prometheus, Value, from_target
from autopatch.contract.errors import OperatorError, Unavailable
from autopatch.contract.target import ProcessRuntime, PrometheusSource, Signal, Target

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
Answer = Callable[[httpx2.Request], httpx2.Response]


def client(answer: Answer, **settings: object) -> Prometheus:
    transport = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    return Prometheus("http://prometheus.test", client=transport, **settings)  # type: ignore[arg-type]


def success(result: object, kind: str = "vector", **extra: object) -> Answer:
    return lambda _: httpx2.Response(200, json={"status": "success", "data": {"resultType": kind, "result": result}, **extra})


def refusal(status: int, error: str, kind: str) -> Answer:
    return lambda _: httpx2.Response(status, json={"status": "error", "errorType": kind, "error": error})


async def test_a_number_is_a_value_with_its_labels_and_warnings() -> None:
    answer = success([{"metric": {"job": "a"}, "value": [1.5, "0.25"]}], warnings=["slow"], infos=["hint"])
    found = await client(answer).query("up")
    assert isinstance(found, Value)
    assert (found.number, found.series[0].labels, found.warnings) == (0.25, {"job": "a"}, ("slow", "hint"))


async def test_a_scalar_is_a_value_without_labels() -> None:
    found = await client(success([1.0, "3"], "scalar")).query("1 + 2")
    assert isinstance(found, Value) and found.number == 3.0


async def test_two_series_are_no_single_number() -> None:
    found = await client(success([{"metric": {"a": x}, "value": [1, "1"]} for x in "xy"])).query("up")
    assert isinstance(found, Value) and found.number is None


async def test_no_series_is_nothing_rather_than_zero() -> None:
    assert await client(success([])).query("absent_metric") == Nothing()


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
async def test_a_sample_that_is_no_number_is_dropped_and_said(value: str) -> None:
    found = await client(success([{"metric": {}, "value": [1, value]}])).query("0 / 0")
    assert isinstance(found, Nothing) and found.dropped == 1 and "NaN" in found.reason


async def test_numbers_between_gaps_survive() -> None:
    values = [[1, "1"], [2, "NaN"], [3, "3"], [4, "+Inf"]]
    found = await client(success([{"metric": {}, "values": values}], "matrix")).query_range("x", NOW, NOW, 1)
    assert isinstance(found, Value) and found.dropped == 2
    assert (found.series[0].times, found.series[0].values) == ((1.0, 3.0), (1.0, 3.0))


async def test_native_histograms_are_dropped_and_said() -> None:
    found = await client(success([{"metric": {}, "histogram": [1, {"count": "3"}]}])).query("h")
    assert isinstance(found, Nothing) and found.dropped == 1


@pytest.mark.parametrize(("status", "kind"), [(400, "bad_data"), (422, "execution")])
async def test_a_refused_query_fails_with_the_servers_own_words(status: int, kind: str) -> None:
    assert await client(refusal(status, "parse error: unexpected end", kind)).query("rate(") == Failed(
        reason="parse error: unexpected end"
    )


async def test_a_string_is_not_taken_for_a_number() -> None:
    assert isinstance(await client(success([1, "12"], "string")).query('"12"'), Failed)


def login_page(_: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(200, text="<html>log in</html>")


def refused(request: httpx2.Request) -> httpx2.Response:
    raise httpx2.ConnectError("connection refused", request=request)


def nonsense(_: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(200, json={"status": "success", "data": {"resultType": "vector", "result": [{"value": [1]}]}})


@pytest.mark.parametrize(
    "answer",
    [
        refusal(503, "query timed out", "timeout"), refusal(422, "query was canceled", "canceled"),
        refusal(500, "oops", "internal"), refusal(429, "too many", "too_many"), refusal(404, "no", "not_found"),
        refusal(401, "who", "auth"), refused, login_page, nonsense, success("x", "vector"),
    ],
)
async def test_a_server_that_is_missing_or_is_something_else_is_unavailable(answer: Answer) -> None:
    with pytest.raises(Unavailable) as caught:
        await client(answer).query("up")
    assert caught.value.service == "prometheus"


async def test_a_server_that_is_too_slow_is_unavailable() -> None:
    async def slow(_: httpx2.Request) -> httpx2.Response:
        await asyncio.sleep(30)
        return httpx2.Response(200)

    with pytest.raises(Unavailable, match="no answer within"):
        await client(slow, timeout_s=0.05).query("up")  # type: ignore[arg-type]


async def test_the_step_grows_until_the_points_fit() -> None:
    sent: list[dict[str, list[str]]] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append(parse_qs(request.content.decode()))
        return success([{"metric": {}, "values": [[1, "1"]]}], "matrix")(request)

    found = await client(answer).query_range("up", NOW - timedelta(days=7), NOW, 1)
    step = float(sent[0]["step"][0])
    assert isinstance(found, Value) and found.step_s == step
    assert 7 * 86400 / step + 1 <= MAX_POINTS < 7 * 86400 / (step - 0.01) + 1


async def test_token_and_tenant_are_sent_and_never_shown() -> None:
    seen: list[httpx2.Headers] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.headers)
        return httpx2.Response(500)

    transport = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    with pytest.raises(Unavailable) as caught:
        await Prometheus("http://me:hunter2@p.test", bearer_token="s3cr3t", tenant="t", client=transport).query("up")
    assert (seen[0]["authorization"], seen[0]["x-scope-orgid"]) == ("Bearer s3cr3t", "t")
    assert "s3cr3t" not in str(caught.value) and "hunter2" not in str(caught.value)


async def test_rules_come_with_expression_duration_and_alerts() -> None:
    rule = {
        "type": "alerting", "name": "Slow", "query": "p95 > 0.2", "duration": 30, "labels": {}, "annotations": {}, "health": "ok",
        "state": "firing",
        "alerts": [{"labels": {"a": "b"}, "state": "firing", "activeAt": "2026-01-05T12:00:00Z", "value": "1"}],
    }
    data = {"status": "success", "data": {"groups": [{"name": "g", "rules": [rule]}]}}
    found = await client(lambda _: httpx2.Response(200, json=data)).rules()
    assert (found[0].name, found[0].query, found[0].duration, found[0].alerts[0].active_at) == ("Slow", "p95 > 0.2", 30, NOW)


def target(token_file: str) -> Target:
    return Target(
        name="t", match={"a": "b"}, runtime=ProcessRuntime(kind="process", command=("x",), pidfile="p"),
        signals={"s": Signal(query="up")}, prometheus=PrometheusSource(url="http://p.test", bearer_token_file=token_file),
    )


async def test_a_targets_token_is_read_anew_so_that_it_may_rotate(tmp_path: Path) -> None:
    file, seen = tmp_path / "token", []
    file.write_text("one\n")

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.headers["authorization"])
        return success([])(request)

    made = from_target(target(str(file)), client=httpx2.AsyncClient(transport=httpx2.MockTransport(answer)))
    await made.query("up")
    file.write_text("two\n")
    await made.query("up")
    assert seen == ["Bearer one", "Bearer two"]


@pytest.mark.parametrize("text", [None, ""])
def test_a_missing_or_empty_token_file_is_the_operators_mistake(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "token"
    if text is not None:
        file.write_text(text)
    with pytest.raises(OperatorError, match="bearer_token_file"):
        from_target(target(str(file)))


def binaries() -> list[str]:
    """Debian's 2.42 where it is installed, and Prometheus 3 where it was unpacked."""
    return [b for b in (shutil.which("prometheus"), str(Path(__file__).parents[3] / ".cache/bin/prometheus")) if b]


@pytest.fixture(params=binaries())
def server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    binary: str = request.param
    if not Path(binary).exists():
        pytest.skip(f"no {binary}")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = tmp_path / "prometheus.yml"
    config.write_text(
        f"global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{tmp_path}/rules.yml]\n"
        f"scrape_configs: [{{job_name: self, static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}]\n"
    )
    (tmp_path / "rules.yml").write_text(
        "groups: [{name: g, rules: [{alert: Always, expr: vector(1), for: 0s, labels: {x: y}}]}]\n"
    )
    process = subprocess.Popen(
        [binary, f"--config.file={config}", f"--storage.tsdb.path={tmp_path}/data", f"--web.listen-address=127.0.0.1:{port}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


async def test_a_real_server_answers_every_question(server: str) -> None:
    real = Prometheus(server)
    async with asyncio.timeout(30):
        while True:
            try:
                await real.ready()
                if isinstance(await real.query("up"), Value) and await real.alerts():
                    break
            except Unavailable:
                pass
            await asyncio.sleep(0.2)
    now = datetime.now(UTC)
    assert isinstance(await real.query("absent_metric"), Nothing)
    refusal = await real.query("rate(")
    assert isinstance(refusal, Failed) and "parse error" in refusal.reason
    assert isinstance(await real.query('"text"'), Failed)
    assert isinstance(await real.query("vector(0) / 0"), Nothing)
    week = await real.query_range("vector(1)", now - timedelta(days=7), now, 1)
    assert isinstance(week, Value) and MAX_POINTS - 10 <= len(week.series[0].values) <= MAX_POINTS
    assert [(r.name, r.state) for r in await real.rules()] == [("Always", "firing")]
    await real.aclose()
