"""targets check, policy check, bus docs, settings: what needs no server."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from autopatch.chassis.settings import Common, load
from autopatch.cli.main import app
from autopatch.cli.tests.conftest import only_json
from autopatch.cli.tests.test_doctor import TARGET
from autopatch.contract.document import bus_markdown


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_good_targets_are_named(tmp_path: Path) -> None:
    (tmp_path / "payments.yaml").write_text(TARGET)
    assert run("targets", "check", str(tmp_path)).stdout == "ok: payments\n"
    assert run("targets", "check", str(tmp_path / "payments.yaml")).stdout == "ok: payments\n"
    assert only_json(run("targets", "check", str(tmp_path), "--json")) == {"ok": True, "targets": ["payments"]}


def test_each_mistake_in_a_target_is_told_with_file_line_and_field(tmp_path: Path) -> None:
    file = tmp_path / "payments.yaml"
    file.write_text(TARGET.replace("threshold: 0.2", "treshold: 0.2").replace("match: {service: payments}", "match: {}"))
    result = run("targets", "check", str(tmp_path))
    assert result.exit_code == 1 and result.stdout == ""
    assert f"{file}:2: match: " in result.stderr and f"{file}:5: signals.p95.treshold: unknown field" in result.stderr
    assert "2 faults" in result.stderr and "Traceback" not in result.output
    told = only_json(run("targets", "check", str(tmp_path), "--json"))
    assert not told["ok"] and len(told["faults"]) == 2


def test_a_policy_is_read_as_the_executor_does(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("rules:\n  - name: config\n    actions: [set_config, reload]\n    targets: ['*']\n")
    assert run("policy", "check", str(file)).stdout == "ok: config\n"
    assert only_json(run("policy", "check", str(file), "--json")) == {"ok": True, "rules": ["config"]}
    file.write_text("rules:\n  - name: config\n    actions: [set_fire]\n    targets: ['*']\n")
    result = run("policy", "check", str(file))
    assert result.exit_code == 1 and f"{file}:3: rules.0.actions.0" in result.stderr and "Traceback" not in result.output
    assert run("policy", "check", str(tmp_path / "none")).exit_code == 1


def test_the_bus_catalogue_is_the_generated_page() -> None:
    assert run("bus", "docs").stdout == bus_markdown()
    assert only_json(run("bus", "docs", "--json"))["markdown"] == bus_markdown()


def test_the_settings_template_holds_every_room_and_can_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = run("settings").stdout
    for wanted in ("nats_url", "gateway:", "  # tokens_file", "[AUTOPATCH_GATEWAY_TOKENS_FILE]", "knowledge:", "llm:"):
        assert wanted in text
    file = tmp_path / "config.yaml"
    file.write_text(text.replace("# nats_url: 'nats://127.0.0.1:4222'", "nats_url: 'nats://elsewhere:4222'"))
    monkeypatch.setenv("AUTOPATCH_CONFIG", str(file))
    assert load(Common).nats_url == "nats://elsewhere:4222"
    described = only_json(run("settings", "--room", "gateway", "--json"))
    assert list(described) == ["gateway"] and described["gateway"]["max_streams"]["default"] == "32"
    assert run("settings", "--room", "nonsense").exit_code == 2
