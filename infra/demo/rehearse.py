"""Rehearsal: runs this release with a given configuration under the raised load, all on the loopback of one sandbox.

`python rehearse.py --config FILE`. Standard output is one JSON line of figures; what went wrong goes to standard error.
Exit code 0: green (p95 and share of errors within their limits), 1: red, 2: the rehearsal itself could not be done, 75: the
machine was too busy to tell red from green, try again.
"""

import argparse
import asyncio
import json
import socket
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections import Counter
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from load import Load, figures

HERE = Path(__file__).resolve().parent
WARM_UP_S, WARM_UP_RATE = 1.0, 40.0
FINISH_S = 1.0
"""How long requests may run on after the last one has started; a longer one counts as failed."""


TOO_BUSY = 75
HOPS = 8
"""A request waits for a turn on the processor about so often on its way through load generator, service and database."""


class CannotRehearse(Exception):
    """Neither green nor red: the service could not be brought to the point of being measured."""


def free_port() -> int:
    """A port that nobody listens on; inside a sandbox nobody else asks for one."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


async def start(options: argparse.Namespace, port: int) -> Process:
    """Starts service and database on ports of our own; returns when it is healthy."""
    command = ["-B", "-m", "payments", "--config", str(options.config.resolve())]
    command += ["--port", str(port), "--database-port", str(free_port())]
    command += ["--with-database", "--end-with-parent", "--query-ms", str(options.query_ms)]
    command += ["--release", options.release] if options.release else []
    service = await asyncio.create_subprocess_exec(sys.executable, *command, stdin=PIPE, stdout=PIPE, cwd=HERE)
    deadline = time.monotonic() + options.start_s
    while time.monotonic() < deadline and service.returncode is None:
        if await asyncio.to_thread(healthy, port):
            return service
        await asyncio.sleep(0.05)
    await stop(service)
    raise CannotRehearse("the service did not start with this configuration")


def healthy(port: int) -> dict[str, object]:
    """What /healthz says; empty when it does not answer."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2) as answer:
            health: dict[str, object] = json.load(answer)
            return health
    except (URLError, OSError, ValueError):
        return {}


async def stop(service: Process) -> None:
    """Ends it and its database."""
    if service.returncode is None:
        service.kill()
    await service.wait()


async def count_complaints(service: Process, counts: Counter[str]) -> None:
    """Reads the service's log to its end and counts the messages of warnings and errors."""
    assert service.stdout
    while line := await service.stdout.readline():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if entry.get("level") in ("warning", "error"):
            detail = entry.get("error") or entry.get("reason")
            message = entry["message"].split("\n")[0]
            counts[f"{message}: {detail}" if detail else message] += 1


async def notice_lateness(late: list[float]) -> None:
    """How much later than asked for this process gets its turn, again and again."""
    while True:
        begun = time.monotonic()
        await asyncio.sleep(0.01)
        late.append(time.monotonic() - begun - 0.01)


async def rehearse(options: argparse.Namespace) -> tuple[dict[str, float], Counter[str]]:
    """The figures of the raised load, and what the service complained about."""
    port, complaints = free_port(), Counter[str]()
    service = await start(options, port)
    listening = asyncio.ensure_future(count_complaints(service, complaints))
    try:
        load = Load("127.0.0.1", port, WARM_UP_RATE, options.refund_share)
        await load.run(WARM_UP_S)
        begin, load.rate = asyncio.get_running_loop().time(), options.rate
        late: list[float] = []
        noticing = asyncio.ensure_future(notice_lateness(late))
        await load.run(options.seconds)
        noticing.cancel()
        await load.finish(FINISH_S)
        health = await asyncio.to_thread(healthy, port)
    finally:
        await stop(service)
        await listening
    if not health:
        complaints["the service no longer answers"] += 1
    measured = figures(load.since(begin), options.seconds)
    pool_size = health.get("pool_size")
    lateness = round(sorted(late)[int(len(late) * 0.95)], 4) if late else 0.0
    return {**measured, "pool_size": float(pool_size) if isinstance(pool_size, int) else 0.0, "late_p95_s": lateness}, complaints


def reasons(measured: dict[str, float], options: argparse.Namespace) -> list[str]:
    """Why it is red; empty when it is green."""
    found = []
    if measured["p95_s"] > options.max_p95:
        found.append(f"p95 is {measured['p95_s']:.3f} s, the limit {options.max_p95:g} s")
    if measured["error_ratio"] > options.max_errors:
        found.append(f"{measured['error_ratio']:.1%} of the requests failed, the limit is {options.max_errors:.1%}")
    if not measured["requests"]:
        found.append("nothing was measured: no proof")
    if measured["rps"] < 0.7 * options.rate:
        found.append(f"only {measured['rps']:g} of {options.rate:g} requests a second could be sent: no proof")
    if not measured["pool_size"]:
        found.append("the service did not answer at the end")
    return found


def too_busy(measured: dict[str, float], options: argparse.Namespace) -> bool:
    """Is it slow, but no slower than waiting for the processor alone may make it?"""
    limit: float = options.max_p95
    return limit < measured["p95_s"] <= limit + HOPS * measured["late_p95_s"]


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, required=True, help="the configuration to try; its ports are not used")
    parser.add_argument("--release", help="default: the one that this image carries")
    parser.add_argument("--rate", type=float, default=140, help="requests per second")
    parser.add_argument("--seconds", type=float, default=3.5, help="length of the measured load")
    parser.add_argument("--refund-share", type=float, default=0.2)
    parser.add_argument("--query-ms", type=int, default=90, help="how long a query takes")
    parser.add_argument("--max-p95", type=float, default=0.2, help="seconds")
    parser.add_argument("--max-errors", type=float, default=0.01, help="share of the requests")
    parser.add_argument("--start-s", type=float, default=20, help="how long the service may take to start")
    return parser.parse_args()


def main() -> int:
    """The verdict as an exit code."""
    options = parse()
    try:
        measured, complaints = asyncio.run(rehearse(options))
    except (CannotRehearse, OSError) as error:
        print(f"rehearse: {error}", file=sys.stderr)
        return 2
    print(json.dumps(measured), flush=True)
    red = reasons(measured, options)
    for line in red:
        print(f"red: {line}", file=sys.stderr)
    if too_busy(measured, options):
        print(f"too busy to judge: every turn on the processor came up to {measured['late_p95_s']:g} s late", file=sys.stderr)
        return TOO_BUSY
    for message, count in complaints.most_common(5):
        print(f"log, {count} times: {message}", file=sys.stderr)
    return 1 if red else 0


if __name__ == "__main__":
    sys.exit(main())
