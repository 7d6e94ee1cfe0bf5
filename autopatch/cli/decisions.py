"""`autopatch approve`, `reject`, `cancel`, `reopen`: a person's word about one incident."""

import sys
from typing import Annotated, Any

import typer

from autopatch.cli import render
from autopatch.cli.client import Gateway, gateway
from autopatch.cli.errors import GatewayRefused
from autopatch.cli.incidents import Id, resolve
from autopatch.cli.output import Json, Output
from autopatch.contract.lifecycle import State
from services.gateway.desk import Outcome
from services.gateway.views import View


def approve(
    ctx: typer.Context, incident: Id,
    plan: Annotated[str, typer.Option(help="Only if the plan's hash begins so (8 digits at least).")] = "",
    comment: Annotated[str, typer.Option(help="Kept with the decision.")] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask again.")] = False, as_json: Json = False,
) -> None:
    """Show what would be done, then approve exactly that. A terminal is asked once more, unless --plan or --yes was given."""
    out, door = Output(as_json), gateway(ctx)
    with out.busy("asking"):
        found = door.get(f"/incidents/{resolve(door, incident)}", View)
    plan_hash = _pending(found, plan)
    if not as_json:
        _show(out, found)
    if not (as_json or plan or yes) and sys.stdin.isatty() and not typer.confirm("\nApprove this plan?"):
        raise GatewayRefused("not approved: you said no", tip=f"to refuse it for good: autopatch reject {found.id} --reason …")
    _tell(out, _send(out, door, found.id, "approve", {"plan_hash": plan_hash, "comment": comment}), plan_hash=plan_hash)


def reject(
    ctx: typer.Context, incident: Id, reason: Annotated[str, typer.Option(help="Why; knowledge learns from it.")],
    plan: Annotated[str, typer.Option(help="Only if the plan's hash begins so.")] = "", as_json: Json = False,
) -> None:
    """Say no to the plan that waits; the incident is escalated."""
    out, door = Output(as_json), gateway(ctx)
    with out.busy("asking"):
        found = door.get(f"/incidents/{resolve(door, incident)}", View)
    plan_hash = _pending(found, plan)
    _tell(out, _send(out, door, found.id, "reject", {"plan_hash": plan_hash, "reason": reason}), plan_hash=plan_hash)


def cancel(ctx: typer.Context, incident: Id, reason: Annotated[str, typer.Option()] = "", as_json: Json = False) -> None:
    """Stop an incident. A step that is under way ends first, then everything is taken back."""
    out, door = Output(as_json), gateway(ctx)
    _tell(out, _send(out, door, resolve(door, incident), "cancel", {"reason": reason}))


def reopen(ctx: typer.Context, incident: Id, reason: Annotated[str, typer.Option()] = "", as_json: Json = False) -> None:
    """Let an incident that ended without a recovery begin again."""
    out, door = Output(as_json), gateway(ctx)
    _tell(out, _send(out, door, resolve(door, incident), "reopen", {"reason": reason}))


def _pending(found: View, wanted: str) -> str:
    """The hash of the plan that was asked about. Raises GatewayRefused when it is not the wanted one."""
    if found.approval is None:
        reason = f"no decision is asked for: the incident is {found.state}"
        raise GatewayRefused(reason, tip=f"autopatch incidents show {found.id}")
    waiting = found.approval.plan_hash
    if waiting != found.plan_hash:
        raise GatewayRefused("the plan that was asked about is no longer the newest", tip=f"autopatch incidents watch {found.id}")
    if wanted and (len(wanted) < 8 or not waiting.startswith(wanted)):
        raise GatewayRefused(f"the plan that waits is {waiting[:12]}, not that one", tip="look at it again, then decide")
    return waiting


def _show(out: Output, found: View) -> None:
    assert found.plan and found.approval
    cause = found.causes[0].summary if found.causes else "no cause"
    out.say((f"{found.title} on {found.target}: {cause}", "bold"))
    render.plan(out, found, found.plan)
    if found.state is State.AWAITING:
        out.say(f"\n{found.approval.why}; {render.expiry(found.approval.expires_at)}")


def _send(out: Output, door: Gateway, incident: str, deed: str, body: dict[str, Any]) -> Outcome:
    with out.busy(deed):
        return Outcome.model_validate(door.ask("POST", f"/incidents/{incident}/{deed}", body=body))


def _tell(out: Output, outcome: Outcome, **more: str) -> None:
    if out.json:
        out.data({**outcome.model_dump(mode="json"), **more})
        return
    out.say("\nSaid before, nothing added. " if outcome.already else "\nRecorded. ", outcome.headline)
