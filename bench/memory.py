"""Idle memory of all rooms in one process, with the embedder loaded and without: `python -m bench.memory [--json]`.

Starts `autopatch up` with a nats-server of its own, waits until every room has been idle for a while, and reads VmRSS of that
process alone.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx2

BARS_MB = {"lexical": 300, "embedder": 900}
IDLE_S = 10


def measure(embedder: bool) -> float:
    """Megabytes (10^6 bytes) of resident memory."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "targets").mkdir()
        (folder / "runbooks").mkdir()
        example = (Path(__file__).parents[1] / "targets" / "payments.yaml").read_text()
        (folder / "targets" / "payments.yaml").write_text(example)
        environment = {
            **os.environ, "AUTOPATCH_STATE": f"{folder}/state", "AUTOPATCH_TARGETS": f"{folder}/targets",
            "AUTOPATCH_KNOWLEDGE_FOLDER": f"{folder}/knowledge", "AUTOPATCH_KNOWLEDGE_RUNBOOKS": f"{folder}/runbooks",
            "AUTOPATCH_GATEWAY_TOKENS_FILE": f"{folder}/tokens.yaml", "AUTOPATCH_LOG_LEVEL": "ERROR",
        }
        if not embedder:
            environment["AUTOPATCH_KNOWLEDGE_EMBEDDER"] = "none"
        process = subprocess.Popen([sys.executable, "-m", "autopatch", "up"], env=environment, stdout=subprocess.DEVNULL)
        try:
            rooms = _rooms(folder / "state" / "rooms.json", process)
            _load(rooms["knowledge"])
            time.sleep(IDLE_S)
            return _rss(process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(20)


def _rooms(path: Path, process: "subprocess.Popen[bytes]") -> dict[str, str]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        if path.exists():
            return dict(json.loads(path.read_text())["rooms"])
        time.sleep(0.2)
    raise SystemExit("the rooms did not start; run `autopatch up` to see why")


def _load(knowledge: str) -> None:
    """One search, so that whatever is loaded lazily is loaded."""
    answer = httpx2.get(f"{knowledge}/v1/knowledge/search", params={"q": "pool exhausted"}, timeout=60)
    answer.raise_for_status()


def _rss(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise SystemExit("no VmRSS: this needs Linux")


def main() -> int:
    """Exit code 0 when both bars are kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = {"lexical": measure(False), "embedder": measure(True)}
    if options.json:
        print(json.dumps({"mb": found, "bars_mb": BARS_MB}))
    else:
        for name, megabytes in found.items():
            print(f"{name:>10}  {megabytes:6.0f} MB  (bar {BARS_MB[name]})")
    return 0 if all(found[name] <= bar for name, bar in BARS_MB.items()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
