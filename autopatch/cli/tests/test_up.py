"""autopatch up: two of them do not share a folder, and rooms that need each other know each other."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner

from autopatch.cli import locks
from autopatch.cli.client import keep
from autopatch.cli.lab.probes import free_port
from autopatch.cli.main import app
from autopatch.cli.tests.conftest import only_json

UP = [sys.executable, "-c", "from autopatch.cli.main import main; main()", "up"]
TARGET = """name: payments
match: {service: payments}
runtime: {kind: process, command: [sleep, "1"], pidfile: p.pid}
signals: {p95: {query: q, role: check, threshold: 1}}
prometheus: {url: "http://127.0.0.1:9"}
"""


def test_a_second_one_in_the_same_folder_says_where_the_first_is(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "nats"
    folder.mkdir(parents=True)
    (tmp_path / "targets").mkdir()
    (tmp_path / "targets" / "payments.yaml").write_text(TARGET)
    with locks.held(folder / "lock") as ours:
        assert ours
        command = [*UP, "--room", "monitor"]
        result = subprocess.run(command, cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True, timeout=60)
    assert result.returncode == 1 and f"runs here already, with its data in {folder}" in result.stderr
    assert "AUTOPATCH_STATE" in result.stderr and "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("variable", "value"), [("AUTOPATCH_TARGETS", "nowhere"), ("AUTOPATCH_MONITOR_PORT", "x"), ("AUTOPATCH_MONITOR_WATCHES", "{")]
)
def test_what_is_wrong_with_settings_or_targets_is_told_before_anything_is_started(
    tmp_path: Path, variable: str, value: str
) -> None:
    env = {**os.environ, variable: value}
    result = subprocess.run([*UP, "--room", "monitor"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
    assert result.returncode == 1 and variable in result.stderr and "Traceback" not in result.stderr
    assert "started nats-server" not in result.stdout + result.stderr and not (tmp_path / "state").exists()


def test_a_kept_file_of_no_use_is_told_before_anything_is_started(tmp_path: Path) -> None:
    (tmp_path / "targets").mkdir()
    (tmp_path / "targets" / "payments.yaml").write_text(TARGET)
    kept = tmp_path / "state" / "cli.json"
    keep(kept, "", "")
    result = subprocess.run([*UP, "--room", "monitor"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert result.returncode == 1 and f"{kept} holds no url" in result.stderr and "Traceback" not in result.stderr
    assert not (tmp_path / "state" / "nats").exists()


@contextmanager
def running(folder: Path, **settings: str) -> Iterator[dict[str, Any]]:
    """The gateway and the knowledge room, as they announce themselves."""
    (folder / "targets").mkdir()
    (folder / "targets" / "payments.yaml").write_text(TARGET)
    own = {
        "AUTOPATCH_GATEWAY_TOKENS_FILE": str(folder / "tokens.yaml"), "AUTOPATCH_KNOWLEDGE_EMBEDDER": "none",
        "AUTOPATCH_KNOWLEDGE_FOLDER": str(folder / "knowledge"), "AUTOPATCH_KNOWLEDGE_RUNBOOKS": "",
    }
    command = [*UP, "--json", "--room", "gateway", "--room", "knowledge", "--log", str(folder / "up.log")]
    with subprocess.Popen(command, cwd=folder, env={**os.environ, **own, **settings}, stdout=subprocess.PIPE) as process:
        assert process.stdout
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()


@pytest.mark.parametrize("configured", [False, True])
def test_documents_get_into_the_knowledge_room_through_its_gateway_and_not_past_it(tmp_path: Path, configured: bool) -> None:
    port, document = free_port(), tmp_path / "pool.md"
    document.write_text("# Pool\nraise it\n")
    known = {"AUTOPATCH_KNOWLEDGE_PORT": str(port), "AUTOPATCH_GATEWAY_KNOWLEDGE_URL": f"http://127.0.0.1:{port}"}
    with running(tmp_path, **(known if configured else {})) as told:
        past = f"{told['rooms']['knowledge']}/v1/knowledge/ingest"
        refused = httpx2.post(past, json={"documents": [{"source": "a.md", "text": "x"}]}, trust_env=False)
        assert refused.status_code == 401
        assert only_json(CliRunner().invoke(app, ["kb", "ingest", str(document), "--json"]))["added"] == 1
        found = only_json(CliRunner().invoke(app, ["kb", "search", "raise", "--json"]))
    assert [item["source"] for item in found] == ["pool.md"]
