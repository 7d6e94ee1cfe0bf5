"""`autopatch repair`: from a repository whose tests are red to a verified diff."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer.core import TyperCommand

from autopatch.cli.output import Json, Output

BRANCH = "--branch"
AUTO = "autopatch/"
"""A branch without a name of its own is called after its incident."""


class _Optional(TyperCommand):
    """`--branch` may stand alone."""

    def parse_args(self, ctx: "typer.Context", args: list[str]) -> list[str]:  # type: ignore[override]
        """Alone, before another option or at the end, it gets a value that means: a name of its own."""
        told = [f"{arg}={AUTO}" if arg == BRANCH and _alone(args, i) else arg for i, arg in enumerate(args)]
        return super().parse_args(ctx, told)


def _alone(args: Sequence[str], at: int) -> bool:
    return at + 1 == len(args) or args[at + 1].startswith("-")


repair = typer.Typer(add_completion=False)


@repair.command(cls=_Optional, context_settings={"help_option_names": ["-h", "--help"]})
def repair_command(
    ctx: typer.Context,
    repository: Annotated[Path, typer.Argument(metavar="REPO", help="Its folder; what is not committed is part of it.")],
    test: Annotated[str, typer.Option(help='How its tests are run, such as "pytest -q"; else guessed.')] = "",
    issue: Annotated[str, typer.Option(help="What is wrong, as text or as the name of a file.")] = "",
    branch: Annotated[str, typer.Option(metavar="[NAME]", help="Commit the fix on a new branch.")] = "",
    pr: Annotated[bool, typer.Option("--pr", help="Push the branch and open a pull or merge request.")] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Apply the fix to the working tree.")] = False,
    output: Annotated[Path | None, typer.Option(help="Write the diff to this file.")] = None,
    image: Annotated[str, typer.Option(help="Container image to run the tests in.")] = "",
    toolchain: Annotated[Literal["python", "node"] | None, typer.Option(help="What its tests need; else guessed.")] = None,
    test_seconds: Annotated[float, typer.Option(min=0.1, max=600, help="One test may take.")] = 10,
    suite_seconds: Annotated[float, typer.Option(min=0.1, max=1800, help="One run of all tests may take.")] = 120,
    model: Annotated[Literal["off", "local", "remote"] | None, typer.Option(help="Else as the settings say.")] = None,
    as_json: Json = False,
) -> None:
    """Repairs a copy; the folder itself stays as it is unless --apply is given.

    At the configured gateway, else by a private AutoPatch that ends with the command.
    Exit code 0: fixed, 1: any other verdict, 2: wrong usage, 3: what is needed cannot be reached, such as a sandbox.
    """
    out = Output(as_json)
    try:
        from autopatch.cli.asking import Limits
        from autopatch.cli.delivering import Wishes
        from autopatch.cli.repairing import Options, perform

        wishes = Wishes(output, apply, branch or (AUTO if pr else ""), pr)
        options = Options(repository, test, issue, image, toolchain, Limits(test_seconds, suite_seconds), wishes, model)
        raise typer.Exit(perform(options, dict(ctx.obj or {}), out))
    except KeyboardInterrupt:
        out.note("cancelled: stopped before it began")
        raise typer.Exit(1) from None
