"""aider-chat without a person: the files to edit are named, failing tests are fed back up to three times."""

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.repair.case import Case, read
from bench.repair.peers import ROOT, program
from bench.repair.proc import run
from bench.repair.tools import GRACE_S, Attempted, Counting
from bench.repair.tools.checkout import make

OPTIONS = (
    "--yes-always", "--no-stream", "--no-pretty", "--no-check-update", "--analytics-disable", "--no-show-model-warnings",
    "--no-show-release-notes", "--no-detect-urls", "--no-suggest-shell-commands", "--no-auto-lint", "--map-tokens", "0",
    "--no-gitignore", "--no-auto-commits", "--no-dirty-commits", "--auto-test",
    # of a model that it does not know it takes 1,024, and then spends calls on summaries
    "--max-chat-history-tokens", "6000",
)
MESSAGE = "Fix the failing test."
TEST_S = 60


@dataclass
class Aider:
    """`edits` is its edit format; `whole` is what it recommends for small models. Tests run confined, on a copy."""

    counting: Counting
    edits: str = "whole"
    name: str = "aider"

    @property
    def how(self) -> str:
        """For the report."""
        return f"aider-chat, edit format {self.edits}, all source files named, 1 message and at most 3 reflections"

    def repair(self, case: Case, folder: Path, limit_s: float) -> Attempted:
        """Its exit code says nothing and is not looked at."""
        aider = program("aider")
        repository = make(case, folder)
        with self.counting() as proxy:
            env = self._environment(folder, proxy.address)
            ran = run(self._line(aider, case, folder), repository, env, limit_s, grace_s=GRACE_S)
            used = proxy.reset()
        words = ran.stdout.strip().splitlines()
        return Attempted(
            read(repository), reason=words[-1][:300] if words else ran.stderr[-300:], calls=used.calls,
            prompt_tokens=used.prompt_tokens, output_tokens=used.output_tokens, attempts=used.calls, seconds=ran.seconds,
            late=ran.code is None,
        )

    def _line(self, aider: Path, case: Case, folder: Path) -> list[str]:
        runner = [sys.executable, "-m", "bench.repair.box", "--limit-s", str(TEST_S), "--", *case.command]
        extra = ["-x", "--tb=short"] if "pytest" in case.command else []
        test = folder / "run-tests"  # a short name: aider shows the command to the model
        test.write_text(f"#!/bin/sh\nPYTHONPATH={shlex.quote(str(ROOT))} exec {shlex.join([*runner, *extra])}\n", "utf-8")
        test.chmod(0o755)
        return [
            str(aider), "--model", "openai/local", "--edit-format", self.edits, *OPTIONS,
            "--chat-history-file", str(folder / "chat.md"), "--input-history-file", str(folder / "input"),
            "--test-cmd", str(test), "--message", MESSAGE, *case.sources,
        ]

    def _environment(self, folder: Path, address: str) -> dict[str, str]:
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder), "LANG": "C.UTF-8", "OPENAI_API_KEY": "none",
            "OPENAI_API_BASE": address, "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }
