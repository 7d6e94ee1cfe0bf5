"""python -m bench.repair --suite micro|humanevalfix --tool autopatch|aider|mini|model-alone --out DIR …"""

import argparse
import asyncio
import hashlib
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import SecretStr
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from autopatch.chassis.llm.endpoint import Endpoint
from autopatch.chassis.llm.local import LocalServer
from autopatch.chassis.llm.settings import LlmSettings
from autopatch.chassis.settings import load
from autopatch.contract.errors import AutoPatchError, OperatorError
from bench.repair import humanevalfix, micro, report
from bench.repair.boxes import Place, place
from bench.repair.case import Case
from bench.repair.machine import machine
from bench.repair.proxy import Proxy
from bench.repair.results import Log, Result, Setup
from bench.repair.runner import Seen, chosen, run_all
from bench.repair.tools import Tool
from bench.repair.tools.aider import Aider
from bench.repair.tools.autopatch import AutoPatch
from bench.repair.tools.mini import Mini
from bench.repair.tools.plain import Plain

KEY = "AUTOPATCH_LLM_API_KEY"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser("python -m bench.repair", description="Measure code repair. A run that was stopped goes on.")
    made.add_argument("--suite", choices=["micro", "humanevalfix"], default="micro")
    made.add_argument("--data", type=Path, help="folder with cases.jsonl; suite humanevalfix")
    made.add_argument("--tool", choices=["autopatch", "aider", "mini", "model-alone"], default="autopatch")
    made.add_argument("--mode", choices=["off", "local"], default="off", help="off asks no model; tool autopatch only")
    made.add_argument("--cases", type=int, default=0, help="draw so many; 0: all")
    made.add_argument("--seed", type=int, default=7, help="of the draw and of sampling")
    made.add_argument("--limit-s", type=float, default=120, help="seconds for one case")
    made.add_argument("--out", type=Path, required=True, help="folder for results; several runs in one are reported side by side")
    made.add_argument("--judge", choices=["auto", "container", "process"], default="auto")
    made.add_argument("--gateway", default="", help="URL of a running gateway, whose token is in AUTOPATCH_TOKEN; tool autopatch")
    made.add_argument("--edits", choices=["whole", "diff"], default="whole", help="edit format; tool aider")
    made.add_argument("--endpoint", default="", help=f"another model server's URL with /v1; its key in {KEY}")
    made.add_argument("--endpoint-model", default="local", help="the model's name there")
    made.add_argument("--longest", type=int, default=1024, help="tokens of one answer, of tools that do not bound it lower")
    return made


def cases_of(given: argparse.Namespace) -> tuple[list[Case], str]:
    """The suite's cases, and the digest of the data that they came from."""
    if given.suite == "micro":
        return micro.load(), ""
    if given.data is None:
        raise OperatorError("suite humanevalfix needs its data", tip="--data FOLDER, with cases.jsonl in it")
    cases = humanevalfix.load(given.data)
    return cases, hashlib.sha256((given.data / "cases.jsonl").read_bytes()).hexdigest()[:16]


@contextmanager
def serving(given: argparse.Namespace) -> Iterator[Endpoint | None]:
    """The model server for the whole run: the one that is named or runs, else one of our own. None in mode off."""
    if given.mode == "off":
        yield None
    elif given.endpoint:
        yield Endpoint(given.endpoint.rstrip("/"), given.endpoint_model, SecretStr(os.environ.get(KEY, "none")))
    else:
        settings: LlmSettings = load(LlmSettings)
        with asyncio.Runner() as runner:
            server = LocalServer.of(settings)
            try:
                yield runner.run(server.ready())
            finally:
                runner.run(server.close())


def tool_of(given: argparse.Namespace, endpoint: Endpoint | None, at: Place) -> Tool:
    """Raises OperatorError when tool and mode do not go together, Unavailable without the tool."""
    if given.tool == "autopatch" and given.endpoint:
        raise OperatorError("--endpoint is for other tools: AutoPatch would ask its own model", tip="leave it out")
    if given.tool != "autopatch" and endpoint is None:
        raise OperatorError(f"{given.tool} does nothing without a model", tip="--mode local")

    def counting() -> Proxy:
        assert endpoint
        return Proxy(endpoint, longest=given.longest, seed=given.seed)

    if given.tool == "autopatch":
        ours = AutoPatch(given.mode, given.gateway, given.seed, at.host, counting if endpoint and not given.gateway else None)
        ours.check()
        return ours
    if given.tool == "aider":
        return Aider(counting, given.edits)
    return Mini(counting, at.host, at.images or {}) if given.tool == "mini" else Plain(counting, at.box)


@contextmanager
def bar(console: Console) -> Iterator[Seen]:
    """On standard error: cases that are finished, how many are right, time left."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("begins", total=None)
        right = [0]

        def seen(result: Result | None, finished: int, total: int) -> None:
            if result:
                right[0] += result.right
                word = "right" if result.right else "wrong"
                progress.console.print(f"{result.case:24} {word} {result.seconds:7.1f} s  {result.verdict}", markup=False)
            progress.update(task, completed=finished, total=total, description=f"{right[0]} right")

        yield seen


def measure(given: argparse.Namespace) -> Path:
    """Run what is missing; the path of the report."""
    cases, data = cases_of(given)
    cases = chosen(cases, given.cases, given.seed)
    given.out.mkdir(parents=True, exist_ok=True)
    contained = given.tool == "mini" or (given.tool == "autopatch" and not given.gateway)
    with place(given.judge, engine_too=contained) as at, serving(given) as endpoint:
        tool = tool_of(given, endpoint, at)
        edits = f"-{given.edits}" if given.tool == "aider" else ""
        setup = Setup(
            suite=given.suite, tool=tool.name + edits, mode=given.mode, how=tool.how, seed=given.seed, limit_s=given.limit_s,
            cases=len(cases), data=data, model=endpoint.model if endpoint else "", judge=at.box.name, machine=machine(),
        )
        log = Log(given.out / f"{given.suite}-{setup.tool}-{given.mode}-{given.seed}.jsonl", setup)
        with bar(Console(stderr=True, highlight=False)) as seen:
            run_all(cases, tool, at.box, log, given.limit_s, seen)
    return report.write(given.out)


def main() -> int:
    """Exit code 0 when all cases are finished, however they ended."""
    given = parser().parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was started is ended, too
    try:
        print(measure(given))
    except AutoPatchError as error:
        print(f"bench.repair: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bench.repair: stopped; the same command goes on", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
