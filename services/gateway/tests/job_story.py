"""How a job goes, event by event: one line that is wrong."""

import base64
from typing import Any

from autopatch.contract import events as ev
from autopatch.contract.actions import PatchCode
from autopatch.contract.code import TestCase, TestTable
from autopatch.contract.evidence import Cause, ModelUse, Rehearsal, RehearsalRun, TargetState
from autopatch.contract.lifecycle import Incident
from autopatch.contract.model import digest
from autopatch.contract.plan import Basis, Plan, Precondition, Step, StepResult, SuccessCheck
from autopatch.repair.tree import Files, write_archive
from services.gateway.tests.fakes import BEGIN, FakeChassis

FILES = Files({"calc.py": b"def double(x):\n    return x + x + 1\n", "test_calc.py": b"def test_two(): ...\n"})
DIFF = b"--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,2 @@\n def double(x):\n-    return x + x + 1\n+    return x + x  # \xe9\n"
OFF = ModelUse(mode="off", note="a template does it")
BEFORE = TestTable(passed=3, failed=1, failing=(TestCase(id="test_calc.py::test_two", outcome="failed", message="5 != 4"),))
AFTER = TestTable(passed=4)


def asked(files: Files = FILES, **other: Any) -> dict[str, Any]:
    """The body of a request."""
    archive = base64.b64encode(write_archive(files)).decode()
    return {"repository": "calc", "archive": archive, "command": ["pytest", "-q"], **other}


def plan(tree: str, diff: bytes) -> Plan:
    step = Step(action=PatchCode(diff=digest(diff), base=tree, files=("calc.py",)), precondition=Precondition())
    return Plan(
        target="calc", summary="drop the 1", cause="defect", steps=(step,),
        success=SuccessCheck(signal="tests", settle_s=0, soak_s=1),
        basis=Basis(kind="template", ref="drop-term", why="its tests pass"),
    )


def reproduced() -> ev.Reproduced:
    return ev.Reproduced(signal="tests", checks=(), tests=BEFORE)


async def fixed(chassis: FakeChassis, incident_id: str, diff: bytes = DIFF) -> Incident:
    """From opened to the end."""
    await applied(chassis, incident_id, diff)
    return await told(chassis, incident_id, ("validator", ev.Recovered(tests=AFTER)))


async def undone(chassis: FakeChassis, incident_id: str) -> Incident:
    """What the executor does of a job that was cancelled while its fix was judged."""
    return await told(
        chassis, incident_id, ("executor", ev.RollingBack(reason="cancelled")), ("executor", ev.RolledBack(results=()))
    )


async def applied(chassis: FakeChassis, incident_id: str, diff: bytes = DIFF) -> Incident:
    """From opened to where the fix is judged."""
    tree = (await chassis.log.load(incident_id)).opened.job.tree
    made = plan(tree, diff)
    await chassis.blobs.put(diff)
    runs = (
        RehearsalRun(label="unchanged", outcome="red", exit_code=1, seconds=1, runtime="runsc"),
        RehearsalRun(label="changed", outcome="green", exit_code=0, seconds=1, runtime="runsc"),
    )
    state = TargetState(target="calc", at=BEGIN, running=False, release=tree)
    cause = Cause(id="defect", summary="double adds 1", confidence=0.9, cites=())
    return await told(
        chassis, incident_id,
        ("validator", reproduced()),
        ("diagnosis", ev.Diagnosed(causes=(cause,), evidence=(), state=state, signature="s", model=OFF)),
        ("planner", ev.Planned(plan=made, plan_hash=made.hash, model=OFF)),
        ("executor", ev.Rehearsed(plan_hash=made.hash, rehearsal=Rehearsal(runs=runs, passed=True))),
        ("executor", ev.Applying(plan_hash=made.hash, undo=(), rung="auto", rule="job", rehearsed=True)),
        ("executor", ev.Applied(plan_hash=made.hash, results=(StepResult(step=0, done=True, detail="handed over"),), at=BEGIN)),
    )


async def told(chassis: FakeChassis, incident_id: str, *steps: tuple[str, ev.Event]) -> Incident:
    """What each room says, a second apart."""
    for room, event in steps:
        chassis.clock.pass_s(1)
        chassis.log.say(incident_id, event, by=room)
    ended: Incident = await chassis.log.load(incident_id)
    return ended
