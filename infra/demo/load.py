"""Open-loop load for the payments service: requests start when they are due, whether or not earlier ones have ended.

`python load.py --url http://127.0.0.1:3000 --rate 60 --rate-file FILE --report FILE --seconds 600`; standard library only.
A number written into the rate file changes the rate (requests per second) within 0.2 s. Prints one JSON line at the end.
"""

import argparse
import asyncio
import itertools
import json
import os
import random
import signal
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

CURRENCIES = ("EUR", "EUR", "EUR", "USD", "USD", "GBP", "JPY", "CHF", "CHF", "EUR")
DAYS = (1, 3, 130, 9, 20, 2, 60, 30, 5, 100, 200, 12, 40, 7, 0, 80)
"""Days between a payment and its refund, again and again: one of eight comes after four months."""
CLIENT_TIMEOUT_S = 10.0
MAX_IN_FLIGHT = 900
"""More would only run out of file descriptors; a request that is due beyond it counts as timed out."""


@dataclass(frozen=True)
class Sample:
    """One request. `seconds` runs from when it was due; `status` 0 means that no answer came."""

    due: float
    seconds: float
    status: int

    @property
    def failed(self) -> bool:
        """No answer, or a 5xx one."""
        return self.status == 0 or self.status >= 500


def p95(samples: list[Sample]) -> float:
    """The 95th percentile in seconds, nearest rank; 0.0 without samples."""
    ordered = sorted(s.seconds for s in samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))] if ordered else 0.0


def figures(samples: list[Sample], seconds: float) -> dict[str, float]:
    """Rate, p95 and share of failures of what came due within `seconds`."""
    failed = sum(s.failed for s in samples)
    return {
        "rps": round(len(samples) / seconds, 1) if seconds else 0.0,
        "p95_s": round(p95(samples), 4),
        "error_ratio": round(failed / len(samples), 4) if samples else 0.0,
        "requests": len(samples),
        "failed": failed,
    }


@dataclass
class Load:
    """Sends POST /payments and, for `refund_share` of the requests, POST /refunds."""

    host: str
    port: int
    rate: float
    refund_share: float = 0.2
    seed: int = 7
    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=200_000))
    _days: Iterator[int] = field(default_factory=lambda: itertools.cycle(DAYS))
    _idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = field(default_factory=list)
    _running: dict[asyncio.Task[None], float] = field(default_factory=dict)

    async def run(self, seconds: float, stop: asyncio.Event | None = None) -> None:
        """Starts requests for `seconds` or until `stop`; those under way keep running."""
        loop, dice = asyncio.get_running_loop(), random.Random(self.seed)
        end = loop.time() + seconds
        due = loop.time()
        while due < end and not (stop and stop.is_set()):
            if self.rate <= 0:
                await asyncio.sleep(0.1)
                due = loop.time()
                continue
            due += dice.expovariate(self.rate)
            while (ahead := min(due, end) - loop.time()) > 0 and not (stop and stop.is_set()):
                await asyncio.sleep(min(ahead, 0.2))
            if due < end:
                self._start(due, dice)

    async def finish(self, within_s: float) -> None:
        """Waits for what is under way; what is not done in time is cut off and counted with the time it has taken so far."""
        if self._running:
            await asyncio.wait(self._running, timeout=within_s)
        now = asyncio.get_running_loop().time()
        for task, due in list(self._running.items()):
            task.cancel()
            self.samples.append(Sample(due, now - due, 0))
        await asyncio.gather(*self._running, return_exceptions=True)
        while self._idle:
            self._idle.pop()[1].close()

    def since(self, moment: float) -> list[Sample]:
        """Ended requests that were due at or after `moment` (loop time)."""
        return [s for s in self.samples if s.due >= moment]

    def _start(self, due: float, dice: random.Random) -> None:
        path = "/refunds" if dice.random() < self.refund_share else "/payments"
        amount = dice.randint(100, 50_000)
        order = {"amount_cents": amount, "currency": dice.choice(CURRENCIES)}
        if path == "/refunds":
            order |= {"days": next(self._days), "instalments": 1 + amount % 3}
        if len(self._running) >= MAX_IN_FLIGHT:
            self.samples.append(Sample(due, CLIENT_TIMEOUT_S, 0))
            return
        task = asyncio.get_running_loop().create_task(self._one(due, path, json.dumps(order).encode()))
        self._running[task] = due
        task.add_done_callback(self._running.pop)

    async def _one(self, due: float, path: str, body: bytes) -> None:
        status = 0
        with suppress(OSError, EOFError, ValueError, asyncio.TimeoutError):
            status = await asyncio.wait_for(self._post(path, body), CLIENT_TIMEOUT_S)
        self.samples.append(Sample(due, asyncio.get_running_loop().time() - due, status))

    async def _post(self, path: str, body: bytes) -> int:
        reader, writer = await self._connection()
        try:
            kind = "Content-Type: application/json"
            head = (f"POST {path} HTTP/1.1", f"Host: {self.host}", kind, f"Content-Length: {len(body)}")
            writer.write("\r\n".join((*head, "", "")).encode() + body)
            answer = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            length = next(line for line in answer.split("\r\n") if line.startswith("content-length:"))
            await reader.readexactly(int(length.split(":")[1]))
        except BaseException:
            writer.close()
            raise
        self._idle.append((reader, writer))
        return int(answer.split(" ", 2)[1])

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof():
                return reader, writer
            writer.close()
        return await asyncio.open_connection(self.host, self.port)


async def _follow(load: Load, rate_file: Path | None, report: Path | None) -> None:
    """Takes the rate from the file, and writes the figures of the last five seconds once a second."""
    loop, reported = asyncio.get_running_loop(), 0.0
    while True:
        if rate_file:
            with suppress(OSError, ValueError):
                load.rate = max(0.0, min(1000.0, float(rate_file.read_text())))
        if report and loop.time() - reported >= 1:
            reported = loop.time()
            now = {"rate": load.rate, **figures(load.since(reported - 5), 5)}
            draft = report.with_suffix(".part")
            draft.write_text(json.dumps(now) + "\n")
            os.replace(draft, report)
        await asyncio.sleep(0.2)


async def drive(options: argparse.Namespace) -> dict[str, float]:
    """The whole run; its figures."""
    address = urlsplit(options.url)
    load = Load(address.hostname or "127.0.0.1", address.port or 80, options.rate, options.refund_share, options.seed)
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    start = loop.time()
    follower = asyncio.ensure_future(_follow(load, options.rate_file, options.report))
    await load.run(options.seconds, stop)
    seconds = loop.time() - start
    await load.finish(0.5 if stop.is_set() else CLIENT_TIMEOUT_S)
    follower.cancel()
    return figures(list(load.samples), seconds)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:3000")
    parser.add_argument("--rate", type=float, default=60, help="requests per second")
    parser.add_argument("--rate-file", type=Path, help="a file with a number; followed while the load runs")
    parser.add_argument("--report", type=Path, help="a file for the figures of the last five seconds")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--refund-share", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=7)
    print(json.dumps(asyncio.run(drive(parser.parse_args()))))


if __name__ == "__main__":
    main()
