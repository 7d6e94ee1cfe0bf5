import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from autopatch.chassis.llm.pull import QWEN
from autopatch.chassis.llm.settings import LlmSettings
from autopatch.cli.main import app

pytestmark = pytest.mark.timeout(120)

MODEL = LlmSettings().model_dir / QWEN.file


@pytest.fixture(autouse=True)
def folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AUTOPATCH_LLM_MODEL_DIR", str(tmp_path / "models"))
    monkeypatch.setenv("AUTOPATCH_LLM_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("AUTOPATCH_LLM_MODE", "local")


def test_status_of_a_missing_model_names_the_remedy_and_fails() -> None:
    result = CliRunner().invoke(app, ["model", "status"])
    assert result.exit_code == 1 and "autopatch model pull" in result.output


def test_status_speaks_json(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["model", "status", "--json"])
    report = json.loads(result.output)
    assert [report[key] for key in ("mode", "present", "serving", "model")] == ["local", False, None, QWEN.name]
    assert report["file"] == str(tmp_path / "models" / QWEN.file)


def test_a_wrong_setting_is_one_line_and_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOPATCH_LLM_MODE", "bogus")
    result = CliRunner().invoke(app, ["model", "status"])
    assert result.exit_code == 1 and "AUTOPATCH_LLM_MODE" in result.output and "Traceback" not in result.output


def test_a_pull_that_fails_says_why_in_json_too() -> None:
    result = CliRunner().invoke(app, ["model", "pull", "--dir", "/proc/nowhere", "--json"])
    report = json.loads(result.output)
    assert result.exit_code == 1 and not report["ok"] and "/proc/nowhere" in report["error"] and report["tip"]


def test_serving_a_missing_model_names_the_remedy() -> None:
    result = CliRunner().invoke(app, ["model", "serve"])
    assert result.exit_code == 1 and "autopatch model pull" in result.output


@pytest.mark.model
@pytest.mark.skipif(not MODEL.is_file(), reason=f"{MODEL} is missing: run `autopatch model pull`")
def test_serve_ends_cleanly_when_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOPATCH_LLM_MODEL_DIR", str(MODEL.parent))
    code = "from autopatch.cli.main import app; app(['model', 'serve'])"
    serving = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert serving.stdout is not None and serving.stdout.readline().startswith("serving ")
        time.sleep(0.5)
        serving.send_signal(signal.SIGINT)
        assert serving.wait(15) == 0
        assert "Traceback" not in serving.communicate()[1]
        assert not list((tmp_path / "run").glob("*.json"))
    finally:
        serving.kill()
        serving.communicate()
