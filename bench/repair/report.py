"""Results as JSON and as Markdown: every run in a folder side by side, with intervals. Pure but for reading and writing files."""

import json
import os
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from bench.repair.results import Result, Setup, read
from bench.repair.stats import Share, mcnemar, quantile, wilson

Run = tuple[Setup, list[Result]]
NAMES = ("report.md", "report.json")


def summary(setup: Setup, results: Sequence[Result]) -> dict[str, Any]:
    """The figures of one run. Shares are of the cases where a fix is due; `others` are those where none is."""
    due = [r for r in results if r.expected == "fixed"]
    others = [r for r in results if r.expected != "fixed"]
    plausible = [r for r in due if r.plausible]
    solved = [r for r in due if r.solved]
    return {
        "setup": setup.model_dump(),
        "finished": len(results),
        "due": len(due),
        "solved": _share(wilson(len(solved), len(due))),
        "plausible": _share(wilson(len(plausible), len(due))),
        "hidden_of_plausible": _share(wilson(len(solved), len(plausible))),
        "overfit": sum(r.overfit for r in due),
        "claimed_in_vain": sum(r.verdict == "fixed" and not r.plausible for r in results),
        "others": {"cases": len(others), "left_alone": sum(not r.changed for r in others), "right": sum(r.right for r in others)},
        "attempts": _spread([r.attempts for r in due]),
        "calls": _spread([r.calls for r in due]),
        "prompt_tokens": _spread([r.prompt_tokens for r in due]),
        "output_tokens": _spread([r.output_tokens for r in due]),
        "seconds": _spread([r.seconds for r in due]),
        "diff_lines": _spread([r.diff_lines for r in solved]),
        "tests_touched": sum(bool(r.touched) for r in results),
        "late": sum(r.late for r in results),
        "leaked": sum(r.leaked for r in results),
    }


def _share(share: Share) -> dict[str, Any]:
    return {"hits": share.hits, "of": share.total, "share": share.value, "low": share.low, "high": share.high}


def _spread(values: Sequence[float]) -> dict[str, Any]:
    total = round(sum(values), 2)
    return {"sum": total, "median": quantile(values, 0.5), "p95": quantile(values, 0.95), "max": max(values, default=None)}


def title(setup: Setup) -> str:
    """What a run is called beside others."""
    return f"{setup.tool} {setup.mode}"


def compared(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Each two runs of one suite on the cases that both have and where a fix is due: exact McNemar test."""
    found = []
    for (first, one), (second, two) in combinations(runs, 2):
        if first.suite == second.suite:
            pair = mcnemar(*({r.case: r.solved for r in some if r.expected == "fixed"} for some in (one, two)))
            found.append({
                "suite": first.suite, "first": _label(first), "second": _label(second), "cases": pair.cases,
                "only_first": pair.only_first, "only_second": pair.only_second, "difference": pair.difference, "p": pair.p,
            })
    return found


def _label(setup: Setup) -> str:
    return f"{title(setup)}, seed {setup.seed}"


def markdown(runs: Sequence[Run]) -> str:
    """For people."""
    parts = ["# Code repair"]
    for suite in dict.fromkeys(setup.suite for setup, _ in runs):
        own = [(setup, results) for setup, results in runs if setup.suite == suite]
        found = [(_label(setup), summary(setup, results)) for setup, results in own]
        parts += [f"## {suite}", _quality(found), _cost(found), "\n".join(_note(name, one) for name, one in found)]
    if pairs := compared(runs):
        rows = [
            [p["suite"], p["first"], p["second"], str(p["cases"]), str(p["only_first"]), str(p["only_second"]),
             f"{p['difference']:+.1%}", f"{p['p']:.3g}"] for p in pairs
        ]
        head = ["suite", "first", "second", "cases", "only first", "only second", "difference", "p"]
        why = "Exact McNemar test, two-sided, on the cases that both were given and where a fix is due."
        parts += ["## Side by side", why, _table(head, rows, 3)]
    return "\n\n".join(parts) + "\n"


def _quality(found: Sequence[tuple[str, dict[str, Any]]]) -> str:
    head = ["run", "solved (hidden tests)", "plausible (visible)", "hidden of plausible", "overfit", "claimed in vain"]
    head += ["no fix due: right", "tests touched"]
    rows = [
        [name, *(_percent(one[key]) for key in ("solved", "plausible", "hidden_of_plausible")), str(one["overfit"]),
         str(one["claimed_in_vain"]), f"{one['others']['right']}/{one['others']['cases']}", str(one["tests_touched"])]
        for name, one in found
    ]
    return _table(head, rows, 1)


def _cost(found: Sequence[tuple[str, dict[str, Any]]]) -> str:
    head = ["run", "attempts", "model calls", "prompt tokens", "output tokens", "seconds: median", "p95"]
    head += ["lines changed: median", "out of time", "leaked"]
    rows = [
        [name, *(f"{one[key]['sum']:.12g}" for key in ("attempts", "calls", "prompt_tokens", "output_tokens")),
         _number(one["seconds"]["median"]), _number(one["seconds"]["p95"]), _number(one["diff_lines"]["median"]),
         str(one["late"]), str(one["leaked"])]
        for name, one in found
    ]
    return _table(head, rows, 1)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], words: int) -> str:
    """The first columns, `words` of them, are text; the others are numbers, right-aligned."""
    under = ["---" if at < words else "--:" for at in range(len(head))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, under, *rows))


def _note(name: str, one: dict[str, Any]) -> str:
    setup = one["setup"]
    where = ", ".join(f"{key} {value}" for key, value in setup["machine"].items())
    asked = f", model {setup['model']}" if setup["model"] else ""
    done = f"{one['finished']} of {setup['cases']} cases finished, at most {setup['limit_s']:g} s each"
    return f"- {name}: {setup['how']}{asked}; {done}; judged in {setup['judge']}. Machine: {where}."


def _percent(share: dict[str, Any]) -> str:
    if not share["of"]:
        return "none"
    return f"{share['hits']}/{share['of']} = {share['share']:.1%} ({share['low']:.0%} to {share['high']:.0%})"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}"


def write(folder: Path) -> Path:
    """Both reports of every run in the folder, each replaced whole; the Markdown's path."""
    runs = [run for run in map(read, sorted(folder.glob("*.jsonl"))) if run[1]]
    data = {"runs": [{**summary(*run), "results": [r.model_dump() for r in run[1]]} for run in runs], "compared": compared(runs)}
    for name, text in zip(NAMES, (markdown(runs), json.dumps(data, indent=1) + "\n"), strict=True):
        draft = folder / f".{name}.draft"
        draft.write_text(text, "utf-8")
        os.replace(draft, folder / name)
    return folder / NAMES[0]
