"""Settings: whatever is wrong with one is told with its variable or its place in the file, and no value that may be secret."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field
from pydantic_settings import SettingsConfigDict

from autopatch.chassis.llm.settings import LlmSettings
from autopatch.chassis.settings import Common, RoomSettings, load, strangers, template
from autopatch.contract.errors import OperatorError


class Settings(RoomSettings):
    """As a room has them."""

    model_config = SettingsConfigDict(env_prefix="AUTOPATCH_PLANNER_")

    llm: LlmSettings = Field(default_factory=LlmSettings)
    cool_down_s: float = Field(default=300, ge=0)
    watches: tuple[dict[str, int], ...] = ()


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AUTOPATCH_")]:
        monkeypatch.delenv(name)


def refused(cls: Any) -> str:
    with pytest.raises(OperatorError) as told:
        load(cls)
    assert told.value.tip
    return str(told.value.args[0])


@pytest.mark.parametrize(
    ("variable", "value", "wrong"),
    [
        ("AUTOPATCH_PLANNER_WATCHES", "{", "is not JSON"), ("AUTOPATCH_PLANNER_WATCHES", "", "is empty"),
        ("AUTOPATCH_PLANNER_WATCHES", "[" * 100_000, "is not JSON"), ("AUTOPATCH_PLANNER_LLM", "{", "is not JSON"),
        ("AUTOPATCH_LLM_LIMITS", "{", "is not JSON"), ("AUTOPATCH_PLANNER_LLM__LIMITS", "{", "is not JSON"),
        ("AUTOPATCH_LLM_MODE", "REMOTE", "'off', 'local' or 'remote'"), ("AUTOPATCH_PLANNER_LLM__MODE", "foo", "'off'"),
        ("AUTOPATCH_LLM_LIMITS__CALLS", "x", "integer"), ("AUTOPATCH_LLM_LIMITS", '{"calls": "x"}', "integer"),
        ("AUTOPATCH_LLM_LIMITS__SECONDS", "inf", "finite"), ("AUTOPATCH_LLM_TIMEOUT_S", "1e15", "less than"),
        ("AUTOPATCH_PLANNER_WATCHES", '[{"a": "x"}]', "integer"), ("AUTOPATCH_PLANNER_COOL_DOWN_S", "inf", "finite"),
        ("AUTOPATCH_PLANNER_COOL_DOWN_S", "nan", "finite"), ("AUTOPATCH_PLANNER_PORT", "99999", "65535"),
        ("AUTOPATCH_PLANNER_LLM", "[]", "LlmSettings"),
    ],
)
def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch, variable: str, value: str, wrong: str) -> None:
    monkeypatch.setenv(variable, value)
    told = refused(Settings)
    assert wrong in told and {part.strip("():,") for part in told.split() if "AUTOPATCH_" in part} == {variable}


def test_where_a_room_overrides_the_shared_model_settings_the_one_that_is_wrong_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOPATCH_PLANNER_LLM__MODE", "local")
    monkeypatch.setenv("AUTOPATCH_LLM_SEED", "x")
    assert "(AUTOPATCH_LLM_SEED)" in refused(Settings)


@pytest.mark.parametrize(
    "setting", ["STREAM_AGE_S", "STREAM_BYTES", "ACK_WAIT_S", "PUBLISH_BUDGET_S", "WAITING_LIMIT_S", "RETRY_S"]
)
@pytest.mark.parametrize("value", ["inf", "nan", "1e16", "9" * 24, "0"])
def test_what_no_server_and_no_clock_can_take_is_refused(monkeypatch: pytest.MonkeyPatch, setting: str, value: str) -> None:
    monkeypatch.setenv(f"AUTOPATCH_{setting}", value)
    assert f"(AUTOPATCH_{setting})" in refused(Common)


def test_the_log_level_is_taken_in_any_case_and_another_one_is_told_with_those_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOPATCH_LOG_LEVEL", "debug")
    assert load(Common).log_level == "DEBUG"
    monkeypatch.setenv("AUTOPATCH_LOG_LEVEL", "LOUD")
    told = refused(Common)
    assert "AUTOPATCH_LOG_LEVEL" in told and "'DEBUG', 'INFO', 'WARNING' or 'ERROR'" in told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"state: x\na: {", ":2: not YAML"), (b"[1]", "by their names"), (b"5", "by their names"), (b"1: 2", "by their names"),
        (b": : :", "by their names"), (b"state: 2026-13-45", "not YAML: month"), (b"planner: 5", "planner: not settings by"),
        (b"\nstate: !!python/object/apply:os.system [id]", ":2: not YAML"), (b"state: x\nhost: \xff", ":2: not UTF-8"),
        (b"state: &a [*a]", "state"), (b"state: \x01", "not YAML"), (b"a: " + b"[" * 5000, "not YAML"),
        (b"planner: [1]", "by their names"), (b"planner:\n  llm: {1: 2}", "planner: not settings by"),
        (b"a: secret\na: hidden", ":2: not YAML"),
        (b"planner: {port: x}", "c.yaml"),
    ],
)
def test_a_wrong_file_is_named_with_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: bytes, told: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_bytes(text)
    monkeypatch.setenv("AUTOPATCH_CONFIG", str(file))
    found = refused(Settings if b"planner" in text else Common)
    assert told in found and "secret" not in found and "hidden" not in found and "\n" not in found.split(" (")[0]


def test_a_file_says_off_as_a_word_and_the_environment_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("targets: here\nllm: {mode: off, seed: 3}\nplanner:\n  port: 5\n  host:  ::1\nmonitor:\n")
    monkeypatch.setenv("AUTOPATCH_CONFIG", str(file))
    monkeypatch.setenv("AUTOPATCH_PLANNER_PORT", "6")
    room: Settings = load(Settings)
    assert (room.port, room.host, room.llm.mode, room.llm.seed, load(Common).targets) == (6, "::1", "off", 3, "here")


def test_the_template_is_printed_whatever_is_set_now(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = template(Common, Settings)
    monkeypatch.setenv("AUTOPATCH_LLM_LIMITS", "{")
    monkeypatch.setenv("AUTOPATCH_LLM_MODE", "x")
    assert template(Common, Settings) == usual and "[AUTOPATCH_PLANNER_PORT]" in usual


def test_variables_that_no_setting_reads_are_found_with_the_nearest_one(monkeypatch: pytest.MonkeyPatch) -> None:
    others = ("AUTOPATCH_TOKEN", "AUTOPATCH_MONITOR_PORT", "AUTOPATCH_PLANNER_PORT", "AUTOPATCH_LLM_LIMITS__CALLS")
    for name in (*others, "autopatch_planner_host", "AUTOPATCH_PLANNER_COOLDOWN_S", "AUTOPATCH_LLM_QQQQQQQQQQQQQQQQQQ"):
        monkeypatch.setenv(name, "1")
    assert strangers([Settings]) == {
        "AUTOPATCH_PLANNER_COOLDOWN_S": "AUTOPATCH_PLANNER_COOL_DOWN_S", "AUTOPATCH_LLM_QQQQQQQQQQQQQQQQQQ": "",
    }


def room(folder: Path, **settings: str) -> "subprocess.CompletedProcess[str]":
    """A room whose NATS is away, in a folder without targets."""
    env = {**os.environ, "AUTOPATCH_NATS_URL": "nats://127.0.0.1:9", "AUTOPATCH_PUBLISH_BUDGET_S": "0.2", **settings}
    root = Path(__file__).parents[3]
    command = [sys.executable, "-m", "services.monitor"]
    return subprocess.run(command, cwd=folder, env={**env, "PYTHONPATH": str(root)}, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("AUTOPATCH_MONITOR_PORT", "99999"), ("AUTOPATCH_MONITOR_WATCHES", "{"), ("AUTOPATCH_LOG_LEVEL", "x"),
        ("AUTOPATCH_TARGETS", "no"),
    ],
)
def test_a_room_tells_wrong_settings_before_it_misses_nats(tmp_path: Path, variable: str, value: str) -> None:
    told = room(tmp_path, **{variable: value})
    assert told.returncode == 2 and "nats" not in told.stderr and "Traceback" not in told.stderr
    assert variable in told.stderr


def test_a_room_warns_of_variables_that_set_nothing(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(
        'name: p\nmatch: {service: p}\nruntime: {kind: process, command: [sleep, "1"], pidfile: p.pid}\n'
        'signals: {p95: {query: q, role: check, threshold: 1}}\nprometheus: {url: "http://127.0.0.1:9"}\n'
    )
    told = room(tmp_path, AUTOPATCH_TARGETS=".", AUTOPATCH_MONITOR_MAX_DAY="1", AUTOPATCH_LOG_LEVEL="warning")
    warning = next(line for line in told.stderr.splitlines() if "unknown variable" in line)
    assert '"AUTOPATCH_MONITOR_MAX_DAY"' in warning and '"AUTOPATCH_MONITOR_MAX_A_DAY"' in warning
    assert told.returncode == 2 and "nats: " in told.stderr
