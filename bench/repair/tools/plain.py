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
    """Every function of `code` in the place of the one of that name in `text`; None when there is none. Raises SyntaxError.

    Imports that only `code` has are added behind those of `text`.
    """
    end = "\r\n" if "\r\n" in text else "\n"
    text, code = text.replace("\r\n", "\n"), code.replace("\r\n", "\n")
    old, new = ast.parse(text), ast.parse(code)
    lines, answer = text.split("\n"), code.split("\n")
    by_name: dict[str, list[_Function]] = {}
    for function in _functions(old):
        by_name.setdefault(function.name, []).append(function)
    pairs = [(by_name[new_one.name][0], new_one) for new_one in _functions(new) if len(by_name.get(new_one.name, ())) == 1]
    if not pairs:
        return None
    for place, function in sorted(pairs, key=lambda pair: -pair[0].lineno):
        body = answer[function.lineno - 1:function.end_lineno]
        lines[place.lineno - 1:place.end_lineno] = _moved(body, place.col_offset - function.col_offset)
    known = {ast.unparse(node) for node in _imports(old)}
    added = [line for node in _imports(new) if (line := ast.unparse(node)) not in known]
    at = max((node.end_lineno or 0 for node in old.body[:1] + _imports(old) if _opens(node)), default=0)
    return "\n".join([*lines[:at], *added, *lines[at:]]).replace("\n", end)


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _functions(tree: ast.Module) -> list[_Function]:
    """Those of the module and of its classes."""
    bodies = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef))]
    return [node for body in bodies for node in body if isinstance(node, _Function)]


def _imports(tree: ast.Module) -> list[ast.stmt]:
    return [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]


def _opens(node: ast.stmt) -> bool:
    """Is it an import or a docstring?"""
    return isinstance(node, ast.Import | ast.ImportFrom) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _moved(body: list[str], shift: int) -> list[str]:
    moved = (" " * shift + line if shift > 0 else line[-shift:] for line in body)
    return [line if line.strip() else "" for line in moved]
