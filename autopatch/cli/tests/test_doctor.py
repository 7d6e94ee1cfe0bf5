"""The doctor's checks against what is really there."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
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
"""


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




def test_no_engine_is_no_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    try:
        found = check.docker_engine()
        assert found.status == "silent" and "engine.sh start" in found.remedy
    except Unavailable as missing:
        assert "dockerd" in str(missing)


def test_the_whole_examination_exits_with_1_and_remedies_while_something_required_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chdir(tmp_path)
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
