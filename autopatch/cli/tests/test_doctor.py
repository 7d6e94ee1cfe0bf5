"""The doctor's checks against what is really there."""

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer
from typer.testing import CliRunner

from autopatch.chassis.llm.settings import LlmSettings
from autopatch.chassis.tests.nats_server import NatsServer
from autopatch.cli import findings as check
from autopatch.cli.client import Session
from autopatch.cli.main import app
from autopatch.cli.tests.conftest import only_json
from autopatch.contract.errors import OperatorError, Unavailable
from services.gateway.adapters.http.tokens import mint, write
from services.gateway.tests.serving import Served

TARGET = """\
name: payments
match: {service: payments}
runtime: {kind: process, command: [./serve], pidfile: pid}
signals:
  p95: {query: p95, role: check, threshold: 0.2}
prometheus: {url: "http://127.0.0.1:9"}
rehearse: {image: "payments:{release}", command: [./rehearse]}
"""
HERE = {"autopatch-sandbox:latest", "payments:1"}
"""Images of the engine that is stood in for."""


@contextmanager
def greeting(first: bytes) -> Iterator[str]:
    """A server that says one line."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(first)

        threading.Thread(target=answer, daemon=True).start()
        yield f"nats://127.0.0.1:{server.getsockname()[1]}"


def test_a_running_nats_server_is_named_with_its_version(tmp_path: Path) -> None:
    server = NatsServer(tmp_path).start()
    try:
        found = check.nats(server.url)
        assert found.status == "ok" and found.detail.startswith("2.") and "JetStream on" in found.detail
    finally:
        server.kill()
    stopped = check.nats(server.url)
    assert stopped.status == "stopped" and "nats-server 2." in stopped.detail and stopped.remedy
    assert check.nats(server.url, said=True).status == "silent"


def test_an_old_nats_server_one_without_jetstream_and_something_else_are_missing() -> None:
    for line, fault in (
        (b'INFO {"version": "2.9.10", "jetstream": true}\r\n', "2.9.10 at .*, at least 2.12"),
        (b'INFO {"version": "2.15.1"}\r\n', "JetStream is off"), (b"SSH-2.0-x\r\n", "is not NATS"), (b"", "is not NATS"),
    ):
        with greeting(line) as url, pytest.raises(Unavailable, match=fault):
            check.nats(url)


def test_tokens_by_which_nobody_could_approve_are_missing(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    write(path, [mint("robot", "approver", person=False)[1], mint("vic", "viewer", person=True)[1]])
    with pytest.raises(OperatorError, match="nobody can approve"):
        check.tokens(str(path))
    write(path, [mint("ann", "approver", person=True)[1]])
    assert "may approve: ann" in check.tokens(str(path)).detail
    with pytest.raises(OperatorError, match="No such file"):
        check.tokens(str(tmp_path / "none"))


def test_a_model_that_the_mode_needs_is_looked_for(tmp_path: Path) -> None:
    assert check.model(LlmSettings(mode="off")).status == "off"
    with pytest.raises(Unavailable, match="missing or incomplete"):
        check.model(LlmSettings(mode="local", model_dir=tmp_path))
    with pytest.raises(Unavailable, match="silent"):
        check.model(LlmSettings(mode="remote", base_url="http://127.0.0.1:9/v1", model="x"))


def test_servers_that_do_not_answer_are_told_apart_from_programs_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "payments.yaml").write_text(TARGET)
    assert check.targets(str(tmp_path)).detail.endswith(": payments")
    assert check.prometheus(str(tmp_path)).status == "silent"
    assert check.alertmanager("").status == "off" and check.alertmanager("http://127.0.0.1:9").status == "silent"
    assert check.traces("").status == "off"
    with pytest.raises(Unavailable, match="silent"):
        check.qdrant("http://127.0.0.1:9")
    assert check.qdrant("").status == "ok" and check.embedder("none", 1).status == "off"
    assert "384 dimensions" in check.embedder("minilm", 1).detail


def test_the_gateway_is_asked_with_the_callers_token(gateway: Served) -> None:
    gateway.chassis.control.reason = "olga: deploy"
    assert "PAUSED by olga: deploy" in check.gateway(Session(gateway.url, gateway.tokens["vic"])).detail
    assert check.gateway(Session("http://127.0.0.1:9", "x")).status == "stopped"


@pytest.fixture
def engine(httpserver: HTTPServer) -> str:
    """The address of what speaks as much of Docker's API as is asked for."""
    httpserver.expect_request("/version").respond_with_json({"Version": "20.10.24", "ApiVersion": "1.41"})
    httpserver.expect_request("/v1.41/version").respond_with_json({"Version": "20.10.24"})
    httpserver.expect_request("/v1.41/info").respond_with_json({"Runtimes": {"runc": {}, "runsc": {}}})
    for name in HERE:
        httpserver.expect_request(f"/v1.41/images/{name}/json").respond_with_json({"Id": "sha256:1"})
    lost = httpserver.expect_request(re.compile("/v1.41/images/.*"))
    lost.respond_with_json({"message": "No such image"}, status=404)
    return f"tcp://127.0.0.1:{httpserver.port}"


def test_no_engine_is_silence_and_its_images_are_not_called_missing(tmp_path: Path) -> None:
    host = f"unix://{tmp_path}/none.sock"
    found = check.docker_engine(host)
    assert found.status == "silent" and host in found.detail and "engine.sh start" in found.remedy
    assert check.images(host, ["payments:1"]).status == "silent"


def test_images_that_are_not_on_the_engine_are_named_with_the_remedy(engine: str, tmp_path: Path) -> None:
    assert check.docker_engine(engine).detail == "20.10.24, gVisor"
    assert check.images(engine, sorted(HERE)).status == "ok"
    found = check.images(engine, ["payments:1", "payments:2", "payments:3"])
    assert found.status == "missing" and found.detail == "not on the engine: payments:2, payments:3"
    assert "infra/images/build.sh" in found.remedy
    assert check.images(engine, []).status == "off"
    releases = TARGET.replace("pidfile: pid}", "pidfile: pid, releases: ['1', '2']}")
    (tmp_path / "payments.yaml").write_text(releases)
    assert check.rehearsed(str(tmp_path)) == ["payments:1", "payments:2"]


def test_the_engine_that_is_asked_is_the_one_of_the_executors_settings(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "targets").mkdir()
    (tmp_path / "targets" / "payments.yaml").write_text(TARGET)
    (tmp_path / "autopatch.yaml").write_text(f"executor: {{docker_host: '{engine}'}}\ntargets: {tmp_path}/targets\n")
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setenv("AUTOPATCH_CONFIG", str(tmp_path / "autopatch.yaml"))
    monkeypatch.setenv("AUTOPATCH_KNOWLEDGE_EMBEDDER", "none")

    def told() -> dict[str, tuple[str, str]]:
        findings = only_json(CliRunner().invoke(app, ["doctor", "--json"]))["findings"]
        return {f["name"]: (f["status"], f["detail"]) for f in findings}

    by_file = told()
    assert by_file["docker engine"] == ("ok", "20.10.24, gVisor") and by_file["target images"] == ("ok", "payments:1")
    assert by_file["sandbox images"] == ("missing", "not on the engine: autopatch-sandbox-node:latest")
    monkeypatch.setenv("AUTOPATCH_EXECUTOR_DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    assert {told()[name][0] for name in ("docker engine", "target images", "sandbox images")} == {"silent"}


def test_the_whole_examination_exits_with_1_and_remedies_while_something_required_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUTOPATCH_TARGETS", str(tmp_path / "none"))
    monkeypatch.setenv("AUTOPATCH_URL", "http://127.0.0.1:9")
    result = CliRunner().invoke(app, ["doctor", "--json"])
    told = only_json(result)
    by_name = {f["name"]: f for f in told["findings"]}
    assert result.exit_code == 1 and not told["ok"]
    assert by_name["targets"]["status"] == "missing" and "AUTOPATCH_TARGETS" in by_name["targets"]["remedy"]
    assert by_name["tokens"]["status"] == "missing" and by_name["qdrant"]["status"] == "ok"
    assert all(f["remedy"] for f in told["findings"] if f["status"] == "missing")
    text = CliRunner().invoke(app, ["doctor"]).stdout
    assert "missing targets" in text and "→ set AUTOPATCH_TARGETS" in text
