"""The dashboard and its provisioning, read as Grafana would read them. No Grafana is started."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
from payments.metrics import Metrics
from prometheus_client import REGISTRY
from ruamel.yaml import YAML

from autopatch.chassis import metrics as _  # noqa: F401  registers them

GRAFANA = Path(__file__).parents[1]
DASHBOARDS = sorted((GRAFANA / "dashboards").glob("*.json"))
VARIABLES = {"$__rate_interval": "1m", "$__range": "1h"}


def dashboard(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def queries() -> Iterator[Any]:
    for file in DASHBOARDS:
        for panel in dashboard(file)["panels"]:
            for target in panel["targets"]:
                yield pytest.param(target["expr"], id=f"{panel['title']} {target['refId']}")


def known() -> set[str]:
    """Names of every series that AutoPatch and the demo service can have."""
    families = [*REGISTRY.collect(), *Metrics("1").registry.collect()]
    assert {"autopatch_incidents", "autopatch_stage_seconds"} <= {f.name for f in families}
    endings = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
    return {f.name + ending for f in families for ending in endings.get(f.type, ("",))}


@pytest.mark.parametrize("expr", list(queries()))
def test_every_query_parses_and_asks_for_metrics_that_exist(expr: str) -> None:
    for variable, value in VARIABLES.items():
        expr = expr.replace(variable, value)
    promql_parser.parse(expr)
    asked = set(re.findall(r"\b(?:autopatch|payments)_[a-z_]+", expr))
    assert asked and asked <= known()


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda f: f.stem)
def test_a_dashboard_can_be_provisioned_beside_any_data_source(file: Path) -> None:
    board = dashboard(file)
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,40}", board["uid"])
    assert "id" not in board
    assert [v["type"] for v in board["templating"]["list"] if v["name"] == "datasource"] == ["datasource"]
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids)) > 0
    for panel in board["panels"]:
        sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
        assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in sources)
        assert panel["description"]


def test_no_panel_lies_upon_another() -> None:
    for file in DASHBOARDS:
        taken: set[tuple[int, int]] = set()
        for panel in dashboard(file)["panels"]:
            at = panel["gridPos"]
            cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            assert not cells & taken and at["x"] + at["w"] <= 24
            taken |= cells


def test_the_provisioning_names_the_folder_where_the_dashboards_are_mounted() -> None:
    yaml = YAML(typ="safe")
    provider = yaml.load(GRAFANA / "provisioning/dashboards/autopatch.yml")["providers"][0]
    assert f"`{provider['options']['path']}`" in (GRAFANA / "README.md").read_text()
    source = yaml.load(GRAFANA / "provisioning/datasources/prometheus.yml")["datasources"][0]
    assert (source["type"], source["access"]) == ("prometheus", "proxy")
