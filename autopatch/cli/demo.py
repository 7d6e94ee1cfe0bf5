"""`autopatch demo`: a real service breaks and is healed; everything that is shown comes from events and servers."""

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from autopatch.chassis.llm.pull import QWEN
from autopatch.chassis.llm.settings import LlmSettings
from autopatch.chassis.settings import load
from autopatch.cli import render
from autopatch.cli.client import Gateway
from autopatch.cli.errors import Failed
from autopatch.cli.lab.hosted import BASE, Hosted, end, kept, left
from autopatch.cli.lab.lab import Places
from autopatch.cli.output import Json, Output
from autopatch.cli.watching import Episode, Watcher
from autopatch.contract.errors import AutoPatchError, OperatorError
from autopatch.contract.lifecycle import State


SHOWN = ("gateway", "payments", "prometheus", "alertmanager", "jaeger", "nats", "config", "repository")


class Fault(StrEnum):
    """How the service is broken."""

    POOL = "pool"
    RELEASE = "release"
    CODE = "code"


class Model(StrEnum):
    """Which model is asked."""

    OFF = "off"
    LOCAL = "local"
    REMOTE = "remote"


def demo(
    fault: Annotated[
        Fault, typer.Option(help="pool: too much load for its connections. release: a bad release. code: a release that raises.")
    ] = Fault.POOL,
    model: Annotated[Model, typer.Option(help="remote takes its address from AUTOPATCH_LLM_*.")] = Model.OFF,
    repeat: Annotated[int, typer.Option(min=1, max=20, help="The same fault so many times; a repeat uses the lesson.")] = 1,
    keep: Annotated[bool, typer.Option("--keep", help="Leave everything running; `autopatch demo --stop` ends it.")] = False,
    stop: Annotated[bool, typer.Option("--stop", help="End demos that were kept.")] = False,
    as_json: Json = False,
) -> int:
    """Break a real service and watch it being healed. Exit code 0 only when every incident ended as resolved."""
    out = Output(as_json)
    if stop:
        return stop_kept(out)
    _ready_for(model)
    clock = Clock(out)
    hosted = Hosted(model=model.value)
    leave = False
    try:
        places = hosted.start(clock.step)
        episodes = _run(out, clock, hosted, places, fault, repeat)
        leave = keep
    except BaseException as error:
        _logs(out, hosted.folder, error)
        raise
    finally:
        if leave:
            hosted.keep()
            _kept(out, places)
        else:
            _end(clock, hosted)
    healed = _healed(episodes)
    if as_json:
        out.data(report(episodes, clock.seconds, places if leave else None))
    ends = ", ".join(episode.view.state.value for episode in episodes)
    clock.say(f"{'healed' if healed else 'NOT HEALED'}: {ends}", bold=True)
    if not healed:
        out.note("try: once more on a machine that does nothing else; autopatch demo --keep leaves everything there to look at")
        _logs(out, hosted.folder, None)
    elif not leave:
        hosted.discard()
    return 0 if healed else 1


class Clock:
    """Lines with the seconds since the start."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._start

    def say(self, text: str, bold: bool = False) -> None:
        """One line."""
        self._out.say((f"{self.seconds:6.1f} s  ", "dim"), (text, "bold" if bold else ""))

    def step(self, what: str, where: str, seconds: float) -> None:
        """A server is up, or missing."""
        self.say(f"{what:<13}{where}" + (f"  ({seconds:.1f} s)" if seconds else ""))


def _run(out: Output, clock: Clock, hosted: Hosted, places: Places, fault: Fault, repeat: int) -> list[Episode]:
    """One episode after the other, until one is not resolved."""
    watcher = Watcher(places, Gateway(places.gateway, places.token), clock.say, hosted.check)
    episodes: list[Episode] = []
    for number in range(repeat):
        if number:
            clock.say("the service is put back as it was, and breaks once more", bold=True)
            hosted.tell("heal")
        watcher.wait_healthy()
        episode = watcher.episode(fault.value, lambda: hosted.tell(f"fault {fault.value}"))
        episodes.append(episode)
        _show(out, clock, episode)
        if episode.view.state is not State.RESOLVED:
            break
    return episodes


def _show(out: Output, clock: Clock, episode: Episode) -> None:
    if out.json:
        return
    render.view(out, episode.view)
    out.say("")
    for line in episode.summary():
        clock.say(line)


def _ready_for(model: Model) -> None:
    if model is Model.LOCAL:
        settings: LlmSettings = load(LlmSettings)
        file = settings.model_dir / QWEN.file
        if not file.is_file():
            raise OperatorError(f"the local model is not there ({file})", tip="autopatch model pull")


def report(episodes: list[Episode], seconds: float, places: Places | None) -> dict[str, Any]:
    """For --json. `places`: of a demo that was left running."""
    kept_at = {"kept": {"state": f"{places.folder}/state", **_where(places)}} if places else {}
    return {"ok": _healed(episodes), "seconds": round(seconds, 1), "episodes": [e.report() for e in episodes], **kept_at}


def _healed(episodes: list[Episode]) -> bool:
    return all(episode.view.state is State.RESOLVED for episode in episodes)


def _where(places: Places) -> dict[str, str]:
    return {name: str(getattr(places, name)) for name in SHOWN if getattr(places, name)}


def _end(clock: Clock, hosted: Hosted) -> None:
    """Stop everything, and look whether it is gone."""
    hosted.stop()
    _nothing_left(left(hosted.places), hosted.log)
    clock.say("everything stopped, nothing left running")


def _nothing_left(still: list[str], log: Path) -> None:
    if still:
        raise Failed(f"still there: {', '.join(still)}", tip=f"end it by hand; {log} may say why it stayed")


def _kept(out: Output, places: Places) -> None:
    out.head("Kept running")
    out.table(("WHAT", "WHERE"), list(_where(places).items()))
    out.say(f"\n  export AUTOPATCH_STATE={places.folder}/state   # then: autopatch incidents list")
    out.say(f"  export AUTOPATCH_CONFIG={places.folder}/autopatch.yaml   # then: autopatch doctor")
    out.say("  autopatch demo --stop                          # ends it")


def stop_kept(out: Output, base: Path = BASE) -> int:
    """End the demos that were kept, and look whether they are gone."""
    stopped, still = list[str](), list[str]()
    for places, pid in kept(base):
        name = Path(places.folder).name
        with out.busy(f"stopping {name}"):
            end(pid)
        still += left(places)
        stopped.append(name)
    _nothing_left(still, base / "lab-host.log")
    if out.json:
        out.data({"stopped": stopped})
    out.say(f"stopped {', '.join(stopped)}" if stopped else "no demo is running")
    return 0


def _logs(out: Output, folder: Path, error: BaseException | None) -> None:
    """Where to look."""
    if isinstance(error, KeyboardInterrupt):
        return
    found = sorted(folder.rglob("*.log"))
    if found and (error is None or isinstance(error, AutoPatchError)):
        out.note("logs: " + " ".join(str(path) for path in found))
