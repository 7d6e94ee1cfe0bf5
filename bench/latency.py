"""From webhook to `applying`, beside the raw cost of its appends in the same run: `python -m bench.latency [--json]`.

All seven rooms in one process with a real nats-server (fsync on every write), real HTTP, real embedded Qdrant (lexical);
Prometheus, target and rehearsal are scripted, and the rehearsal takes no time. A run ends when the server stored `applying`.
The floor is what the same messages take by themselves: same bytes, same compare-and-set, in a second stream of the same shape.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from autopatch.chassis import logs
from autopatch.chassis.bus import Bus, connect
from autopatch.contract import events as ev
from autopatch.contract.catalogue import INCIDENTS
from autopatch.contract.lifecycle import State, Stored
from tests.flow.harness import Flow, flow, told

BAR_S = 0.5
MANY = 50
"""Incidents, of which the percentiles are."""


async def one(it: Flow, name: str) -> tuple[float, list[Stored]]:
    """Seconds from the first byte of the webhook to `applying` being stored, and everything that was appended on the way."""
    began = time.time()
    answer = await it.alert(name)
    assert answer.status_code == 200, answer.text
    incident_id = next(i for i in await it.log.ids() if i.startswith(f"{name}-"))
    incident = await it.wait(State.RESOLVED, State.ESCALATED, State.CLOSED, incident_id=incident_id, timeout_s=60)
    stored = incident.last_stored(ev.Applying)
    assert stored, told(incident)
    it.world.quiet(name)  # what keeps firing is opened again, in the middle of the next one
    raw = await it.log._bus.js.get_msg(INCIDENTS, seq=stored.sequence, direct=True)  # noqa: SLF001
    assert raw.time
    return raw.time.timestamp() - began, [s for s in incident.log if s.sequence <= stored.sequence]


@asynccontextmanager
async def beside(it: Flow) -> AsyncIterator[Bus]:
    """A connection, and a stream with limits, replicas and storage as the incidents have, and subjects as long as theirs."""
    bus = await connect(it.common.nats_url, "admin", nkey_folder=it.common.nkey_folder)
    try:
        shape = (await bus.js.stream_info(INCIDENTS)).config
        await bus.js.add_stream(shape.evolve(name="BENCHMARK", subjects=["benchmark.*.*"]))
        yield bus
    finally:
        await bus.close()


async def raw_appends(bus: Bus, log: Sequence[Stored]) -> float:
    """Seconds that the same messages take as compare-and-set publishes, one after the other."""
    last, began = 0, time.perf_counter()
    for stored in log:
        envelope, subject = stored.envelope, f"benchmark.{stored.envelope.incident_id}"
        last = await bus.publish(f"{subject}.{envelope.event}", envelope.encode(), {
            "Nats-Msg-Id": envelope.event_id, "Nats-Expected-Last-Subject-Sequence": str(last),
            "Nats-Expected-Last-Subject-Sequence-Subject": f"{subject}.*", "traceparent": stored.headers["traceparent"],
        })
    return time.perf_counter() - began


async def measure(incidents: int = MANY) -> dict[str, float]:
    """Percentiles in seconds, and the ratio of the medians."""
    names = [f"service-{number:03}" for number in range(incidents)]
    latencies: list[float] = []
    floors: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        async with flow(Path(folder), names) as it, beside(it) as bus:
            for number, name in enumerate(names):
                seconds, log = await one(it, name)
                latencies.append(seconds)
                floors.append(await raw_appends(bus, log))
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
    parser.add_argument("--incidents", type=int, default=MANY)
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
