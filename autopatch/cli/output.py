"""Where commands print: people read tables on stdout, machines read JSON there; progress and warnings go to stderr."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from autopatch.cli.errors import Failed
from autopatch.contract.errors import OperatorError, Unavailable

T = TypeVar("T")
Json = Annotated[bool, typer.Option("--json", help="JSON on standard output, nothing else.")]

STATES = {
    "resolved": "green", "closed": "green", "escalated": "red", "cancelled": "red", "awaiting": "yellow", "applying": "magenta",
    "rolling_back": "red", "undo_due": "red", "observed": "cyan", "proposed": "cyan",
}


def group(summary: str) -> typer.Typer:
    """A command with commands of its own."""
    return typer.Typer(
        help=summary, no_args_is_help=True, add_completion=False, context_settings={"help_option_names": ["-h", "--help"]}
    )


class Output:
    """One per command."""

    def __init__(self, as_json: bool = False) -> None:
        self.json = as_json
        self.out = Console(highlight=False, soft_wrap=True)
        self.err = Console(stderr=True, highlight=False, soft_wrap=True)

    def data(self, value: Any) -> None:
        """One JSON document on one line."""
        sys.stdout.write(json.dumps(value, default=str) + "\n")
        sys.stdout.flush()

    def say(self, *parts: "str | Text | tuple[str, str]") -> None:
        """A line for people; never interpreted as markup."""
        if not self.json:
            self.out.print(Text.assemble(*parts))

    def head(self, title: str) -> None:
        """A section's heading."""
        self.say("\n", (title, "bold"))

    def note(self, text: str) -> None:
        """On stderr, also with --json."""
        self.err.print(Text(text, style="dim"))

    def table(self, columns: tuple[str, ...], rows: list[tuple[str | Text, ...]]) -> None:
        """Columns whose name begins with > are numbers, right-aligned. The first, which names the row, stays on one line.

        Like `say` it is for people.
        """
        if self.json:
            return
        made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        for number, column in enumerate(columns):
            side: Literal["left", "right"] = "right" if column.startswith(">") else "left"
            made.add_column(column.lstrip(">"), justify=side, overflow="fold", no_wrap=number == 0)
        for row in rows:
            made.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
        self.out.print(made, soft_wrap=False)

    @contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """A spinner on stderr while something takes its time; nothing when stderr is no terminal."""
        with self.err.status(what):
            yield


def checked(out: Output, path: Path, read: Callable[[], T]) -> T:
    """What was read. Every mistake in it is a line on stderr, or an entry of `faults`; then Failed or exit code 1."""
    try:
        return read()
    except (OperatorError, Unavailable) as error:
        faults = str(error.args[0]).splitlines()
        if out.json:
            out.data({"ok": False, "error": faults[0], "tip": error.tip, "faults": faults})
            raise typer.Exit(1) from None
        for fault in faults:
            out.note(fault)
        counted = f"{len(faults)} fault{'s' if len(faults) > 1 else ''}"
        raise Failed(f"{path}: {counted}", tip=error.tip or "correct the lines above") from None


def coloured(state: str) -> Text:
    """An incident's state."""
    return Text(state.replace("_", " "), style=STATES.get(state, ""))


def diff(text: str) -> Text:
    """A unified diff with its colours."""
    made = Text()
    for row in text.splitlines():
        style = "bold" if row.startswith(("---", "+++")) else {"+": "green", "-": "red", "@": "cyan"}.get(row[:1], "")
        made.append(f"  {row}\n", style=style)
    return made


def plain(value: Any) -> Any:
    """The same JSON value without control characters in its texts, so that nothing in it can steer a terminal."""
    if isinstance(value, str):
        return "".join(c if c.isprintable() or c in "\n\t" else "�" for c in value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value
