"""`autopatch doctor`: each dependency, whether it is there, and what to do when it is not."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import typer
from rich.text import Text

from autopatch.chassis.llm.settings import LlmSettings
from autopatch.chassis.settings import Common, load
from autopatch.cli import findings as check
from autopatch.cli.client import Session
from autopatch.cli.files import all_settings
from autopatch.cli.findings import Finding
from autopatch.cli.output import Json, Output
from autopatch.contract.errors import AutoPatchError

COLOURS = {"ok": "green", "stopped": "yellow", "silent": "bold red", "off": "dim", "missing": "bold red"}


def doctor(ctx: typer.Context, as_json: Json = False) -> None:
    """Check every dependency. Exit code 1 when something that is required is missing or does not answer."""
    out = Output(as_json)
    with out.busy("checking"), ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda entry: _run(*entry), _checks(Session(**(ctx.obj or {})))))
    failed = [f for f in found if f.required and f.status in ("missing", "silent")]
    if as_json:
        out.data({"ok": not failed, "findings": [vars(f) for f in found]})
    else:
        for finding in found:
            _print(out, finding)
        out.say(f"\nTo mend: {', '.join(f.name for f in failed)}." if failed else "\nEverything that is required is there.")
    raise typer.Exit(1 if failed else 0)


def _checks(session: Session) -> Sequence[tuple[str, bool, Callable[[], Finding]]]:
    common: Common = load(Common)
    llm: LlmSettings = load(LlmSettings)
    rooms = all_settings()
    knowledge, gateway, executor = (load(rooms[name]) for name in ("knowledge", "gateway", "executor"))
    monitor = load(rooms["monitor"])
    return (
        ("nats-server", True, lambda: check.nats(common.nats_url, "nats_url" in common.model_fields_set)),
        ("targets", True, lambda: check.targets(common.targets)),
        ("policy", True, lambda: check.policy(executor.policy)),
        ("tokens", True, lambda: check.tokens(gateway.tokens_file)),
        ("docker engine", True, lambda: check.docker_engine(executor.docker_host)),
        ("target images", True, lambda: check.images(executor.docker_host, check.rehearsed(common.targets))),
        # only code is repaired in these
        ("sandbox images", False, lambda: check.images(executor.docker_host, (executor.python_image, executor.node_image))),
        ("prometheus", True, lambda: check.prometheus(common.targets)),
        ("alertmanager", False, lambda: check.alertmanager(monitor.alertmanager_url)),
        ("traces", bool(common.otlp_endpoint), lambda: check.traces(common.otlp_endpoint)),
        ("qdrant", True, lambda: check.qdrant(knowledge.url)),
        ("embedder", knowledge.embedder != "none", lambda: check.embedder(knowledge.embedder, knowledge.threads)),
        ("model", llm.mode != "off", lambda: check.model(llm)),
        ("gateway", False, lambda: check.gateway(session)),
    )


def _run(name: str, required: bool, call: Callable[[], Finding]) -> Finding:
    try:
        finding = call()
    except AutoPatchError as error:
        finding = Finding("missing", str(error.args[0]), error.tip)
    return finding.called(name, required)


def _print(out: Output, finding: Finding) -> None:
    optional = "" if finding.required else " (optional)"
    out.say(Text(f"{finding.status:<8}", COLOURS[finding.status]), f"{finding.name:<14} {finding.detail}{optional}")
    if finding.remedy and finding.status != "ok":
        out.say((f"{'':<23} → {finding.remedy}", "bold"))
