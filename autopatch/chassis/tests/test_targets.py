"""Target files: what is read, and how mistakes are told."""

import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from autopatch.chassis.chassis import Targets
from autopatch.chassis.targets import FileTargets, load_target, load_targets
from autopatch.contract.errors import OperatorError

GOOD = """\
name: payments
match: {service: payments}
runtime:
  kind: docker
  container: payments
  image: registry.test:5000/demo/payments
  releases: ["1", "2"]
configs:
  - name: config
    path: ../config.json
    format: json
    editable:
      database.pool_size: {type: int, min: 1, max: 100}
signals:
  p95:
    query: histogram_quantile(0.95, sum by (le) (rate(http_seconds_bucket[1m])))
    role: check
    threshold: 0.2
  traffic: {query: "sum(rate(http_total[1m]))", role: traffic}
prometheus:
  url: http://127.0.0.1:9090
  bearer_token_file: token
"""


def written(folder: Path, text: str, name: str = "payments.yaml") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_a_good_file_is_read_with_absolute_paths(tmp_path: Path) -> None:
    (tmp_path / "targets").mkdir()
    target = load_target(written(tmp_path / "targets", GOOD))
    assert target.configs[0].path == str(tmp_path / "config.json")
    assert target.prometheus.bearer_token_file == str(tmp_path / "targets" / "token")
    assert target.configs[0].editable["database.pool_size"].max == 100


def test_a_process_target_works_in_its_files_folder_unless_it_says_otherwise(tmp_path: Path) -> None:
    docker = GOOD[GOOD.index("  kind: docker") : GOOD.index("configs:")]
    process = "  {kind: process, command: [./serve], pidfile: run/pid, log: run/log}\n"
    runtime = load_target(written(tmp_path, GOOD.replace(docker, process))).runtime
    assert runtime.kind == "process"
    assert (runtime.workdir, runtime.pidfile, runtime.log) == (str(tmp_path), f"{tmp_path}/run/pid", f"{tmp_path}/run/log")


def test_an_alert_belongs_to_the_targets_whose_labels_it_carries(tmp_path: Path) -> None:
    written(tmp_path, GOOD)
    written(tmp_path, GOOD.replace("payments", "orders"), "orders.yml")
    targets: Targets = load_targets(tmp_path)
    assert [t.name for t in targets.all()] == ["orders", "payments"]
    assert [t.name for t in targets.claimed_by({"service": "orders", "extra": "x"})] == ["orders"]
    assert targets.claimed_by({}) == []
    assert targets.get("nobody") is None


POOL = "configs.0.editable.database.pool_size"
MISTAKES = [
    ("container: payments", "contaner: payments", 5, "runtime.docker.contaner", "did you mean 'container'?"),
    ("    threshold: 0.2\n", "", 15, "signals.p95", "threshold"),
    ("threshold: 0.2", "treshold: 0.2", 18, "signals.p95.treshold", "did you mean 'threshold'?"),
    ("name: payments", "nmae: payments", 1, "nmae", "did you mean 'name'?"),
    ("  url: http://127.0.0.1:9090\n", "", 20, "prometheus.url", "add url"),
    ("kind: docker", "kind: podman", 3, "runtime", "'docker', 'process'"),
    ("  kind: docker\n", "", 3, "runtime.kind", "add kind"),
    ("{service: payments}", "{service: 7}", 2, "match.service", "put it in quotes"),
    ("{service: payments}", "{}", 2, "match", "at least 1"),
    ("{service: payments}", '{service: ""}', 2, "match.service", "is empty"),
    ("format: json", "format: xml", 11, "configs.0.format", "'json'"),
    ("{type: int, min: 1, max: 100}", "{type: int, min: 9, max: 1}", 13, POOL, "min is above max"),
    ("{type: int, min: 1, max: 100}", "{type: int, min: 9}", 13, POOL, "needs both min and max"),
    ("{type: int, min: 1, max: 100}", "{type: int, min: 1, max: 1.5}", 13, POOL, "whole"),
    ("{type: int, min: 1, max: 100}", "{type: float, min: 1, max: .inf}", 13, f"{POOL}.max", "finite"),
    ("{type: int, min: 1, max: 100}", "{type: str}", 13, POOL, "choices"),
    ("{type: int, min: 1, max: 100}", "{type: bool, min: 1}", 13, POOL, "mean nothing"),
    ("database.pool_size", "database.password", 9, "configs.0", "looks like a secret"),
    ("role: check\n    threshold: 0.2", "role: guard", 14, "signals", "none has role: check"),
    ("role: traffic", "role: check, threshold: 1", 15, "signals.p95", "without alerts"),
    ("[1m])))", "[1m]))", 16, "signals.p95.query", "not PromQL"),
    ("http://127.0.0.1:9090", "127.0.0.1:9090", 21, "prometheus.url", "no HTTP address"),
    ('["1", "2"]', '["1", "1"]', 7, "runtime.releases", "twice"),
    ("demo/payments", "demo/payments:1", 6, "runtime.image", "tag"),
    ("name: payments", "name: Pay_ments", 1, "name", "small letters"),
    ("container: payments", "container: payments\n  reload_signal: HUP", 6, "runtime.reload_signal", "SIGHUP"),
]


@pytest.mark.parametrize(("old", "new", "line", "field", "remedy"), MISTAKES)
def test_a_mistake_is_told_with_file_line_field_and_remedy(
    tmp_path: Path, old: str, new: str, line: int, field: str, remedy: str
) -> None:
    assert old in GOOD
    file = written(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(OperatorError) as caught:
        load_target(file)
    told = str(caught.value)
    assert f"{file}:{line}: {field}: " in told and remedy in told and "Traceback" not in told


CODE = GOOD.replace('"2"]\n', '"2"]\n  source: /app\n') + """\
autonomy: {actions: {patch_code: approve}}
repository: ../repository
tests: [pytest, -q]
"""


def test_a_target_whose_code_may_be_patched_names_its_repository_absolutely(tmp_path: Path) -> None:
    (tmp_path / "targets").mkdir()
    target = load_target(written(tmp_path / "targets", CODE))
    assert target.repository == str(tmp_path / "repository") and target.tests == ("pytest", "-q")


@pytest.mark.parametrize(("old", "new", "told"), [
    ("  source: /app\n", "", ":3: runtime.source: is missing though autonomy.actions names patch_code"),
    ("source: /app", "source: app", ":8: runtime.source: is no absolute path"),
    ("repository: ../repository\n", "", "repository: is missing though autonomy.actions names patch_code"),
    ("tests: [pytest, -q]\n", "", "tests: are missing though autonomy.actions names patch_code"),
    ("autonomy: {actions: {patch_code: approve}}\nrepository: ../repository\n", "", "tests: are those of no repository"),
])
def test_a_target_whose_code_may_be_patched_names_all_it_takes(tmp_path: Path, old: str, new: str, told: str) -> None:
    assert old in CODE
    with pytest.raises(OperatorError) as caught:
        load_target(written(tmp_path, CODE.replace(old, new, 1)))
    assert told in str(caught.value)


def test_code_of_a_process_is_not_patched(tmp_path: Path) -> None:
    docker = CODE[CODE.index("  kind: docker") : CODE.index("configs:")]
    process = "  {kind: process, command: [./serve], pidfile: run/pid}\n"
    with pytest.raises(OperatorError, match="autonomy.actions.patch_code: is for containers only"):
        load_target(written(tmp_path, CODE.replace(docker, process)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "a target file holds"), ("[]", "a target file holds"), ("name: [a\nb: 1", "payments.yaml:2: not YAML"),
        ("name: a\nname: b\n", 'payments.yaml:2: not YAML: found duplicate key "name"'),
        ("\tname: a", "payments.yaml:1: not YAML"),
        ("a: 1\n---\nb: 2\n", "not YAML"),
    ],
)
def test_a_file_that_is_no_target_is_told_apart(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(OperatorError) as caught:
        load_target(written(tmp_path, text))
    assert said in str(caught.value)


def test_bytes_that_are_no_text_are_the_operators_mistake(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(OperatorError, match="cannot be read"):
        load_targets(tmp_path)


def test_several_mistakes_are_all_told_at_once(tmp_path: Path) -> None:
    text = GOOD.replace("container: payments", "contaner: payments").replace("format: json", "format: xml")
    with pytest.raises(OperatorError) as caught:
        load_target(written(tmp_path, text))
    assert "contaner" in str(caught.value) and "format" in str(caught.value)


def test_two_targets_of_one_name_are_refused(tmp_path: Path) -> None:
    written(tmp_path, GOOD)
    written(tmp_path, GOOD.replace("{service: payments}", "{service: other}"), "zz.yaml")
    with pytest.raises(OperatorError, match="zz.yaml: name: 'payments' is the name of .*payments.yaml too"):
        load_targets(tmp_path)


def test_two_targets_that_claim_the_same_alerts_are_refused(tmp_path: Path) -> None:
    written(tmp_path, GOOD)
    written(tmp_path, GOOD.replace("name: payments", "name: other"), "zz.yaml")
    with pytest.raises(OperatorError, match="zz.yaml: match: the same labels"):
        load_targets(tmp_path)


def test_a_missing_or_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="holds no"):
        load_targets(tmp_path)
    with pytest.raises(OperatorError, match="No such file"):
        load_targets(tmp_path / "missing")


def test_targets_may_be_given_without_files() -> None:
    assert FileTargets([]).all() == ()


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=True) | st.sampled_from(["", "x", "kind", "docker"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["", "kind", "name", "1"]), inner, max_size=2),
    max_leaves=3,
)


def places(node: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [here, *(place for key, value in inner for place in places(value, (*here, key)))]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_whatever_stands_in_a_place_the_file_is_read_or_the_mistake_is_told(tmp_path: Path, data: st.DataObject) -> None:
    document = YAML(typ="safe", pure=True).load(GOOD)
    *parents, last = data.draw(st.sampled_from(places(document)[1:]))
    node = document
    for part in parents:
        node = node[part]
    node[last] = data.draw(JUNK)
    out = io.StringIO()
    YAML().dump(document, out)
    file = written(tmp_path, out.getvalue())
    try:
        load_target(file)
    except OperatorError as error:
        assert f"{file}:" in str(error)
