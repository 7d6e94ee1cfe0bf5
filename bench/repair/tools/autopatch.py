"""AutoPatch itself, as a command: `autopatch repair … --json`."""

import os
import re
import shlex
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from autopatch.chassis.llm.local import Served
from autopatch.chassis.llm.settings import LlmSettings
from autopatch.chassis.settings import load
from autopatch.contract.code import RepairVerdict
from autopatch.contract.errors import Unavailable
from autopatch.repair.tree import Tree
from bench.repair.case import Case, read, write
from bench.repair.proc import Ran, run
from bench.repair.proxy import Proxy
from bench.repair.tools import GRACE_S, Attempted, Counting
from bench.repair.tools.checkout import git, make

DIFF = "fix.diff"
TOKEN = "AUTOPATCH_TOKEN"  # noqa: S105 - its name
ROOT = Path(__file__).parents[3]
_ESCAPED = re.compile(rb"\\x([0-9a-fA-F]{2})")


@dataclass
class AutoPatch:
    """`mode` is off, local or remote. With `gateway` a running one is asked; without, each case starts what it needs.

    `host` is the engine's DOCKER_HOST, '' for what the command finds by itself. With `counting` the local model is asked through
    a proxy that counts, as for all other tools; without, what the verdict tells is taken.
    """

    mode: str
    gateway: str = ""
    seed: int = 7
    host: str = ""
    counting: Counting | None = None
    command: tuple[str, ...] = (sys.executable, "-m", "autopatch")
    name: str = "autopatch"

    @property
    def how(self) -> str:
        """For the report, and what a run that goes on must have in common with its beginning: the commit, too."""
        if self.gateway:
            return f"mode {self.mode}, one gateway for all cases: its start is not counted, and it learns from case to case"
        said = run(["git", "describe", "--always", "--dirty"], ROOT, os.environ, 10).stdout.strip() or "not in a repository"
        return f"commit {said}, mode {self.mode}, started anew for each case without lessons: its start is counted"

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
        with self.counting() if self.counting else nullcontext() as proxy:
            ran = run(line, folder, self._environment(folder, proxy), limit_s, grace_s=GRACE_S)
            used = proxy.reset() if proxy else None
        found = attempted(case, ran, read(repository), diff.read_bytes() if diff.exists() else None)
        if used:
            found = replace(
                found, calls=used.calls, prompt_tokens=used.prompt_tokens, output_tokens=used.output_tokens
            )
        if found.verdict == "sandbox_unavailable":
            raise Unavailable("autopatch", found.reason, tip="autopatch doctor; the same command goes on from here")
        return found

    def _environment(self, folder: Path, proxy: Proxy | None) -> dict[str, str]:
        """Lessons are kept in the cache folder: each case has an empty one, with the model where it is. No other
        setting counts."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("AUTOPATCH_") or name == TOKEN}
        if not self.gateway:
            models: LlmSettings = load(LlmSettings)
            env["AUTOPATCH_LLM_MODEL_DIR"], env["AUTOPATCH_LLM_RUN_DIR"] = str(models.model_dir), str(models.run_dir)
            env["XDG_CACHE_HOME"] = str(folder / "cache")
            env["AUTOPATCH_LLM_SEED"] = str(self.seed)
        if proxy:
            address = proxy.address.removesuffix("/v1")
            served = Served(pid=os.getpid(), base_url=address, model=proxy.upstream.model, api_key="none")
            (folder / f"{served.model}.json").write_text(served.model_dump_json(), "utf-8")
            env["AUTOPATCH_LLM_RUN_DIR"] = str(folder)
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
