"""One repair from the command line to its verdict and what was to become of it."""

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autopatch.chassis.llm.settings import LlmSettings
from autopatch.chassis.settings import load
from autopatch.cli import progress, snapshot, testing
from autopatch.cli.asking import Asking, Limits, Mode, Result
from autopatch.cli.client import Gateway, Session
from autopatch.cli.delivering import Delivered, Wishes, deliver
from autopatch.cli.errors import FAILED, UNREACHABLE, Usage
from autopatch.cli.output import Output
from autopatch.cli.progress import Progress
from autopatch.contract.code import Toolchain
from autopatch.contract.errors import AutoPatchError, OperatorError

ISSUE = 8000
"""Characters of an issue that travel."""


@dataclass(frozen=True)
class Options:
    """What the command line said."""

    repository: Path
    test: str
    issue: str
    image: str
    toolchain: Toolchain | None
    limits: Limits
    wishes: Wishes
    model: Mode | None


def perform(options: Options, root: dict[str, Any], out: Output) -> int:
    """The exit code. Raises Usage, Unavailable and what delivering raises."""
    shown = Progress(out, time.monotonic())
    gateway, environment = _gateway(options, Session(**root), shown), dict(os.environ)
    if gateway is None:
        _check_model(options.model)
    asked: list[Asking] = []

    def prepare() -> Asking:
        asked.append(_asking(options, environment, shown))
        return asked[0]

    try:
        with shown.shown():
            result = _worked(options, gateway, prepare, shown)
    except KeyboardInterrupt:
        result = Result.unbegun(options.repository.name)
    finally:
        if gateway is not None:
            gateway.close()
    code = _ended(options, result, asked, environment, shown, out)
    if gateway is None:
        _leave(code)
    return code


def _ended(
    options: Options, result: Result, asked: list[Asking], environment: Mapping[str, str], shown: Progress, out: Output
) -> int:
    """Tells the verdict, then does what was asked for."""
    fixed, delivered, failed = result.verdict.verdict == "fixed", Delivered(), dict[str, str]()
    if not out.json:
        progress.verdict(out, result, shown.seconds)
    try:
        if fixed:
            deliver(options.wishes, result, asked[0].snapshot, environment, delivered)
    except AutoPatchError as error:
        if not out.json:
            raise
        failed = {"error": str(error.args[0]), "tip": error.tip}
    finally:
        for line in delivered.lines():
            out.say((line, "bold"))
    if options.wishes.any and not fixed and not out.json:
        out.note("there is no fix: nothing was written, committed or applied")
    if out.json:
        told = {name: value for name, value in asdict(delivered).items() if value}
        out.data({**result.verdict.model_dump(mode="json"), **({"delivered": told} if told else {}), **failed})
    if result.verdict.verdict == "sandbox_unavailable":
        return UNREACHABLE
    return 0 if fixed and not failed else FAILED


def _worked(options: Options, gateway: Gateway | None, prepare: Any, shown: Progress) -> Result:
    if gateway is not None:
        from autopatch.cli import remote

        return remote.run(gateway, prepare(), shown.tell, shown.note)
    from autopatch.cli import private

    return private.run(prepare, options.model, shown.tell, shown.note)


def _gateway(options: Options, session: Session, shown: Progress) -> Gateway | None:
    """The configured one; none when only an `autopatch up` of earlier is known that has ended, or a model was named."""
    configured = session.configured()
    if configured == "said" and options.model:
        raise Usage("--model: the gateway's own settings say which model is asked", tip="leave --model or the gateway out")
    if not configured or options.model:
        return None
    gateway = Gateway(*session.connection(), timeout_s=120)
    if configured == "kept" and not gateway.alive():
        gateway.close()
        shown.note(f"nothing answers at {gateway.url}: a private AutoPatch does it")
        return None
    return gateway


def _check_model(mode: Mode | None) -> None:
    """Before anything begins. Raises Usage for settings that are not complete, Unavailable for a model that is not there."""
    try:
        settings: LlmSettings = load(LlmSettings, **({"mode": mode} if mode else {}))
    except OperatorError as error:
        raise Usage(str(error.args[0]), tip=error.tip) from None
    if settings.mode != "off":
        from autopatch.cli.findings import model

        model(settings)


def _asking(options: Options, environment: Mapping[str, str], shown: Progress) -> Asking:
    """Raises Usage: whatever is wrong here was wrong on the command line."""
    try:
        tests = testing.said(options.test, options.toolchain) if options.test else None
        issue = _issue(options.issue)
        taken = snapshot.take(options.repository, environment)
        options.wishes.check(taken, environment)
        tests = testing.unfolded(tests, taken.files) if tests else testing.guessed(taken.files, options.toolchain)
        made = Asking(taken, tests, issue, options.image, options.limits)
        made.body()
    except OperatorError as error:
        raise Usage(str(error.args[0]), tip=error.tip) from None
    progress.snapshot(shown, taken)
    if tests.why:
        shown.note(f"tests are run by `{' '.join(tests.command)}`: {tests.why}; --test says otherwise")
    return made


def _issue(given: str) -> str:
    """The text, or what is in the file of that name."""
    path = Path(given)
    try:
        text = path.read_text(errors="replace") if given and len(given) < 500 and path.is_file() else given
    except OSError as error:
        raise OperatorError(f"--issue {given}: {error.strerror}", tip="name a file that can be read, or give the text") from None
    if len(text) > ISSUE:
        raise OperatorError(f"--issue: {len(text)} characters, at most {ISSUE} travel", tip="leave logs out, say what is wrong")
    return text


def _leave(code: int) -> None:
    """All is told and stopped: an interpreter that takes itself apart, and threads that still read, are not waited for."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
