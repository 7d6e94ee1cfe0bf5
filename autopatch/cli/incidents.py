"""`autopatch incidents`: list, show, watch."""

from dataclasses import replace
from typing import Annotated

import typer
from rich.text import Text

from autopatch.cli import render
from autopatch.cli.client import Gateway, gateway
from autopatch.cli.errors import GatewayRefused
from autopatch.cli.output import Json, Output, coloured, group
from autopatch.contract.errors import ContractError
from autopatch.contract.lifecycle import Incident, State, Stored, apply
from services.gateway.views import Page, Row, View
from services.gateway.words import duration

incidents = group("List, show and watch incidents.")
Id = Annotated[str, typer.Argument(metavar="ID", help="The incident's id; a beginning that only one incident has is enough.")]
GOOD = {State.RESOLVED, State.CLOSED}
WIDE = 120
"""Columns of a terminal on which a sentence still fits beside the rest of a row."""


@incidents.command("list")
def list_command(
    ctx: typer.Context,
    state: Annotated[list[State] | None, typer.Option(help="Only these states.")] = None,
    target: Annotated[str, typer.Option(help="Only this target.")] = "",
    only_open: Annotated[bool, typer.Option("--open", help="Only what has not ended.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=10000)] = 50,
    as_json: Json = False,
) -> None:
    """Newest first. What has become of each is told where there is room for it, and by `show`."""
    out = Output(as_json)
    with out.busy("asking"):
        rows = rows_of(gateway(ctx), limit, state=[s.value for s in state or ()], target=target, open="true" if only_open else "")
    if as_json:
        out.data([row.model_dump(mode="json") for row in rows])
    elif not rows:
        out.say("No incidents.")
    else:
        room = out.out.width >= WIDE
        out.table(("ID", "STATE", "TARGET", "TITLE", ">OPENED", ">TOOK", *([""] if room else [])), [
            (
                row.id, coloured(row.state.value), row.target, row.title, f"{row.opened_at.astimezone():%m-%d %H:%M}",
                duration(row.seconds), *([row.headline] if room else []),
            )
            for row in rows
        ])


@incidents.command("show")
def show_command(
    ctx: typer.Context, incident: Id,
    events: Annotated[bool, typer.Option("--events", help="The raw log instead.")] = False, as_json: Json = False,
) -> None:
    """What happened, why, what was done about it, and the proof."""
    out, door = Output(as_json), gateway(ctx)
    with out.busy("asking"):
        full = resolve(door, incident)
        found = door.ask("GET", f"/incidents/{full}/events" if events else f"/incidents/{full}")
    if as_json:
        out.data(found)
    elif events:
        render.raw(out, found)
    else:
        render.view(out, View.model_validate(found))


@incidents.command("watch")
def watch_command(
    ctx: typer.Context,
    incident: Annotated[str, typer.Argument(metavar="[ID]", help="Without one: everything, without end.")] = "",
    as_json: Json = False,
) -> None:
    """Follow live until the incident ends. Exit code 0: resolved or closed, 1: anything else. With --json one event a line."""
    out, door = Output(as_json), gateway(ctx)
    full = resolve(door, incident) if incident else ""
    ended = follow(out, door, full)
    raise typer.Exit(0 if ended.state in GOOD else 1)


def follow(out: Output, door: Gateway, incident_id: str) -> Incident:
    """Print events until the incident ends; returns it."""
    seen: dict[str, Incident] = {}
    for stored, text in door.follow_on(0, incident_id, lambda reason: out.note(f"{reason}; trying again")):
        name = stored.envelope.incident_id
        before = seen.get(name, Incident(name))
        seen[name] = now = _after(before, stored)
        if out.json:
            envelope = stored.envelope.model_dump(mode="json")
            out.data({"sequence": stored.sequence, "state": now.state, "text": text, "envelope": envelope})
        else:
            out.say(*_line(now, stored, text, every=not incident_id))
            if now.state is State.AWAITING and before.state is not State.AWAITING:
                out.say((f"          autopatch approve {name}   or   autopatch reject {name} --reason …", "yellow"))
        if incident_id and now.terminal:
            return now
    raise AssertionError("a live stream has no end")


def rows_of(door: Gateway, limit: int, **params: object) -> list[Row]:
    """Up to `limit` rows over as many pages as that takes."""
    rows, before = list[Row](), ""
    while len(rows) < limit:
        page = door.get("/incidents", Page, {**params, "limit": min(limit - len(rows), 200), "before": before})
        rows += page.items
        before = page.next
        if not before:
            break
    return rows


def resolve(door: Gateway, beginning: str) -> str:
    """The id of the only incident that begins so. Raises GatewayRefused when there is none, or more than one."""
    unknown = GatewayRefused("there is no such incident", tip="`autopatch incidents list` shows those there are", status=404)
    if not beginning or not all(c.isascii() and (c.isalnum() or c in "-_") for c in beginning):
        raise unknown
    try:
        door.ask("GET", f"/incidents/{beginning}/events", params={"after": 2**53})
        return beginning
    except GatewayRefused as refused:
        if refused.status != 404:
            raise
    found = [row.id for row in rows_of(door, 500) if row.id.startswith(beginning)]
    if len(found) > 1:
        raise GatewayRefused(f"{len(found)} incidents begin so", tip=f"such as {found[0]} and {found[1]}")
    if not found:
        raise unknown
    return found[0]


def _after(incident: Incident, stored: Stored) -> Incident:
    """One event later; of an incident whose beginning left the log long ago only the events are known, not the state."""
    try:
        return apply(incident, stored)
    except ContractError:
        return replace(incident, log=(*incident.log, stored))


def _line(now: Incident, stored: Stored, text: str, *, every: bool) -> tuple[str | Text, ...]:
    elapsed = (stored.envelope.at - now.log[0].envelope.at).total_seconds()
    name = f"{now.id}  " if every else ""
    by = stored.envelope.by.removeprefix("person:")
    return (f"{duration(elapsed):>10}  {name}", coloured(f"{now.state.value:<12}"), f" {by:<10} {text}")
