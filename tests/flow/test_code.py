"""A code fault of a running service through all seven rooms: from its alert to a patch that runs, a branch, and the way back."""

import os
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from autopatch.contract import events as ev
from autopatch.contract.actions import PatchCode, RollbackRelease
from autopatch.contract.lifecycle import Incident, State
from autopatch.contract.plan import Precondition
from autopatch.contract.target import Target
from services.executor.adapters.delivery.checks import demand
from services.executor.adapters.delivery.hands import TargetHands
from services.executor.adapters.delivery.runtime import RuntimeState
from services.executor.tests.fakes import FakePatches
from tests.flow.harness import Flow, flow, names
from tests.flow.sandbox import FIXED, SOURCE, SUITE, TESTS, Scripted, ScriptedSandbox
from tests.flow.world import GREEN

RUNTIME = "{{kind: docker, container: till, image: till, releases: ['1', '2'], source: /app}}"
RUNBOOK = """---
alert: Slow
service: any
causes: [pool_exhausted, bad_release, config_change]
patch_code:
  tests: {test_till.py: attached/test_till.py}
---
# The till adds up wrongly
"""
SILENT = "---\nalert: Full\nservice: any\ncauses: [disk_full]\n---\n# The disk is full\n"
SAYS = '{"level": "error", "message": "could not acquire a connection from the pool within 5s"}'
RAISES = """Traceback (most recent call last):
  File "/app/till.py", line 2, in total
    return price * tip
ValueError: a total below its price"""
POLICY = """rules:
  - {name: code, actions: [patch_code], targets: [payments], two_persons: false, max_per_hour: 100}
  - {name: other, actions: [set_config, reload, restart, rollback_release], targets: ['*']}
"""
HEALED = ["opened", "reproduced", "diagnosed", "planned", "rehearsed", "applying", "applied", "recovered"]


@dataclass
class Container:
    """In memory. The service is well on a patched release, if `mends`."""

    folder: Path
    mends: bool = True
    says: str = SAYS
    release: str = "1"
    started: int = 1
    ran: list[str] = field(default_factory=list)
    flow: Flow | None = None

    def __post_init__(self) -> None:
        self.patches = FakePatches()
        self.repository = self.folder / "repository"

    def __call__(self, target: Target) -> TargetHands:
        return TargetHands(target, self, self.folder / "locks", lambda: datetime.now(UTC), self.patches)

    async def inspect(self) -> RuntimeState:
        return RuntimeState(True, self.release, f"i{self.started}", datetime(2026, 1, 1, tzinfo=UTC))

    async def run_release(self, release: str, precondition: Precondition) -> str:
        demand(precondition, await self.inspect())
        assert self.flow
        self.release, self.started = release, self.started + 1
        self.ran.append(release)
        self.flow.world.services["payments"].forced = GREEN if self.mends and "-" in release else None
        return f"release {release} runs"

    async def reload(self, precondition: Precondition) -> str:
        raise AssertionError("nothing is to be reloaded")

    async def restart(self, precondition: Precondition) -> str:
        raise AssertionError("nothing is to be restarted")

    async def logs(self, start: datetime, end: datetime, limit: int) -> Sequence[str]:
        return self.says.splitlines() * 20

    def git(self, *arguments: str) -> str:
        own = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
        command = ["git", "-c", "user.name=Ann", "-c", "user.email=ann@example.org", *arguments]
        return subprocess.run(command, cwd=self.repository, env=own, capture_output=True, text=True, check=True).stdout.strip()

    def branches(self) -> list[str]:
        return self.git("for-each-ref", "--format=%(refname:short)", "refs/heads/autopatch").split()


@asynccontextmanager
async def till(
    folder: Path, *, rung: str = "auto", mends: bool = True, says: str = SAYS, runbook: str = RUNBOOK, own: bytes = b"",
    suite: Sequence[Scripted] = SUITE,
) -> AsyncIterator[tuple[Flow, Container]]:
    """A service whose source adds up wrongly. `own` are tests in its repository."""
    container = Container(folder, mends, says)
    container.repository.mkdir()
    (container.repository / "till.py").write_bytes(SOURCE)
    if own:
        (container.repository / "test_till.py").write_bytes(own)
    container.git("init", "-q", "-b", "main")
    container.git("add", ".")
    container.git("commit", "-q", "-m", "begin")
    (folder / "policy.yaml").write_text(POLICY)
    (folder / "runbooks" / "attached").mkdir(parents=True)
    (folder / "runbooks" / "attached" / "test_till.py").write_bytes(TESTS)
    world = {
        "runtime": RUNTIME, "runbook": runbook, "more": f"repository: {container.repository}\ntests: [pytest, -q]",
    }
    async with flow(
        folder, rung=f"approve, actions: {{patch_code: {rung}}}", world=world, sandbox=ScriptedSandbox(suite),
        adapters={"executor": {"hands": container, "code": container.patches}},
    ) as it:
        container.flow = it
        os.utime(it.world.services["payments"].config, (1, 1))  # it was not changed right before
        await it.alert("payments")
        yield it, container


def patch_of(incident: Incident) -> PatchCode:
    planned = incident.last(ev.Planned)
    assert planned and planned.plan.steps[0].undo == RollbackRelease(release="1")
    action = planned.plan.steps[0].action
    assert isinstance(action, PatchCode)
    return action


async def test_a_code_fault_is_healed_from_its_alert_and_offered_as_a_branch(tmp_path: Path) -> None:
    async with till(tmp_path) as (it, container):
        incident = await it.wait(State.RESOLVED)
        assert names(incident) == HEALED
        assert container.ran == [f"1-{patch_of(incident).diff[:12]}"]
        [branch] = container.branches()
        assert branch == f"autopatch/{incident.id}"
        assert container.git("show", f"{branch}:till.py").encode() + b"\n" == FIXED
        assert container.git("show", f"{branch}:test_till.py").encode() + b"\n" == TESTS
        trailers = container.git("log", "-1", "--format=%(trailers)", branch)
        shown = (await it.person("GET", f"/v1/incidents/{incident.id}")).json()
        assert f"Incident: {incident.id}" in trailers and f"Trace: {shown['trace_id']}" in trailers
        assert "+    return price + tip" in shown["diff"] and branch in str(shown["stages"])
        assert container.git("status", "--porcelain") == ""
        told = {span.name for span in it.spans.get_finished_spans()}
        assert {"patch the code", "baseline of the source", "collect coverage", "find a fix", "offer a branch"} <= told


async def test_a_patch_that_does_not_help_is_rolled_back_to_the_old_release_and_leaves_no_branch(tmp_path: Path) -> None:
    async with till(tmp_path, mends=False) as (it, container):
        incident = await it.until(lambda i: "rolled_back" in names(i), "rolled back")
        assert names(incident)[:11] == [*HEALED[:7], "not_recovered", "rolling_back", "rolled_back"][:11]
        incident = await it.wait(State.ESCALATED)
        first = container.ran[0]
        assert container.ran[:2] == [first, "1"] and container.release == "1" and container.branches() == []
        tried = [release for release in container.ran if release != "1"]
        assert len(set(tried)) == len(tried), "a patch was tried twice"


async def test_in_approve_mode_nothing_runs_and_no_branch_is_made_until_a_person_says_so(tmp_path: Path) -> None:
    async with till(tmp_path, rung="approve") as (it, container):
        incident = await it.wait(State.AWAITING)
        assert (container.ran, container.branches(), container.patches.built) == ([], [], [])
        assert (await it.say(incident, "approve")).is_success
        incident = await it.wait(State.RESOLVED)
        assert len(container.ran) == 1 and container.branches() == [f"autopatch/{incident.id}"]


async def test_a_release_that_is_deployed_meanwhile_is_not_overwritten_by_the_patch_of_the_old_one(tmp_path: Path) -> None:
    async with till(tmp_path, rung="approve") as (it, container):
        incident = await it.wait(State.AWAITING)
        container.release, container.started = "2", 7
        await it.say(incident, "approve")
        incident = await it.until(lambda i: "stale" in names(i), "stale")
        assert (container.ran, container.branches(), container.release) == ([], [], "2")


async def test_without_a_runbook_a_traceback_leads_to_the_code_and_its_own_red_tests_to_the_patch(tmp_path: Path) -> None:
    async with till(tmp_path, says=RAISES, runbook=SILENT, own=TESTS) as (it, container):
        incident = await it.wait(State.RESOLVED)
        assert names(incident) == HEALED and container.ran == [f"1-{patch_of(incident).diff[:12]}"]
        diagnosed = incident.last(ev.Diagnosed)
        assert diagnosed and diagnosed.causes[0].id == "code_fault"
        seen = {item.id: item.summary for item in diagnosed.evidence}
        assert "till.py:2 in total" in seen[diagnosed.causes[0].cites[0]]
        assert container.git("diff", "--name-only", f"main..autopatch/{incident.id}") == "till.py"


async def test_while_its_own_tests_are_green_a_traceback_changes_nothing_and_a_person_is_told_the_place(tmp_path: Path) -> None:
    async with till(tmp_path, says=RAISES, runbook=SILENT, own=TESTS, suite=SUITE[1:]) as (it, container):
        incident = await it.wait(State.ESCALATED)
        assert (container.ran, container.branches(), container.patches.built) == ([], [], [])
        told = incident.last(ev.Escalated)
        assert told and "till.py:2 in total" in told.reason and "A runbook with patch_code" in told.reason
