"""`autopatch policy`, `bus`, `settings`: what is written in files, without any server."""

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from autopatch.chassis.llm.settings import LlmSettings
from autopatch.chassis.settings import Common, default, template
from autopatch.cli.output import Json, Output, checked, group
from autopatch.contract.catalogue import ROOMS
from autopatch.contract.document import bus_markdown
from services.executor.adapters.branches.settings import ForgeSettings
from services.executor.adapters.rules.policy_file import load_policy

policy = group("Check a policy file.")
bus = group("Print the catalogue of the bus.")


@policy.command("check")
def policy_check(file: Annotated[Path, typer.Argument(metavar="FILE")], as_json: Json = False) -> None:
    """Read a policy as the executor does; each mistake is named by line and field."""
    out = Output(as_json)
    names = [rule.name for rule in checked(out, file, lambda: load_policy(file)).rules]
    if as_json:
        out.data({"ok": True, "rules": names})
    else:
        out.say(f"ok: {', '.join(names)}")


@policy.callback()
def _policy() -> None:
    """Check a policy file."""


@bus.callback()
def _bus() -> None:
    """Print the catalogue of the bus."""


@bus.command("docs")
def bus_docs(as_json: Json = False) -> None:
    """The generated page: every event and request, who says and hears them, the lifecycle."""
    out = Output(as_json)
    if as_json:
        out.data({"markdown": bus_markdown()})
    else:
        out.out.out(bus_markdown(), end="", highlight=False)


def settings(
    room: Annotated[str, typer.Option(help="Only this room's, `common`, `llm` or `forge`.")] = "", as_json: Json = False,
) -> None:
    """A template for AUTOPATCH_CONFIG: every setting, its default, its meaning, its variable."""
    out, classes = Output(as_json), all_settings()
    if room and room not in classes:
        raise typer.BadParameter(f"known are: {', '.join(classes)}", param_hint="--room")
    chosen = {name: cls for name, cls in classes.items() if room in ("", name)}
    if as_json:
        out.data({name: _described(cls) for name, cls in chosen.items()})
    else:
        out.out.out(template(*chosen.values()), end="", highlight=False)


def all_settings() -> dict[str, Any]:
    """Settings classes by the name of their section."""
    rooms = {room: import_module(f"services.{room}.settings").Settings for room in ROOMS}
    return {"common": Common, "llm": LlmSettings, "forge": ForgeSettings, **rooms}


def _described(cls: Any) -> dict[str, dict[str, str]]:
    prefix = str(cls.model_config.get("env_prefix", ""))
    return {
        name: {
            "variable": f"{prefix}{name.upper()}", "default": str(default(field)),
            "meaning": field.description or "",
        }
        for name, field in cls.model_fields.items()
    }
