"""The `autopatch` command. Each command's module is loaded when it is called, and all errors are told in one place."""

import sys
from importlib import import_module
from typing import Annotated, Any

import typer

from autopatch.cli import errors
from autopatch.contract.errors import AutoPatchError

app = typer.Typer(
    name="autopatch", help="From an alert to a rehearsed, validated, reversible fix.", no_args_is_help=True, add_completion=False,
    pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]},
)

RUN, DECIDE, CHECK = "Run", "Incidents", "Set up and check"
COMMANDS: tuple[tuple[str, str, str, str], ...] = (
    ("demo", "autopatch.cli.demo:demo", RUN, "Break a real service and watch it being healed."),
    ("up", "autopatch.cli.up:up", RUN, "Run all rooms in one process."),
    ("repair", "autopatch.cli.repair:repair", RUN, "Repair a repository whose tests fail."),
    ("incidents", "autopatch.cli.incidents:incidents", DECIDE, "List, show and watch incidents."),
    ("approve", "autopatch.cli.decisions:approve", DECIDE, "Say yes to the plan that an incident waits with."),
    ("reject", "autopatch.cli.decisions:reject", DECIDE, "Say no to it."),
    ("cancel", "autopatch.cli.decisions:cancel", DECIDE, "Stop an incident; what was begun is undone."),
    ("reopen", "autopatch.cli.decisions:reopen", DECIDE, "Let an ended incident have another try."),
    ("hold", "autopatch.cli.switches:hold", DECIDE, "Let nothing be applied to a target, or release it."),
    ("pause", "autopatch.cli.switches:pause", DECIDE, "Let nothing be applied anywhere."),
    ("resume", "autopatch.cli.switches:resume", DECIDE, "End the pause."),
    ("targets", "autopatch.cli.switches:targets", CHECK, "List targets, check their files."),
    ("kb", "autopatch.cli.kb:kb", CHECK, "Search the knowledge base, add documents to it."),
    ("model", "autopatch.cli.model:app", CHECK, "Get and serve the local model."),
    ("doctor", "autopatch.cli.doctor:doctor", CHECK, "Check every dependency and say what to do."),
    ("policy", "autopatch.cli.files:policy", CHECK, "Check a policy file."),
    ("bus", "autopatch.cli.files:bus", CHECK, "Print the catalogue of the bus."),
    ("settings", "autopatch.cli.files:settings", CHECK, "Print every setting with its meaning and default."),
)


@app.callback()
def root(
    ctx: typer.Context,
    url: Annotated[str, typer.Option(help="Address of the gateway; else AUTOPATCH_URL, else what `autopatch up` kept.")] = "",
    token: Annotated[str, typer.Option(help="Token for it; better set AUTOPATCH_TOKEN, which no process list shows.")] = "",
) -> None:
    """Options that all commands share come before the command."""
    ctx.obj = {"url": url, "token": token}


def _register(name: str, where: str, panel: str, summary: str) -> None:
    def run(ctx: typer.Context) -> None:
        _run(name, where, ctx)

    app.command(
        name, help=summary, rich_help_panel=panel, add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False},
    )(run)


def _run(name: str, where: str, ctx: typer.Context) -> None:
    """Call the command with what is left of the line, and turn its error into one line and an exit code."""
    try:
        result = _load(where).main(ctx.args, f"autopatch {name}", standalone_mode=False, obj=ctx.obj)
    except AutoPatchError as error:
        errors.tell(error, "--json" in ctx.args)
        raise typer.Exit(errors.code(error)) from None
    raise typer.Exit(result if isinstance(result, int) else 0)


def _load(where: str) -> Any:
    module, attribute = where.split(":")
    found = getattr(import_module(module), attribute)
    if not isinstance(found, typer.Typer):
        command, found = found, typer.Typer(add_completion=False)
        found.command(context_settings={"help_option_names": ["-h", "--help"]})(command)
    return typer.main.get_command(found)


for _entry in COMMANDS:
    _register(*_entry)


def main() -> None:
    """The program."""
    sys.excepthook = errors.unexpected
    # app() would put Typer's own hook in its place, and that one calls the interpreter's
    typer.main.get_command(app)()
