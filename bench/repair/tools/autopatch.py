"""AutoPatch itself, as a command: `autopatch repair … --json`."""

import os
import re
import shlex
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from autopatch.chassis.llm.settings import LlmSettings
from autopatch.chassis.settings import load
from autopatch.contract.code import RepairVerdict
from autopatch.contract.errors import Unavailable
from autopatch.repair.tree import Tree
from bench.repair.case import Case, read, write
from bench.repair.proc import Ran, run
from bench.repair.tools import GRACE_S, Attempted
from bench.repair.tools.checkout import git, make

DIFF = "fix.diff"
_ESCAPED = re.compile(rb"\\x([0-9a-fA-F]{2})")


@dataclass
class AutoPatch:
    """`mode` is off, local or remote. With `gateway` a running one is asked; without, each case starts what it needs.

    `host` is the engine's DOCKER_HOST, '' for what the command finds by itself.
    """

    mode: str
    gateway: str = ""
    seed: int = 7
    host: str = ""
    command: tuple[str, ...] = (sys.executable, "-m", "autopatch")
    name: str = "autopatch"

    @property
    def how(self) -> str:
        """For the report."""
        if self.gateway:
            return f"mode {self.mode}, one gateway for all cases: its start is not counted, and it learns from case to case"
        return f"mode {self.mode}, started anew for each case without lessons: its start is counted"

    def check(self) -> None:
        """Raises Unavailable when there is no such command, so that no case is counted against it."""
        try:
            ran = run([*self.command, "repair", "--help"], Path.cwd(), os.environ, 60)
        except OSError as error:
            raise Unavailable("autopatch", str(error)) from error
        if ran.code != 0:
            raise Unavailable("autopatch", f"`autopatch repair` cannot be called: {_last(ran)}")

    def repair(self, case: Case, folder: Path, limit_s: float) -> Attempted:
        """The diff of the verdict is applied to a copy; the checkout must be as it was. Raises Unavailable without a sandbox."""
        repository, diff = make(case, folder), folder / DIFF
        root, mode = (["--url", self.gateway], []) if self.gateway else ([], ["--model", self.mode])
        line = [*self.command, *root, "repair", str(repository), "--test", shlex.join(case.command), *mode]
        line += ["--toolchain", case.toolchain, "--output", str(diff), "--json"]
        ran = run(line, folder, self._environment(folder), limit_s, grace_s=GRACE_S)
        found = attempted(case, ran, read(repository), diff.read_bytes() if diff.exists() else None)
        if found.verdict == "sandbox_unavailable":
            raise Unavailable("autopatch", found.reason, tip="autopatch doctor; the same command goes on from here")
        return found

    def _environment(self, folder: Path) -> dict[str, str]:
        """Lessons are kept in the cache folder: each case has an empty one, with the model where it is."""
        env = dict(os.environ)
        if not self.gateway:
            env.pop("AUTOPATCH_URL", None)
            models: LlmSettings = load(LlmSettings)
            env["AUTOPATCH_LLM_MODEL_DIR"], env["AUTOPATCH_LLM_RUN_DIR"] = str(models.model_dir), str(models.run_dir)
            env["XDG_CACHE_HOME"] = str(folder / "cache")
            env["AUTOPATCH_LLM_SEED"] = str(self.seed)
        if self.host:
            env["DOCKER_HOST"] = env["AUTOPATCH_EXECUTOR_DOCKER_HOST"] = self.host
        return env


def attempted(case: Case, ran: Ran, left: Tree, diff: bytes | None = None) -> Attempted:
    """What a run of the command amounts to. A working tree that it changed counts as its work, and against it.

    `diff` is the one that it wrote to a file; without one, the verdict's own is taken.
    """
    said = verdict(ran.stdout)
    if said is None:
        return Attempted(left, reason=_last(ran), seconds=ran.seconds, late=ran.code is None)
    wanted = diff if diff is not None else said.diff.encode()
    tree, note = applied(case.repository, wanted) if wanted else (dict(left), "")
    model = said.model
    return Attempted(
        tree, said.verdict, note or said.reason, said.attempts, model.calls if model else 0, model.input_tokens if model else 0,
        model.output_tokens if model else 0, ran.seconds, said.basis, late=ran.code is None,
    )


def _last(ran: Ran) -> str:
    words = [line.strip(" │") for line in (ran.stderr or ran.stdout).splitlines() if any(map(str.isalnum, line))]
    return words[-1][:300] if words else "it said nothing"


def verdict(text: str) -> RepairVerdict | None:
    """The last line that is a verdict."""
    for line in reversed(text.strip().splitlines()):
        try:
            return RepairVerdict.model_validate_json(line)
        except ValidationError:
            continue
    return None


def applied(base: Tree, diff: bytes) -> tuple[dict[str, bytes], str]:
    """The repository with the diff, and what is wrong with the diff if git does not take it.

    In a verdict, bytes outside of UTF-8 are written as \\xNN; a diff that does not fit as it is, is tried with those bytes.
    """
    for data in dict.fromkeys((diff, _ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), diff))):
        with tempfile.TemporaryDirectory(prefix="bench-repair-") as folder:
            write(base, Path(folder))
            if git(Path(folder), "apply", "--whitespace=nowarn", "-", stdin=data):
                return read(Path(folder)), ""
    return dict(base), "git does not take its diff"
