"""AutoPatch itself, as a command: `autopatch repair … --json`."""

import os
import re
import shlex
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from autopatch.contract.code import RepairVerdict
from autopatch.contract.errors import Unavailable
from autopatch.repair.tree import Tree
from bench.repair.case import Case, read, write
from bench.repair.proc import Ran, run
from bench.repair.tools import GRACE_S, Attempted
from bench.repair.tools.checkout import git, make

_ESCAPED = re.compile(rb"\\x([0-9a-fA-F]{2})")


@dataclass
class AutoPatch:
    """`mode` is off, local or remote. With `gateway` a running one is asked; without, each case starts what it needs."""

    mode: str
    gateway: str = ""
    seed: int = 7
    command: tuple[str, ...] = (sys.executable, "-m", "autopatch")
    name: str = "autopatch"

    @property
    def how(self) -> str:
        """For the report."""
        if self.gateway:
            return f"mode {self.mode}, one gateway for all cases: its start is not counted"
        return f"mode {self.mode}, started anew for each case: its start is counted"

    def check(self) -> None:
        """Raises Unavailable when there is no such command, so that no case is counted against it."""
        try:
            ran = run([*self.command, "repair", "--help"], Path.cwd(), os.environ, 60)
        except OSError as error:
            raise Unavailable("autopatch", str(error)) from error
        if ran.code != 0:
            raise Unavailable("autopatch", f"`autopatch repair` cannot be called: {_last(ran)}")

    def repair(self, case: Case, folder: Path, limit_s: float) -> Attempted:
        """The diff of the verdict is applied to a copy; the checkout must be as it was."""
        repository = make(case, folder)
        asked = ["--url", self.gateway] if self.gateway else []
        line = [*self.command, *asked, "repair", str(repository), "--test", shlex.join(case.command), "--json"]
        env = {**os.environ, "AUTOPATCH_LLM_MODE": self.mode, "AUTOPATCH_LLM_SEED": str(self.seed)}
        ran = run(line, folder, env, limit_s, grace_s=GRACE_S)
        found = attempted(case, ran, read(repository))
        if found.verdict == "sandbox_unavailable":
            raise Unavailable("autopatch", found.reason, tip="autopatch doctor; the same command goes on from here")
        return found


def attempted(case: Case, ran: Ran, left: Tree) -> Attempted:
    """What a run of the command amounts to. A changed working tree counts as the tool's work, and against it."""
    said = verdict(ran.stdout)
    if said is None:
        return Attempted(left, reason=_last(ran), seconds=ran.seconds, late=ran.code is None)
    tree, note = applied(case.repository, said.diff) if said.diff else (dict(left), "")
    model = said.model
    return Attempted(
        tree, said.verdict, note or said.reason, said.attempts, model.calls if model else 0, model.input_tokens if model else 0,
        model.output_tokens if model else 0, ran.seconds, said.basis, late=ran.code is None,
    )


def _last(ran: Ran) -> str:
    words = (ran.stderr or ran.stdout).strip().splitlines()
    return words[-1][:300] if words else "it said nothing"


def verdict(text: str) -> RepairVerdict | None:
    """The last line that is a verdict."""
    for line in reversed(text.strip().splitlines()):
        try:
            return RepairVerdict.model_validate_json(line)
        except ValidationError:
            continue
    return None


def applied(base: Tree, diff: str) -> tuple[dict[str, bytes], str]:
    """The repository with the diff, and what is wrong with the diff if git does not take it.

    Bytes outside of UTF-8 are written as \\xNN; a diff that does not fit as it is, is tried with those bytes.
    """
    raw = diff.encode()
    for data in dict.fromkeys((raw, _ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), raw))):
        with tempfile.TemporaryDirectory(prefix="bench-repair-") as folder:
            write(base, Path(folder))
            if git(Path(folder), "apply", "--whitespace=nowarn", "-", stdin=data):
                return read(Path(folder)), ""
    return dict(base), "git does not take its diff"
