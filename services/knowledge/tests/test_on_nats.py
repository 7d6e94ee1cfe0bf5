"""The room on a real nats-server and the real engine: heard, answered, and killed."""

import os
import signal
import subprocess
import sys
import time
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest

from autopatch.chassis.asking import BusAsker
from autopatch.chassis.bus import Bus
from autopatch.chassis.clock import SystemClock
from autopatch.chassis.log import EventLog
from autopatch.chassis.main import Blueprint, start
from autopatch.chassis.settings import Common
from autopatch.chassis.tests.conftest import bus, nats_server
from autopatch.chassis.tests.nats_server import NatsServer, until
from autopatch.chassis.stores import Blobs
from autopatch.contract import events as ev
from autopatch.contract.code import CodeJob
from autopatch.contract.errors import Unavailable
from autopatch.contract.lifecycle import Incident
from autopatch.contract.requests import Found, IndexCode, Indexed, Recall, Recalled, Search
from autopatch.repair.tree import write_archive
from services.knowledge.service import build
from services.knowledge.settings import Settings
from services.knowledge.tests.fakes import SIGNATURE, until_applied

__all__ = ["bus", "nats_server"]
RECALL = Recall(signature=SIGNATURE, target="payments", cause="pool_exhausted")
TARGET = """name: payments
match: {service: payments}
runtime: {kind: process, command: [sleep, "1"], pidfile: p.pid}
signals: {p95: {query: q, role: check, threshold: 1}}
prometheus: {url: "http://127.0.0.1:9"}
"""


def _common(folder: Path, url: str) -> Common:
    (folder / "targets").mkdir()
    (folder / "targets" / "payments.yaml").write_text(TARGET)
    return Common(nats_url=url, targets=str(folder / "targets"), ack_wait_s=2)


async def _ended(log: EventLog, name: str) -> None:
    incident = Incident(name)
    for event in [*until_applied(), ev.Recovered(comparisons=())]:
        incident = await log.append(incident, [event], by="test")


async def _recorded(log: EventLog, name: str) -> list[ev.LessonRecorded]:
    return [s.envelope.data for s in (await log.load(name)).log if isinstance(s.envelope.data, ev.LessonRecorded)]


async def test_a_recovery_on_the_log_is_recalled_over_the_bus(bus: Bus, nats_server: NatsServer, tmp_path: Path) -> None:
    given = {"folder": str(tmp_path / "q"), "embedder": "none", "runbooks": ""}
    log, asker = EventLog(bus, SystemClock()), BusAsker(bus)
    async with AsyncExitStack() as stack:
        await start(Blueprint("knowledge", Settings, build, given), _common(tmp_path, nats_server.url), stack)
        await until(lambda: _answers(asker))
        assert await asker.ask(RECALL, Recalled) == Recalled()
        await _ended(log, "payments-1")
        await until(lambda: _recorded(log, "payments-1"))
        recalled = await asker.ask(RECALL, Recalled)
        found = await asker.ask(Search(text="pool_size", kinds=("lesson", "incident")), Found)
    [recorded] = await _recorded(log, "payments-1")
    assert [lesson.id for lesson in recalled.lessons] == [recorded.lesson_id] and recorded.outcome == "recovered"
    assert {item.kind for item in found.items} == {"lesson", "incident"}


async def test_a_repository_in_the_object_store_is_indexed_and_searched(
    bus: Bus, nats_server: NatsServer, tmp_path: Path,
) -> None:
    given = {"folder": str(tmp_path / "q"), "embedder": "none", "runbooks": ""}
    snapshot = await Blobs(bus).put(write_archive({"pay.py": b"def refund(total):\n    return total\n"}))
    job = CodeJob(repository="shop", snapshot=snapshot, tree="t", command=("pytest",))
    asker, question = BusAsker(bus), Search(text="refund", kinds=("code",), target="shop")
    async with AsyncExitStack() as stack:
        await start(Blueprint("knowledge", Settings, build, given), _common(tmp_path, nats_server.url), stack)
        for changed in (1, 0):
            assert await asker.ask(IndexCode(job=job), Indexed) == Indexed(chunks=1, changed=changed)
        [found] = (await asker.ask(question, Found)).items
        with pytest.raises(Unavailable):
            lost = snapshot.model_copy(update={"name": "0" * 64, "digest": "0" * 64})
            await asker.ask(IndexCode(job=job.model_copy(update={"snapshot": lost})), Indexed)
    assert (found.id, found.title) == ("pay.py:1-2", "function refund")


async def test_killed_again_and_again_it_counts_every_recovery_once(bus: Bus, nats_server: NatsServer, tmp_path: Path) -> None:
    common = _common(tmp_path, nats_server.url)
    environment = {
        **os.environ,
        "AUTOPATCH_NATS_URL": common.nats_url,
        "AUTOPATCH_TARGETS": common.targets,
        "AUTOPATCH_ACK_WAIT_S": "2",
        "AUTOPATCH_KNOWLEDGE_FOLDER": str(tmp_path / "q"),
        "AUTOPATCH_KNOWLEDGE_EMBEDDER": "none",
        "AUTOPATCH_KNOWLEDGE_RUNBOOKS": "",
    }
    log, asker, names = EventLog(bus, SystemClock()), BusAsker(bus), [f"payments-{n}" for n in range(16)]
    for name in names:
        await _ended(log, name)
    for kills in range(3):
        with subprocess.Popen([sys.executable, "-m", "services.knowledge"], env=environment, stderr=subprocess.DEVNULL) as room:
            try:
                await until(lambda done=3 * kills + 2: _at_least(log, names, done), 30)
            finally:
                os.kill(room.pid, signal.SIGKILL)
    with subprocess.Popen([sys.executable, "-m", "services.knowledge"], env=environment, stderr=subprocess.DEVNULL) as room:
        try:
            began = time.monotonic()
            await until(lambda: _at_least(log, names, len(names)), 60)
            assert time.monotonic() - began < 60
            await until(lambda: _answers(asker), 30)
            [lesson] = (await asker.ask(RECALL, Recalled)).lessons
        finally:
            room.terminate()
    assert (lesson.recovered, lesson.failed) == (len(names), 0)
    assert [len(await _recorded(log, name)) for name in names] == [1] * len(names)


async def _answers(asker: BusAsker) -> bool:
    with suppress(Unavailable):
        return bool(await asker.ask(RECALL, Recalled))
    return False


async def _at_least(log: EventLog, names: list[str], count: int) -> bool:
    return sum([bool(await _recorded(log, name)) for name in names]) >= count
