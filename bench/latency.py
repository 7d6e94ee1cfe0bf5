"""From webhook to `applying`, beside the raw cost of its appends in the same run: `python -m bench.latency [--json]`.

All seven rooms in one process with a real nats-server (fsync on every write), real HTTP, real embedded Qdrant (lexical);
Prometheus, target and rehearsal are scripted, and the rehearsal takes no time. A run ends when the server stored `applying`.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from autopatch.chassis import logs
from autopatch.contract import events as ev
from autopatch.contract.catalogue import INCIDENTS
from autopatch.contract.lifecycle import Incident, State
from tests.flow.harness import Flow, flow

BAR_S = 0.5
APPENDS = ("opened", "reproduced", "diagnosed", "planned", "rehearsed", "applying")


async def one(it: Flow, name: str) -> float:
    """Seconds from the first byte of the webhook to `applying` being stored."""
    known = set(await it.log.ids())
    began = time.time()
    answer = await it.alert(name)
    assert answer.status_code == 200, answer.text
    incident_id = next(i for i in await it.log.ids() if i not in known)
    incident = await it.wait(State.RESOLVED, State.ESCALATED, State.CLOSED, incident_id=incident_id, timeout_s=60)
    stored = incident.last_stored(ev.Applying)
    assert stored, incident.state
    raw = await it.log._bus.js.get_msg(INCIDENTS, seq=stored.sequence, direct=True)  # noqa: SLF001
    assert raw.time
    return raw.time.timestamp() - began


async def raw_appends(it: Flow, model: Incident) -> float:
    """Seconds that the same bytes take as plain compare-and-set publishes, one after the other."""
    bus = it.rooms["gateway"].desk.bus
    bodies = [s.envelope.encode() for s in model.log if s.envelope.event in APPENDS]
    began = time.perf_counter()
    for number, body in enumerate(bodies):
        await bus.client.request("$KV.CONTROL.bench", body, timeout=5, headers={"Nats-Msg-Id": f"bench-{began}-{number}"})
    return time.perf_counter() - began


async def measure(incidents: int) -> dict[str, float]:
    """Percentiles in seconds, and the ratio of the medians."""
    names = [f"service-{number:03}" for number in range(incidents)]
    latencies: list[float] = []
    floors: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        async with flow(Path(folder), names) as it:
            for number, name in enumerate(names):
                latencies.append(await one(it, name))
                floors.append(await raw_appends(it, await it.log.load((await it.log.ids())[0])))
                print(f"\r{number + 1}/{incidents}", end="", file=sys.stderr)
    print(file=sys.stderr)
    cuts, floor_cuts = statistics.quantiles(latencies, n=20), statistics.quantiles(floors, n=20)
    return {
        "incidents": incidents, "p50_s": statistics.median(latencies), "p95_s": cuts[-1], "max_s": max(latencies),
        "floor_p50_s": statistics.median(floors), "floor_p95_s": floor_cuts[-1],
        "ratio_p50": statistics.median(latencies) / statistics.median(floors), "bar_p95_s": BAR_S,
    }


def main() -> int:
    """Exit code 0 when the bar is kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--incidents", type=int, default=50)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    logs.set_up("ERROR")
    found = asyncio.run(measure(options.incidents))
    if options.json:
        print(json.dumps(found))
    else:
        print("\n".join(f"{key:>12}  {value:.4g}" for key, value in found.items()))
    return 0 if found["p95_s"] <= BAR_S else 1


if __name__ == "__main__":
    raise SystemExit(main())
