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


OWN_FAULT = """
import sys, tempfile
from autopatch.cli import main
main._register("boo", "faulty:boo", main.RUN, "")
{before}
main.main()
"""


def own_fault(folder: Path, *arguments: str, before: str = "") -> "subprocess.CompletedProcess[str]":
    """The program with one more command, which has a fault."""
    (folder / "faulty.py").write_text("def boo(word: str = '', json: bool = False) -> None:\n    raise ZeroDivisionError(word)\n")
    env = {**os.environ, "PYTHONPATH": str(folder), "TMPDIR": str(folder)}
    program = [sys.executable, "-c", OWN_FAULT.format(before=before), "boo", *arguments]
    return subprocess.run(program, env=env, capture_output=True, text=True, timeout=60)


def test_a_fault_of_ours_is_one_line_and_keeps_its_traceback_in_a_file(tmp_path: Path) -> None:
    told = own_fault(tmp_path, "--word", os.fsdecode(b"what\xff"))
    assert told.returncode == 1 and told.stdout == "" and "Traceback" not in told.stderr and "what" not in told.stderr
    first, remedy = told.stderr.splitlines()
    assert first == "error: AutoPatch itself failed (ZeroDivisionError)"
    kept = Path(remedy.split("report it with ")[1])
    assert kept.parent == tmp_path and "ZeroDivisionError: what" in kept.read_text()


def test_a_fault_of_ours_is_json_where_json_is_wanted(tmp_path: Path) -> None:
    told = own_fault(tmp_path, "--json")
    assert json.loads(told.stdout)["error"] == "AutoPatch itself failed (ZeroDivisionError)" and "Traceback" not in told.stderr


def test_a_fault_of_ours_is_told_even_where_nothing_can_be_written(tmp_path: Path) -> None:
    told = own_fault(tmp_path, before="tempfile.tempdir = '/nonexistent'")
    assert told.returncode == 1 and "Traceback" not in told.stderr and "TMPDIR" in told.stderr
    assert told.stderr.startswith("error: AutoPatch itself failed (ZeroDivisionError)\n")


def test_a_fault_of_ours_is_told_where_the_answer_cannot_be_written(tmp_path: Path) -> None:
    told = own_fault(tmp_path, "--json", before="sys.stdout = open('/dev/full', 'w')")
    assert (told.returncode, told.stderr.splitlines()[0]) == (1, "error: AutoPatch itself failed (ZeroDivisionError)")
    assert "Traceback" not in told.stderr and "Exception ignored" not in told.stderr


def program(*arguments: str, **env: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "autopatch", *arguments]
    return subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    "url", ["::::", "http://[::1", "http://a\x01b", "ftp://x", "127.0.0.1:8420", "http://", "http://h:99999", os.fsdecode(b"http://\xff")]
)
def test_a_url_that_is_none_is_wrong_usage_or_a_wrong_variable(url: str) -> None:
    said = program("--url", url, "incidents", "list")
    assert said.returncode == 2 and said.stderr.startswith("error: --url: ") and "  try: give the gateway's" in said.stderr
    assert "\x01" not in said.stderr
    found = program("incidents", "list", AUTOPATCH_URL=url)
    assert found.returncode == 1 and found.stderr.startswith("error: AUTOPATCH_URL: ") and "  try: " in found.stderr


@pytest.mark.parametrize("token", ["h\u00e9\u2603", "h a", "h\nb", os.fsdecode(b"h\xff")])
def test_a_token_that_no_header_can_carry_is_told_and_not_shown(token: str) -> None:
    said = program("--token", token, "incidents", "list")
    assert said.returncode == 2 and said.stderr.startswith("error: --token: a token has only printable ASCII")
    found = program("incidents", "list", AUTOPATCH_TOKEN=token)
    assert found.returncode == 1 and found.stderr.startswith("error: AUTOPATCH_TOKEN: ")
    assert token not in said.stderr + found.stderr and "Traceback" not in said.stderr + found.stderr


@pytest.mark.parametrize(
    "text",
    ["[" * 5000, '{"url": "http://[::1", "token": "x"}', '{"url": "http://h", "token": "\u2603"}', "{url: 2026-13-45}", "{"],
)
def test_a_kept_file_that_is_of_no_use_is_named(tmp_path: Path, text: str) -> None:
    kept = tmp_path / "state" / "cli.json"
    keep(kept, "", "")
    kept.write_text(text)
    told = program("incidents", "list")
    assert told.returncode == 1 and "Traceback" not in told.stderr
    assert told.stderr.startswith(f"error: {kept} holds no url and token that can be used\n  try: remove it")
