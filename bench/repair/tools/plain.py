"""The plain model loop: one prompt with the sources and the failing tests, one greedy answer and three samples. No templates.

What AutoPatch must beat with the same model. Each answer is tried on the visible tests; the first that passes is taken.
"""

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import httpx2

from autopatch.repair.tree import Tree, text_of
from bench.repair.box import Box
from bench.repair.case import Case
from bench.repair.counting import counts
from bench.repair.judge import green
from bench.repair.proc import Ran
from bench.repair.tools import Attempted, Counting

SAMPLES = 3
TEMPERATURE = 0.8
OUTPUT = 3000
_FENCE = re.compile(r"```[A-Za-z]*\n(.*?)(?:```|\Z)", re.S)
PROMPT = """These tests fail:

{output}

The source:

{sources}
Write the corrected function, the whole of it, in one fenced code block. Nothing else."""


@dataclass
class Plain:
    """Tests run in `box`."""

    counting: Counting
    box: Box
    name: str = "model-alone"

    @property
    def how(self) -> str:
        """For the report."""
        return f"plain model loop: whole functions, 1 greedy answer and {SAMPLES} samples at temperature {TEMPERATURE}"

    def repair(self, case: Case, folder: Path, limit_s: float) -> Attempted:
        """Nothing is asked when the tests pass as they are."""
        began = monotonic()
        with self.counting() as proxy:
            tree, reason, tried = self._loop(case, proxy.address, began + limit_s)
            used = proxy.reset()
        return Attempted(
            tree, reason=reason, attempts=tried, calls=used.calls, prompt_tokens=used.prompt_tokens,
            output_tokens=used.output_tokens, seconds=monotonic() - began, late=reason == "out of time",
        )

    def _loop(self, case: Case, address: str, until: float) -> tuple[Tree, str, int]:
        first = self.box.run(case.repository, case.command, until - monotonic())
        if green(first, case.tests):
            return case.repository, "the tests pass", 0
        prompt = PROMPT.format(output=shortened(first), sources=shown(case))
        for attempt in range(1 + SAMPLES):
            if (left := until - monotonic()) <= 0:
                return case.repository, "out of time", attempt
            answer = _ask(address, prompt, attempt, left)
            tree = changed_by(case, answer) if answer else None
            if tree and (left := until - monotonic()) > 0 and green(self.box.run(tree, case.command, left), case.tests):
                return tree, f"answer {attempt + 1}", attempt + 1
        return case.repository, "no answer passed", 1 + SAMPLES


def _ask(address: str, prompt: str, attempt: int, limit_s: float) -> str:
    """The model's text, '' when there is none in time."""
    body = {
        "messages": [{"role": "user", "content": prompt}], "temperature": TEMPERATURE if attempt else 0, "seed": 7 + attempt,
        "model": "local",
    }
    try:
        with httpx2.Client(trust_env=False, timeout=limit_s) as client:
            answer: dict[str, Any] = client.post(f"{address}/chat/completions", json=body).json()
            return str(answer["choices"][0]["message"]["content"])
    except (httpx2.HTTPError, ValueError, KeyError, IndexError, TypeError):
        return ""


def shortened(ran: Ran) -> str:
    """The end of what the test run printed."""
    text = ran.stdout.strip() or ran.stderr.strip()
    return text[-OUTPUT:] if counts(text) else text[:OUTPUT]


def shown(case: Case) -> str:
    """All sources, each under its path."""
    return "\n".join(f"{path}\n```\n{text_of(case.repository[path])[0]}```\n" for path in case.sources)


def changed_by(case: Case, answer: str) -> Tree | None:
    """The repository with the answer's functions in the place of those of the same name; None when nothing fits.

    Where there is one source and it is not Python, the answer takes its place.
    """
    blocks = _FENCE.findall(answer) or [answer]
    if len(case.sources) == 1 and not case.sources[0].endswith(".py"):
        return {**case.repository, case.sources[0]: blocks[0].encode()}
    for block in blocks:
        for path in case.sources:
            text, codec = text_of(case.repository[path])
            try:
                new = spliced(text, block)
                if new is not None:
                    return {**case.repository, path: new.encode(codec)}
            except (SyntaxError, ValueError):
                continue
    return None


def spliced(text: str, code: str) -> str | None:
    """Every function of `code` in the place of the one of that name in `text`; None when there is none. Raises SyntaxError."""
    end = "\r\n" if "\r\n" in text else "\n"
    text, code = text.replace("\r\n", "\n"), code.replace("\r\n", "\n")
    known: dict[str, list[ast.stmt]] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            known.setdefault(node.name, []).append(node)
    lines, news, parts = text.split("\n"), code.split("\n"), []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and len(known.get(node.name, ())) == 1:
            parts.append((known[node.name][0], news[node.lineno - 1:node.end_lineno], node.col_offset))
    if not parts:
        return None
    for old, body, indent in sorted(parts, key=lambda part: -part[0].lineno):
        shift = old.col_offset - indent
        moved = [" " * shift + line if shift > 0 else line[-shift:] for line in body]
        lines[old.lineno - 1:old.end_lineno] = [line if line.strip() else "" for line in moved]
    return "\n".join(lines).replace("\n", end)
