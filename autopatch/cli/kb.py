"""`autopatch kb`: search what was learnt, add documents."""

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import track

from autopatch.cli.client import gateway
from autopatch.cli.errors import Usage
from autopatch.cli.output import Json, Output, group
from autopatch.contract.errors import OperatorError
from autopatch.contract.requests import Found

kb = group("Search the knowledge base, add documents to it.")
Kind = StrEnum("Kind", ["lesson", "incident", "runbook", "document", "code"])
TYPES = (".md", ".markdown", ".txt", ".rst")
LARGEST = 48 * 1024


@kb.command("search")
def search_command(
    ctx: typer.Context, text: Annotated[str, typer.Argument()],
    target: Annotated[str, typer.Option(help="Only what belongs to this target, or to none in particular.")] = "",
    kind: Annotated[list[Kind] | None, typer.Option(help="Only these kinds.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=50)] = 5, as_json: Json = False,
) -> None:
    """By meaning and by words, best first."""
    if not text.strip():
        raise Usage("nothing to search for", tip='autopatch kb search "what you saw"')
    out, door = Output(as_json), gateway(ctx)
    with out.busy("searching"):
        kinds = [str(k) for k in kind or ()]
        found = door.get("/knowledge/search", Found, {"q": text, "target": target, "kind": kinds, "limit": limit})
    if as_json:
        out.data([item.model_dump(mode="json") for item in found.items])
    elif not found.items:
        known = {found["name"] for found in door.ask("GET", "/targets")} | {""}
        out.say("Nothing found." + ("" if target in known else f" No target is called {target}: `autopatch targets list`"))
    for item in found.items if not as_json else ():
        out.say((f"{item.title}", "bold"), f"  {item.kind}  {item.score:.3f}  {item.source or item.id}")
        out.say("  " + " ".join(item.text.split())[:400])


@kb.command("ingest")
def ingest_command(
    ctx: typer.Context, path: Annotated[Path, typer.Argument(help="A Markdown or text file, or a folder of them.")],
    as_json: Json = False,
) -> None:
    """Add documents; the same name again replaces what was there."""
    out, door = Output(as_json), gateway(ctx)
    files = _files(path)
    done = Counter[str]()
    for batch in track(list(_batches(path, files)), "ingesting", console=out.err, disable=len(files) < 2, transient=True):
        answer = door.ask("POST", "/knowledge/ingest", body={"documents": batch})
        done.update({key: answer[key] for key in ("added", "unchanged", "chunks")})
    if as_json:
        out.data({"ok": True, "files": len(files), **done})
        return
    out.say(f"{done['added']} added, {done['unchanged']} unchanged, {done['chunks']} parts written")


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise OperatorError(f"{path} is not there", tip="name a file or a folder of Markdown")
    files = sorted(f for f in path.rglob("*") if f.is_file() and f.suffix.lower() in TYPES) if path.is_dir() else [path]
    if not files:
        raise OperatorError(f"{path} holds no document", tip=f"documents end in {', '.join(TYPES)}")
    return files


def _batches(path: Path, files: list[Path]) -> Iterator[list[dict[str, Any]]]:
    """As many documents at once as one request may hold. Raises OperatorError naming the file."""
    batch, size = list[dict[str, Any]](), 0
    for file in files:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise OperatorError(f"{file}: cannot be read: {type(error).__name__}", tip="documents are UTF-8 text") from None
        name = str(file.relative_to(path)) if path.is_dir() else file.name
        attached = _attached(name, text, file, path if path.is_dir() else path.parent)
        length = len(text.encode()) + sum(len(more.encode()) for more in attached.values()) + 200
        if length > LARGEST:
            raise OperatorError(f"{file}: {length} bytes, at most {LARGEST} fit", tip="split it by its headings")
        if batch and size + length > LARGEST:
            yield batch
            batch, size = [], 0
        batch.append({"source": name, "text": text, "attached": attached})
        size += length
    yield batch


def _attached(name: str, text: str, file: Path, folder: Path) -> dict[str, str]:
    """The tests that a runbook names, which lie beside it. Raises OperatorError that names file, line and field."""
    from services.knowledge.adapters.sources.attachments import beside
    from services.knowledge.adapters.sources.documents import read

    found, attach = dict[str, str](), beside(file, folder)

    def asked(wanted: str) -> str:
        found[wanted] = attach(wanted)
        return found[wanted]

    read(name, text, asked)
    return found
