"""`autopatch hold`, `pause`, `resume`, `targets`: what may be touched at all."""

from pathlib import Path
from typing import Annotated

import typer

from autopatch.chassis.targets import load_target, load_targets
from autopatch.cli.client import gateway
from autopatch.cli.output import Json, Output, checked, group
from services.gateway.desk import PauseState, TargetView

targets = group("List targets, check their files.")
Why = Annotated[str, typer.Option("--reason", help="Shown to everybody who wonders.")]


def hold(
    ctx: typer.Context, target: Annotated[str, typer.Argument()], reason: Why = "",
    release: Annotated[bool, typer.Option("--release", help="End the hold.")] = False, as_json: Json = False,
) -> None:
    """From now on nothing is applied to this target; incidents wait. What is being applied or undone ends first."""
    out, door = Output(as_json), gateway(ctx)
    path = f"/targets/{target}/hold"
    with out.busy("asking"):
        answer = door.ask("DELETE", path) if release else door.ask("POST", path, body={"reason": reason})
    found = TargetView.model_validate(answer)
    if as_json:
        out.data(answer)
    elif found.held_by:
        out.say(f"{found.name} is held by {found.held_by}" + (f": {found.hold_reason}" if found.hold_reason else ""))
    else:
        out.say(f"{found.name} is not held")


def pause(ctx: typer.Context, reason: Why = "", as_json: Json = False) -> None:
    """The kill switch: nothing is applied anywhere until `autopatch resume`. Rollbacks still happen."""
    _switch(ctx, "POST", {"reason": reason}, as_json)


def resume(ctx: typer.Context, as_json: Json = False) -> None:
    """End the pause."""
    _switch(ctx, "DELETE", None, as_json)


@targets.command("list")
def list_command(ctx: typer.Context, as_json: Json = False) -> None:
    """The targets that the gateway knows."""
    out, door = Output(as_json), gateway(ctx)
    with out.busy("asking"):
        answer = door.ask("GET", "/targets")
    if as_json:
        out.data(answer)
        return
    out.table(("TARGET", "AUTONOMY", "APPROVERS", "HELD BY", "ACTING", "OPEN INCIDENT"), [
        (t.name, _rungs(t), ", ".join(t.approvers) or "any", t.held_by, t.holder, t.open_incident)
        for t in map(TargetView.model_validate, answer)
    ])


def _rungs(target: TargetView) -> str:
    """The rung of what is not named, then each kind of action that has another one."""
    own = [f"{kind}: {rung}" for kind, rung in sorted(target.actions.items()) if rung != target.autonomy]
    return ", ".join([f"{target.autonomy}{' unless named' if own else ''}", *own])


@targets.command("check")
def check_command(path: Annotated[Path, typer.Argument(metavar="PATH")], as_json: Json = False) -> None:
    """Read a target file, or each of a folder and all of them together, and name every mistake by file, line and field."""
    out = Output(as_json)
    found = checked(out, path, lambda: (load_target(path),) if path.is_file() else load_targets(path).all())
    if as_json:
        out.data({"ok": True, "targets": [t.name for t in found]})
    else:
        out.say(f"ok: {', '.join(t.name for t in found)}")


def _switch(ctx: typer.Context, method: str, body: object, as_json: bool) -> None:
    out, door = Output(as_json), gateway(ctx)
    with out.busy("asking"):
        answer = door.ask(method, "/pause", body=body)
    found = PauseState.model_validate(answer)
    if as_json:
        out.data(answer)
    else:
        out.say(f"paused by {found.reason}" if found.paused else "not paused")
