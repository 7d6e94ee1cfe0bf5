"""One job at the configured gateway: posted, followed over broken connections, cancelled when whoever asked for it stops."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from autopatch.cli.asking import Asking, Result, Tell
from autopatch.cli.client import Gateway
from autopatch.cli.errors import GatewayRefused
from autopatch.contract.code import RepairVerdict
from autopatch.contract.errors import Unavailable
from autopatch.contract.lifecycle import Incident, apply

UNDO_S = 10.0
"""A step that has begun is undone before a cancelled job ends."""
OPENING_S = 5.0
"""How long a job that is not on the log yet is looked for: what was sent may be on its way there."""
POLL_S = 0.2


def run(gateway: Gateway, asking: Asking, tell: Tell, note: Callable[[str], None]) -> Result:
    """Raises GatewayRefused, Unavailable. Ctrl-C and its like cancel the job."""
    body = asking.body()
    with _stoppable():
        incident = _incident(asking, body)
        try:
            gateway.ask("POST", "/repairs", body=body)
            _follow(gateway, incident, tell, note)
        except KeyboardInterrupt:
            return _cancelled(gateway, incident, asking)
        return _result(gateway, incident)


def _follow(gateway: Gateway, incident_id: str, tell: Tell, note: Callable[[str], None]) -> None:
    now = Incident(incident_id)
    for stored, _ in gateway.follow_on(0, incident_id, lambda reason: note(f"{reason}; trying again")):
        tell(stored)
        now = apply(now, stored)
        if now.terminal:
            return


def _cancelled(gateway: Gateway, incident: str, asking: Asking) -> Result:
    """The verdict after that; a job that had ended before keeps its own."""
    deadline = time.monotonic() + OPENING_S
    while not _cancel(gateway, incident):
        if time.monotonic() > deadline:
            return Result.unbegun(asking.snapshot.name)
        time.sleep(POLL_S)
    return _result(gateway, incident, UNDO_S)


def _cancel(gateway: Gateway, incident: str) -> bool:
    """False when there is no such job, or none yet."""
    try:
        gateway.ask("POST", f"/incidents/{incident}/cancel", body={"reason": "stopped by whoever asked for it"})
    except GatewayRefused as refused:
        return refused.status != 404
    return True


def _result(gateway: Gateway, incident: str, patience_s: float = 0) -> Result:
    deadline = time.monotonic() + patience_s
    while "verdict" not in (found := gateway.ask("GET", f"/repairs/{incident}")):
        if time.monotonic() > deadline:
            raise Unavailable("gateway", f"{incident} is being undone", tip=f"autopatch incidents watch {incident}")
        time.sleep(POLL_S)
    verdict = RepairVerdict.model_validate(found)
    return Result(verdict, gateway.data(f"/repairs/{incident}/diff") if verdict.verdict == "fixed" else b"")


def _incident(asking: Asking, body: dict[str, Any]) -> str:
    """Known before it is asked for, so that it can be cancelled however early."""
    from services.gateway.adapters.repairs.words import Ask

    return Ask.model_validate({**body, "archive": ""}).incident(asking.snapshot.tree)


@contextmanager
def _stoppable() -> Iterator[None]:
    """SIGTERM and SIGHUP stop as Ctrl-C does."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
