"""A chassis in memory, a runtime that counts its effects, and a driver that delivers events as the runner does, and dies."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

from autopatch.chassis.chassis import Chassis, TargetRecord
from autopatch.chassis.room import Heard, RetryLater, Room
from autopatch.contract import events as ev
from autopatch.contract import requests as rq
from autopatch.contract.actions import PatchCode
from autopatch.contract.errors import Conflict, Unavailable
from autopatch.contract.evidence import BlobRef, Rehearsal
from autopatch.contract.lifecycle import Incident, is_current
from autopatch.contract.model import digest
from autopatch.contract.plan import Plan, Precondition
from autopatch.contract.target import Target
from autopatch.repair.tree import Files
from services.executor.adapters.delivery.checks import demand
from services.executor.adapters.delivery.hands import TargetHands
from services.executor.adapters.delivery.runtime import RuntimeState
from services.executor.adapters.defects.jobs import RunsTests
from services.executor.ports import Failed
from services.executor.service import build
from services.executor.settings import Settings
from services.executor.tests.given import NOW, add

POLICY = """rules:
- {name: all, actions: [set_config, reload, restart, rollback_release], targets: ['*']}
"""


class Died(BaseException):
    """Stands for the end of the process."""


@dataclass
class FakeRuntime:
    """In memory; every effect is written down. `broken`: what fails. `cut`: the next effect stops the target, and no more."""

    release: str = "r1"
    number: int = 1
    running: bool = True
    unwell: bool = False
    half_way: bool = False
    cut: str = ""
    effects: list[str] = field(default_factory=list)
    broken: dict[str, Exception] = field(default_factory=dict)
    started_at: datetime = NOW - timedelta(hours=5)
    now: Callable[[], datetime] = lambda: NOW
    dawdle: Callable[[], Any] | None = None

    async def inspect(self) -> RuntimeState:
        self._may("inspect")
        runs = self.running and not self.unwell
        return RuntimeState(runs, self.release, f"i{self.number}", self.started_at, None, self.half_way, self.unwell)

    async def reload(self, precondition: Precondition) -> str:
        await self._act("reload", precondition)
        return "reloaded"

    async def restart(self, precondition: Precondition) -> str:
        await self._act("restart", precondition)
        self._begin()
        return "restarted"

    async def run_release(self, release: str, precondition: Precondition) -> str:
        await self._act(f"release {release}", precondition)
        self.release = release
        self._begin()
        return f"runs {release}"

    async def logs(self, start: datetime, end: datetime, limit: int) -> Sequence[str]:
        return ("password=hunter2-secret", "in use: hunter2-secret", "plain")[-limit:]

    async def _act(self, what: str, precondition: Precondition) -> None:
        self._may(what)
        demand(precondition, await self.inspect())
        if self.dawdle:
            await self.dawdle()
        if self.cut:
            self.running, self.half_way, self.cut = False, self.cut == "half way", ""
            raise Unavailable("docker", "went away")
        self.effects.append(what)

    def _begin(self) -> None:
        self.number += 1
        self.running, self.half_way = True, False
        self.started_at = self.now()

    def _may(self, what: str) -> None:
        if what in self.broken:
            raise self.broken[what]


@dataclass
class FakePatches:
    """Releases with patches, by name only. `fault` is raised by every call."""

    built: list[str] = field(default_factory=list)
    fault: Exception | None = None

    async def compare(self, target: Target, release: str, tree: Files) -> None:
        self._may()

    async def check(self, target: Target, action: PatchCode, release: str) -> None:
        self._may()

    async def build(self, target: Target, action: PatchCode, release: str) -> str:
        self._may()
        self.built.append(f"{release}-{action.diff[:12]}")
        return self.built[-1]

    def _may(self) -> None:
        if self.fault:
            raise self.fault


class FakeClock:
    """Stands still unless a test moves it; sleeping moves it."""

    def __init__(self) -> None:
        self.at = NOW

    def now(self) -> datetime:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


class FakeLog:
    """Incidents by compare-and-set."""

    def __init__(self, clock: FakeClock, need: Callable[[str], None]) -> None:
        self.incidents: dict[str, Incident] = {}
        self._clock = clock
        self._need = need

    async def load(self, incident_id: str) -> Incident:
        self._need("nats")
        return self.incidents[incident_id]

    async def append(self, incident: Incident, events: Sequence[ev.Event], **_: Any) -> Incident:
        if self.incidents[incident.id].last_sequence != incident.last_sequence:
            raise Conflict("moved on")
        self.incidents[incident.id] = add(incident, *events, at=self._clock.now(), by="executor")
        return self.incidents[incident.id]

    async def ids(self) -> list[str]:
        return list(self.incidents)


class FakeRecords:
    """Target records by compare-and-set; `before_put` is called first."""

    def __init__(self, need: Callable[[str], None]) -> None:
        self.kept: dict[str, tuple[TargetRecord, int]] = {}
        self.before_put: Callable[[], None] = lambda: None
        self._need = need

    async def get(self, target: str) -> tuple[TargetRecord, int]:
        self._need("records")
        return self.kept.get(target, (TargetRecord(), 0))

    async def put(self, target: str, record: TargetRecord, revision: int) -> int:
        self._need("records")
        self.before_put()
        if self.kept.get(target, (None, 0))[1] != revision:
            raise Conflict("record")
        self.kept[target] = (record, revision + 1)
        return revision + 1


class FakeAsker:
    """Answers as scripted. Who measures green closes the incident, as the validator does."""

    def __init__(self, need: Callable[[str], None], log: FakeLog) -> None:
        self._log = log
        self.answers: dict[type, Any] = {rq.Recheck: rq.Rechecked(status="red"), rq.Silenced: rq.SilenceState(status="active")}
        self._need = need

    async def ask(self, request: rq.Request, reply: type) -> Any:
        self._need({rq.Recheck: "validator", rq.Silenced: "monitor"}[type(request)])
        answer = self.answers[type(request)]
        if isinstance(request, rq.Recheck) and isinstance(answer, rq.Rechecked) and answer.status == "green":
            await self._log.append(await self._log.load(request.incident_id), [ev.NotReproduced(reason=answer.reason)])
        return answer


class FakeTimers:
    """Only remembers."""

    def __init__(self) -> None:
        self.due: dict[tuple[str, str], datetime] = {}

    async def set(self, incident_id: str, purpose: str, at: datetime) -> None:
        self.due[incident_id, purpose] = at


class FakeControl:
    """The pause."""

    def __init__(self, need: Callable[[str], None]) -> None:
        self.why = ""
        self._need = need

    async def paused(self) -> str:
        self._need("control")
        return self.why


class FakeBlobs:
    """By digest."""

    def __init__(self, need: Callable[[str], None]) -> None:
        self.kept: dict[str, bytes] = {}
        self._need = need

    async def put(self, data: bytes) -> BlobRef:
        self._need("blobs")
        name = digest(data)
        self.kept[name] = data
        return BlobRef(name=name, size=len(data), digest=name)

    async def get(self, ref: BlobRef) -> bytes:
        self._need("blobs")
        return self.kept[ref.digest]


class FakeTargets:
    """By name."""

    def __init__(self, targets: Sequence[Target]) -> None:
        self.known = {target.name: target for target in targets}

    def get(self, name: str) -> Target | None:
        return self.known.get(name)

    def all(self) -> Sequence[Target]:
        return tuple(self.known.values())

    def claimed_by(self, labels: dict[str, str]) -> Sequence[Target]:
        return [target for target in self.known.values() if target.claims(labels)]


class FakeChassis:
    """The chassis' promises in memory. `missing` names what raises Unavailable."""

    def __init__(self, *targets: Target) -> None:
        self.name = "executor"
        self.missing: set[str] = set()
        self.clock = FakeClock()
        self.log = FakeLog(self.clock, self._need)
        self.records = FakeRecords(self._need)
        self.asker = FakeAsker(self._need, self.log)
        self.timers = FakeTimers()
        self.control = FakeControl(self._need)
        self.blobs = FakeBlobs(self._need)
        self.targets = FakeTargets(targets)

    def _need(self, what: str) -> None:
        if what in self.missing:
            raise Unavailable(what, "taken away")


@dataclass
class Scripted:
    """A rehearsal that answers as told."""

    answer: Rehearsal = field(default_factory=lambda: Rehearsal(passed=True, diff="the diff"))
    asked: list[Plan] = field(default_factory=list)
    error: Exception | None = None

    async def __call__(self, target: Target, plan: Plan, release: str) -> Rehearsal:
        self.asked.append(plan)
        if self.error:
            raise self.error
        return self.answer


class World:
    """One target with a real file and a counting runtime, and a room over them that can die and come back."""

    def __init__(self, folder: Path, target: Target, policy: str = "", workshop: RunsTests | None = None) -> None:
        self.workshop = workshop
        self.folder = folder
        self.target = target
        self.file = folder / "config.json"
        self.chassis = FakeChassis(target)
        self.runtime = FakeRuntime(now=self.chassis.clock.now)
        self.rehearsal = Scripted()
        self.patches = FakePatches()
        self.policy = folder / "policy.yaml"
        self.policy.write_text(policy or POLICY)
        self.dies_at: tuple[str, int] | None = None
        self.seen: dict[str, int] = {}
        self.room = self.born()

    def born(self) -> Room:
        """The process starts (again)."""
        settings = Settings(
            policy=str(self.policy), locks=str(self.folder / "locks"), docker_host=f"unix://{self.folder}/none.sock"
        )
        self.seen = {}
        self.room = build(
            settings, cast(Chassis, self.chassis), rehearse=self.rehearsal, hands=self.hands, workshop=self.workshop,
            code=self.patches, crash=self._crash,
        )
        return self.room

    def hands(self, target: Target) -> TargetHands:
        return TargetHands(target, self.runtime, self.folder / "locks", self.chassis.clock.now, self.patches)

    def _crash(self, point: str) -> None:
        self.seen[point] = self.seen.get(point, 0) + 1
        if self.dies_at == (point, self.seen[point]):
            self.dies_at = None
            raise Died(point)

    def incident(self, incident_id: str = "one") -> Incident:
        return self.chassis.log.incidents[incident_id]

    def has(self, incident: Incident) -> Incident:
        """This incident is on the log."""
        self.chassis.log.incidents[incident.id] = incident
        return incident

    def says(self, *events: ev.Event, incident_id: str = "one") -> Incident:
        """Somebody else appends."""
        return self.has(add(self.incident(incident_id), *events, at=self.chassis.clock.now()))

    async def deliver(self, kind: type[ev.Event] | None = None, incident_id: str = "one") -> list[ev.Event]:
        """The event that moved the incident (or the newest of a kind), as the runner would. What a handler raises is raised."""
        incident = self.incident(incident_id)
        stored = incident.last_stored(kind) if kind else next(s for s in incident.log if s.envelope.event_id == incident.moved_by)
        assert stored
        handler = self.room.handlers[type(stored.envelope.data)]
        while is_current(incident, stored.envelope.event_id):
            try:
                events = list(await handler(Heard(incident, stored)))
                if events:
                    await self.chassis.log.append(incident, events)
                return events
            except Conflict:
                incident = self.incident(incident_id)
        return []

    async def run(self, incident_id: str = "one") -> None:
        """Deliver until the executor has nothing more to say; after a death it is born again and told again."""
        while self._hears(incident_id):
            try:
                if not await self.deliver(incident_id=incident_id):
                    return
            except Died:
                self.born()

    def _hears(self, incident_id: str) -> bool:
        incident = self.incident(incident_id)
        event = next(s.envelope.data for s in incident.log if s.envelope.event_id == incident.moved_by)
        return type(event) in self.room.handlers

    def story(self, incident_id: str = "one") -> list[str]:
        """Names of all events since the plan."""
        return [s.envelope.event for s in self.incident(incident_id).since(ev.Planned)]


__all__ = ["Died", "FakeChassis", "FakeRuntime", "Failed", "RetryLater", "Scripted", "World"]
