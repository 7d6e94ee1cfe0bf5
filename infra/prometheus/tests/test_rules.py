"""Rules and scrape configuration, checked by Prometheus' own tools."""

import os
import shutil
import subprocess
from pathlib import Path
from string import Template

import promql_parser
import pytest
from ruamel.yaml import YAML

PROMETHEUS = Path(__file__).parents[1]
PROMTOOL = shutil.which("promtool")
AMTOOL = shutil.which("amtool")


def run(*command: str | Path | None) -> None:
    plain = {**os.environ, "NO_COLOR": "1"}
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, env=plain)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(not PROMTOOL, reason="needs promtool")
@pytest.mark.parametrize("file", sorted(PROMETHEUS.glob("tests/*_test.yml")), ids=lambda f: f.stem)
def test_each_alert_fires_when_it_should_and_only_then(file: Path) -> None:
    run(PROMTOOL, "test", "rules", file)


@pytest.mark.skipif(not PROMTOOL, reason="needs promtool")
def test_the_filled_configuration_is_one_that_prometheus_takes(tmp_path: Path) -> None:
    config = tmp_path / "prometheus.yml"
    values = {"RULES": PROMETHEUS, "PAYMENTS": "127.0.0.1:3000", "ALERTMANAGER": "127.0.0.1:9093"}
    for rooms in ("", "127.0.0.1:8001", "127.0.0.1:8001, 127.0.0.1:8002"):
        config.write_text(Template((PROMETHEUS / "prometheus.yml.tmpl").read_text()).substitute(values, AUTOPATCH=rooms))
        run(PROMTOOL, "check", "config", config)


@pytest.mark.skipif(not AMTOOL, reason="needs amtool")
def test_the_filled_configuration_is_one_that_alertmanager_takes(tmp_path: Path) -> None:
    config = tmp_path / "alertmanager.yml"
    template = Template((PROMETHEUS.parent / "alertmanager/alertmanager.yml.tmpl").read_text())
    config.write_text(template.substitute(WEBHOOK="http://127.0.0.1:8000/hook", TOKEN_FILE=tmp_path / "token"))
    run(AMTOOL, "check-config", config)


@pytest.mark.parametrize("file", sorted(PROMETHEUS.glob("*.rules.yml")), ids=lambda f: f.stem)
def test_every_alert_says_what_happened_and_whom_it_concerns(file: Path) -> None:
    rules = [rule for group in YAML(typ="safe").load(file)["groups"] for rule in group["rules"]]
    for rule in rules:
        promql_parser.parse(rule["expr"])
        assert rule["labels"].keys() == {"severity", "service"}
        assert rule["annotations"]["summary"] and rule["annotations"]["description"]
        runbook = rule["annotations"].get("runbook_url")
        assert runbook is None or (PROMETHEUS.parents[1] / runbook).is_file()
        assert runbook or rule["labels"]["service"] == "autopatch"
