"""The command as such: help, exit codes, where it connects to."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer
from typer.testing import CliRunner

from autopatch.cli import errors
from autopatch.cli.client import Session, keep
from autopatch.cli.main import COMMANDS, app
from autopatch.cli.tests.conftest import Run, only_json
from services.gateway.tests.serving import Served


def test_help_names_every_command_and_is_there_at_once() -> None:
    began = time.perf_counter()
    program = [sys.executable, "-c", "from autopatch.cli.main import main; main()", "--help"]
    shown = subprocess.run(program, capture_output=True, text=True, check=True)
    took = time.perf_counter() - began
    assert [name for name, *_ in COMMANDS if name not in shown.stdout] == []
    imported = subprocess.run(
        [sys.executable, "-X", "importtime", *program[1:]], capture_output=True, text=True, check=True
    ).stderr
    assert not any(heavy in imported for heavy in ("pydantic", "fastapi", "httpx2", "nats", "opentelemetry")), took


def test_no_answer_is_exit_code_3_and_says_what_to_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOPATCH_URL", "http://127.0.0.1:9")
    result = CliRunner().invoke(app, ["incidents", "list"])
    assert result.exit_code == 3 and result.stdout == ""
    assert result.stderr.splitlines() == [
        "error: gateway: no answer at http://127.0.0.1:9 (ConnectError)",
        "  try: start it with `autopatch up`, or set AUTOPATCH_URL",
    ]
    told = CliRunner().invoke(app, ["incidents", "watch", "--json"])
    assert told.exit_code == 3 and not only_json(told)["ok"]


def test_a_missing_server_behind_the_gateway_is_exit_code_3_too(run: Run, gateway: Served) -> None:
    gateway.chassis.log.down = True
    result = run("vic", "incidents", "list")
    assert result.exit_code == 3 and "error: nats: not connected" in result.stderr


def test_no_token_and_a_wrong_one_are_refused_with_a_remedy(run: Run) -> None:
    result = run("nobody", "incidents", "list")
    assert result.exit_code == 1 and "no valid token" in result.stderr and "AUTOPATCH_TOKEN" in result.stderr


@pytest.mark.parametrize(
    "arguments", [["incidents", "show"], ["nonsense"], ["incidents", "list", "--limit", "0"], ["--nonsense"]]
)
def test_wrong_usage_is_exit_code_2(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2 and "Traceback" not in result.output


def test_what_is_not_the_gateway_is_told_apart(monkeypatch: pytest.MonkeyPatch, httpserver: HTTPServer) -> None:
    httpserver.expect_request("/v1/incidents").respond_with_data("<html>", content_type="text/html")
    monkeypatch.setenv("AUTOPATCH_URL", httpserver.url_for(""))
    result = CliRunner().invoke(app, ["incidents", "list"])
    assert result.exit_code == 3 and "not JSON" in result.stderr


def test_what_up_kept_is_used_and_its_token_goes_nowhere_else(
    gateway: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "state" / "cli.json"
    keep(kept, gateway.url, gateway.tokens["vic"])
    assert kept.stat().st_mode & 0o777 == 0o600 and json.loads(kept.read_text())["url"] == gateway.url
    assert CliRunner().invoke(app, ["incidents", "list"]).exit_code == 0
    monkeypatch.setenv("AUTOPATCH_URL", "http://elsewhere.test")
    assert Session().connection() == ("http://elsewhere.test", "")
    assert Session(url=gateway.url + "/").connection() == (gateway.url, gateway.tokens["vic"])
    assert Session(token="mine").connection() == ("http://elsewhere.test", "mine")
    os.chmod(kept, 0o644)
    refused = CliRunner().invoke(app, ["incidents", "list"])
    assert refused.exit_code == 1 and f"chmod 600 {kept}" in refused.stderr


def test_root_options_win_over_the_environment(gateway: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOPATCH_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AUTOPATCH_TOKEN", "wrong")
    options = ["--url", gateway.url, "--token", gateway.tokens["vic"]]
    assert CliRunner().invoke(app, [*options, "incidents", "list"]).exit_code == 0


def test_a_fault_of_ours_is_one_line_and_keeps_its_traceback_in_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    error = ZeroDivisionError("boo")
    errors.unexpected(ZeroDivisionError, error, None)
    told = capsys.readouterr().err
    kept = Path(told.split("report it with ")[1].strip())
    assert "Traceback" not in told and "boo" not in told and "ZeroDivisionError: boo" in kept.read_text()
    kept.unlink()
