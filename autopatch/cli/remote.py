"""One job at the configured gateway: posted, followed over broken connections, cancelled when whoever asked for it stops."""

import signal
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
    try:
        gateway.ask("POST", f"/incidents/{incident}/cancel", body={"reason": "stopped by whoever asked for it"})
    except GatewayRefused as refused:
        if refused.status == 404:
            return Result.unbegun(asking.snapshot.name)
    return _result(gateway, incident)


def _result(gateway: Gateway, incident: str) -> Result:
    found = gateway.ask("GET", f"/repairs/{incident}")
    if "verdict" not in found:
        raise Unavailable("gateway", f"{incident} is being undone", tip=f"autopatch incidents watch {incident}")
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
