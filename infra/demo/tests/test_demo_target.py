"""The target file and the runbooks, read by the code that uses them."""

from pathlib import Path
from string import Template
from typing import Any

import pytest
from pydantic import TypeAdapter
from ruamel.yaml import YAML

from autopatch.chassis.targets import load_target
from autopatch.contract.actions import Action
from autopatch.contract.target import Target
from services.executor.adapters.rules.policy_file import load_policy
from services.knowledge.adapters.sources.documents import read_folder

INFRA = Path(__file__).resolve().parents[2]
RUNBOOKS = sorted((INFRA / "demo/runbooks").glob("*.md"))
VALUES = {
    "CONTAINER": "autopatch-payments", "CONFIG": "../.autopatch/payments/config.json", "PAYMENTS": "127.0.0.1:3000",
    "PROMETHEUS": "127.0.0.1:9090", "AUTONOMY": "auto",
    "REPOSITORY": "../.autopatch/payments/repository", "PATCH_CODE": "approve",
}


def front_matter(file: Path) -> dict[str, Any]:
    text = file.read_text()
    assert text.startswith("---\n")
    found: dict[str, Any] = YAML(typ="safe").load(text.split("---\n")[1])
    return found


@pytest.fixture
def target(tmp_path: Path) -> Target:
    path = tmp_path / "payments.yaml"
    path.write_text(Template((INFRA / "demo/target.yaml.tmpl").read_text()).substitute(VALUES))
    return load_target(path)


def test_the_example_is_the_filled_template(tmp_path: Path, target: Target) -> None:
    (tmp_path / "example.yaml").write_text((INFRA.parent / "targets/payments.yaml").read_text())
    assert load_target(tmp_path / "example.yaml") == target


def test_each_demo_alert_stands_for_one_check_with_the_alert_s_threshold(target: Target) -> None:
    for rule in YAML(typ="safe").load(INFRA / "prometheus/payments.rules.yml")["groups"][0]["rules"]:
        assert target.claims(rule["labels"])
        found = target.check_for(rule["alert"])
        assert found
        query, _, threshold = rule["expr"].rpartition(">")
        assert float(threshold) == found[1].threshold
        assert query.split() == found[1].query.replace(") / sum", ") / sum").split()


@pytest.mark.parametrize("file", RUNBOOKS, ids=lambda f: f.stem)
def test_a_runbook_only_does_what_the_target_allows(file: Path, target: Target) -> None:
    runbook, text = front_matter(file), file.read_text()
    assert runbook["causes"] and runbook["owner"] and runbook["severity"] == "critical"
    assert runbook.get("actions") or runbook["patch_code"]["tests"], "what to do, or a test of what to mend"
    assert runbook["service"] == target.match["service"]
    assert all(target.check_for(alert) for alert in runbook["alert"])
    assert all(f"\n## {section}\n" in text for section in ("Meaning", "Impact", "Diagnosis", "Mitigation"))
    for action in runbook.get("actions", ()):
        assert action.keys() <= TypeAdapter[Any](Action).validate_python(action).__class__.model_fields.keys()
        if action["kind"] == "set_config":
            config = target.config(str(action["file"]))
            assert config
            bounds, value = config.editable[str(action["key"])], action["value"]
            assert isinstance(value, int) and bounds.min is not None and bounds.max is not None
            assert bounds.min <= value <= bounds.max


def test_the_runbooks_are_read_as_knowledge_reads_them_with_the_test_that_one_attaches() -> None:
    books = {document.runbook.name: document.runbook for document in read_folder(INFRA / "demo/runbooks") if document.runbook}
    assert set(books) == {file.stem for file in RUNBOOKS}
    code = books["refunds_fail"]
    assert code.actions == ({"kind": "patch_code"},) and "percent_back" in code.attached["tests/test_late_refunds.py"]


def test_the_demo_s_policy_lets_one_person_or_none_decide_on_code_of_the_demo_only(target: Target) -> None:
    rules = {rule.name: rule for rule in load_policy(INFRA / "demo/policy.yaml").rules}
    shipped = {rule.name: rule for rule in load_policy(INFRA.parent / "services/executor/policies/policy.yaml").rules}
    assert {name: rule for name, rule in rules.items() if name != "demo_code"} == {
        name: rule for name, rule in shipped.items() if name != "code"
    }
    assert rules["demo_code"].two_persons is False and rules["demo_code"].targets == (target.name,)


def test_each_cause_has_a_runbook() -> None:
    causes = [cause for file in RUNBOOKS for cause in front_matter(file)["causes"]]
    assert sorted(causes) == ["bad_release", "bad_release", "pool_exhausted"]
