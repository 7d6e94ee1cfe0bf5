"""What must be so at the end of every flow."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autopatch.chassis.bus import connect
from autopatch.contract import events as ev
from autopatch.contract.catalogue import DEAD_LETTERS
from autopatch.contract.lifecycle import Incident, chain_faults, fold

if TYPE_CHECKING:
    from tests.flow.harness import Flow


async def check(it: "Flow") -> None:
    """Every log is whole and folds, nobody went beyond their permissions, nothing was buried, targets are as the log says.

    A server that died forgot whose requests were open and refuses their answers: then permissions are not looked at.
    """
    incidents = [await it.any_log.load(i) for i in await it.any_log.ids()]
    for incident in incidents:
        assert chain_faults(incident) == []
        assert fold(incident.id, incident.log) == incident
    for room in it.rooms.values():
        assert it.nats.deaths or room.desk.bus.violations == 0, f"{room.name} was refused by the server"
        assert room.name not in it.stacks or not room.task.done(), f"{room.name} ended"
    assert await buried(it) == 0, it.complaints.seen
    for name, service in it.world.services.items():
        _as_told(it, name, service.original, service.config.read_bytes(), [i for i in incidents if i.target == name])


def _as_told(it: "Flow", name: str, original: bytes, found: bytes, incidents: Sequence[Incident]) -> None:
    """One effect at most for each claim; and what was applied and not undone is what the file shows."""
    did = [line.split()[0] for line in it.hands.lines() if line.split()[1] == name]
    claims = sum(isinstance(s.envelope.data, ev.Applying) for i in incidents for s in i.log)
    assert did.count("apply") <= claims, did
    if did or not claims:
        assert did.count("apply") - did.count("undo") == int(found != original), did


async def buried(it: "Flow") -> int:
    """Number of dead letters."""
    bus = await connect(it.common.nats_url, "admin", nkey_folder=it.common.nkey_folder, budget_s=10)
    try:
        return int((await bus.js.stream_info(DEAD_LETTERS)).state.messages)
    finally:
        await bus.close()
