"""A Prometheus that scrapes the demo service every second and sends its alerts on."""

from pathlib import Path

from autopatch.cli.lab.probes import LOOPBACK, answers_http, free_port
from autopatch.cli.lab.process import Server, on_free_port
from autopatch.cli.lab.programs import ROOT, at_least, find
from autopatch.cli.lab.templates import render

OLDEST = (2, 42, 0)
RULES = ROOT / "infra" / "prometheus"
NOWHERE = "127.0.0.1:9"


class Prometheus(Server):
    """`url` is its API."""

    def __init__(
        self, folder: Path, port: int, *, payments: str = NOWHERE, autopatch: str = NOWHERE, alertmanager: str = NOWHERE,
        rules: Path = RULES, config: Path | None = None, program: Path | None = None,
    ) -> None:
        config = config or render(
            "prometheus/prometheus.yml.tmpl", folder / "prometheus.yml", RULES=str(rules), PAYMENTS=payments, AUTOPATCH=autopatch,
            ALERTMANAGER=alertmanager,
        )
        self.url = f"http://{LOOPBACK}:{port}"
        command = [
            at_least(program or find("prometheus"), OLDEST), f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={LOOPBACK}:{port}", "--storage.tsdb.retention.time=2d", "--log.level=warn",
        ]
        ready = answers_http(f"{self.url}/-/ready")
        super().__init__("prometheus", command, log=folder / "prometheus.log", ready=ready, ports=[port])


def start(
    folder: Path, *, payments: str = NOWHERE, autopatch: str = NOWHERE, alertmanager: str = NOWHERE, rules: Path = RULES,
    config: Path | None = None, program: Path | None = None,
) -> Prometheus:
    """A running server whose files are all in `folder`. Raises Unavailable.

    `payments`, `autopatch` and `alertmanager` are host:port; `rules` a folder of *.rules.yml; or `config` is a whole
    configuration file of its own. `program` is another Prometheus than the one that is installed.
    """
    return on_free_port(lambda: Prometheus(
        folder, free_port(), payments=payments, autopatch=autopatch, alertmanager=alertmanager, rules=rules, config=config,
        program=program,
    ))
