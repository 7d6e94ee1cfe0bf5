"""The alerts on a real Prometheus (every version that is here) and a real Alertmanager, from the templates that the lab fills."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from string import Template
from typing import Any
from urllib.request import urlopen

import pytest

INFRA = Path(__file__).resolve().parents[2]
PLACES = f"{INFRA.parent / '.cache/bin'}:{os.environ['PATH']}"


def programs() -> dict[str, str]:
    """Every Prometheus, the one of the path and the one of the cache, and an Alertmanager."""
    found = {"prometheus": shutil.which("prometheus")}
    found["prometheus (cache)"] = shutil.which("prometheus", path=PLACES.split(":")[0])
    found["alertmanager"] = shutil.which("prometheus-alertmanager", path=PLACES) or shutil.which("alertmanager", path=PLACES)
    return {name: path for name, path in found.items() if path}


def until(what: Callable[[], Any], within_s: float) -> Any:
    """The first true answer; fails when there is none in time."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            if answer := what():
                return answer
        except OSError:
            pass
        time.sleep(0.2)
    raise AssertionError(f"not within {within_s} s: {what.__doc__ or what}")


def get(url: str) -> Any:
    with urlopen(url, timeout=5) as answer:
        return json.load(answer)


class Hook(BaseHTTPRequestHandler):
    """Keeps what the Alertmanager posts."""

    seen: list[tuple[str, dict[str, Any]]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.seen.append((self.headers["Authorization"], body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.skipif(not {"alertmanager"} <= programs().keys() or len(programs()) < 2, reason="needs prometheus and alertmanager")
def test_the_alert_fires_reaches_the_webhook_and_clears_after_the_fix(start: Any, tmp_path: Path, ports: Any) -> None:
    Hook.seen = []
    hook = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=hook.serve_forever, daemon=True).start()
    service, begun = start(), []
    (alertmanager, cluster, *prometheus_ports) = ports(4)
    (tmp_path / "token").write_text("secret-of-the-hook")
    rate = tmp_path / "rate"
    rate.write_text("60")

    def run(*command: object) -> None:
        begun.append(subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def filled(template: str, name: str, **values: object) -> Path:
        path = tmp_path / name
        path.write_text(Template((INFRA / template).read_text()).substitute(values))
        return path

    try:
        webhook = f"http://127.0.0.1:{hook.server_port}/hook"
        config = filled("alertmanager/alertmanager.yml.tmpl", "am.yml", WEBHOOK=webhook, TOKEN_FILE=tmp_path / "token")
        run(
            programs()["alertmanager"], f"--config.file={config}", f"--storage.path={tmp_path}/am", "--cluster.listen-address=",
            f"--web.listen-address=127.0.0.1:{alertmanager}",
        )
        apis = []
        for name, port in zip((n for n in programs() if n.startswith("prometheus")), prometheus_ports, strict=False):
            config = filled(
                "prometheus/prometheus.yml.tmpl", f"{port}.yml", RULES=INFRA / "prometheus", PAYMENTS=f"127.0.0.1:{service.port}",
                AUTOPATCH="", ALERTMANAGER=f"127.0.0.1:{alertmanager}",
            )
            run(
                programs()[name], f"--config.file={config}", f"--storage.tsdb.path={tmp_path}/{port}",
                f"--web.listen-address=127.0.0.1:{port}",
            )
            apis.append(f"http://127.0.0.1:{port}/api/v1")
        run(
            sys.executable, INFRA / "demo/load.py", "--url", f"http://127.0.0.1:{service.port}", "--rate-file", rate,
            "--report", tmp_path / "report", "--seconds", 90,
        )

        def alerts(api: str) -> set[str]:
            return {a["labels"]["alertname"] for a in get(f"{api}/alerts")["data"]["alerts"] if a["state"] == "firing"}

        def p95(api: str) -> float:
            query = "histogram_quantile(0.95,sum(rate(payments_request_duration_seconds_bucket[10s]))by(le))"
            found = get(f"{api}/query?query={query}")["data"]["result"]
            return float(found[0]["value"][1]) if found else 0.0

        until(lambda: all(0.05 < p95(api) < 0.2 for api in apis), 20)
        assert not any(alerts(api) for api in apis)
        rate.write_text("130")
        until(lambda: all("PaymentsSlow" in alerts(api) for api in apis), 25)
        authorization, body = until(lambda: Hook.seen and Hook.seen[0], 15)
        assert authorization == "Bearer secret-of-the-hook"
        assert body["status"] == "firing" and body["alerts"][0]["labels"]["alertname"] == "PaymentsSlow"
        assert {"service": "payments", "severity": "critical"}.items() <= body["alerts"][0]["labels"].items()
        assert all(p95(api) > 0.2 for api in apis)
        service.edit("pool_size", "20")
        assert service.reload()[0] == 200
        until(lambda: not any(alerts(api) for api in apis), 45)
        until(lambda: all(p95(api) < 0.2 for api in apis), 5)
        assert json.loads((tmp_path / "report").read_text())["rate"] == 130
    finally:
        for process in begun:
            process.terminate()
        for process in begun:
            process.wait(15)
        hook.shutdown()
        hook.server_close()
