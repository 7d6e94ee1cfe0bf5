"""The demo command as far as it needs no engine: wrong words, ending what was kept, what machines read, what was left."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from typer.testing import CliRunner

from autopatch.cli.demo import report, stop_kept
from autopatch.cli.errors import Failed
from autopatch.cli.lab.hosted import left
from autopatch.cli.lab.lab import Places
from autopatch.cli.main import app
from autopatch.cli.output import Output
from autopatch.cli.tests.conftest import only_json, process


def kept_demo(base: Path, pid: int, **pids: int) -> None:
    """As a lab that was kept records itself."""
    folder = base / "lab-1"
    folder.mkdir()
    (folder / "lab.json").write_text(json.dumps({"pid": pid, **asdict(Places("lab-1-x", str(folder), pids=pids))}))


@pytest.mark.parametrize("words", [["--fault", "flood"], ["--model", "big"], ["--repeat", "0"], ["--nonsense"], ["please"]])
def test_wrong_words_are_refused_before_anything_is_started(words: list[str]) -> None:
    result = CliRunner().invoke(app, ["demo", *words])
    assert result.exit_code == 2 and not result.stdout


def test_a_local_model_that_was_not_pulled_is_named_with_its_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOPATCH_LLM_MODEL_DIR", str(tmp_path))
    result = CliRunner().invoke(app, ["demo", "--model", "local", "--json"])
    told = only_json(result)
    assert result.exit_code == 1 and str(tmp_path) in told["error"] and told["tip"] == "autopatch model pull"


def test_where_no_demo_runs_there_is_nothing_to_stop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert stop_kept(Output(as_json=True), tmp_path) == 0
    assert json.loads(capsys.readouterr().out) == {"stopped": []}
    stop_kept(Output(), tmp_path)
    assert capsys.readouterr().out == "no demo is running\n"


def test_a_kept_demo_is_ended_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with process("autopatch.cli.lab") as pid:
        kept_demo(tmp_path, pid)
        assert stop_kept(Output(as_json=True), tmp_path) == 0
    assert json.loads(capsys.readouterr().out) == {"stopped": ["lab-1"]}


def test_a_server_that_a_stopped_demo_leaves_is_a_failure_that_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with process() as server, process("autopatch.cli.lab") as pid:
        kept_demo(tmp_path, pid, nats=server)
        with pytest.raises(Failed, match=rf"still there: nats \(process {server}\)"):
            stop_kept(Output(), tmp_path)
    assert "stopped" not in capsys.readouterr().out


def test_a_lab_on_an_engine_that_is_gone_left_no_containers(tmp_path: Path) -> None:
    assert left(Places("lab-1-x", str(tmp_path), engine=f"unix://{tmp_path}/none.sock")) == []


def test_for_machines_a_kept_demo_is_one_json_document_that_says_where_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    places = Places("lab-1-x", "/lab-1", gateway="http://127.0.0.1:1", token="secret", config="/lab-1/config.json")
    out = Output(as_json=True)
    out.table(("WHAT", "WHERE"), [("gateway", places.gateway)])
    out.data(report([], 1.26, places))
    assert json.loads(capsys.readouterr().out) == {
        "ok": True, "seconds": 1.3, "episodes": [],
        "kept": {"state": "/lab-1/state", "gateway": "http://127.0.0.1:1", "config": "/lab-1/config.json"},
    }
    assert report([], 1.26, None) == {"ok": True, "seconds": 1.3, "episodes": []}
