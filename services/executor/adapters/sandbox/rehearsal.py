"""A plan tried on copies in the sandbox: red with what runs now, green with the plan, or it is not passed."""

import json
from dataclasses import dataclass
from pathlib import Path

from autopatch.chassis import redaction
from autopatch.chassis.telemetry import annotate, span
from autopatch.contract.actions import RollbackRelease
from autopatch.contract.errors import Unavailable
from autopatch.contract.evidence import Rehearsal, RehearsalRun
from autopatch.contract.plan import Plan
from autopatch.contract.target import Rehearse, Target
from services.executor.adapters.delivery.copies import changed, contents, diff
from services.executor.adapters.sandbox.job import Job, Sandbox
from services.executor.adapters.sandbox.judging import Label, not_passed, outcome_of
from services.executor.adapters.sandbox.limits import WORK

TRY_AGAIN = 75
"""A rehearse command's way to say that it could not tell red from green here and now (EX_TEMPFAIL of sysexits.h)."""
SHOWN = 3000
"""Characters of a run's output that its event holds, per stream."""


@dataclass(frozen=True)
class _Copy:
    """What one run is given."""

    label: Label
    release: str
    files: dict[str, bytes]


class SandboxRehearsal:
    """The target's own rehearse command, twice, one after the other so that they don't disturb each other's figures.

    A changed copy that is red is run once more: a single figure may be a busy neighbour's doing, and would speak against
    the plan, and against the lesson that it came from, for good.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    async def __call__(self, target: Target, plan: Plan, release: str) -> Rehearsal:
        """`release`: what runs now. Raises Unavailable without engine or image, OperatorError for unusable files."""
        assert target.rehearse
        files = contents(target)
        releases = [step.action.release for step in plan.steps if isinstance(step.action, RollbackRelease)]
        copies = (
            _Copy("unchanged", release, {name: content.clean for name, content in files.items()}),
            _Copy("changed", releases[-1] if releases else release, changed(plan, files)),
        )
        paths = {name: f"config/{index}-{Path(content.config.path).name}" for index, (name, content) in enumerate(files.items())}
        runs: list[RehearsalRun] = []
        for copy in copies:
            runs.append(await self._run(target.rehearse, copy, paths))
            if not_passed(runs):
                break
        if runs[-1].label == "changed" and runs[-1].outcome == "red":
            again = await self._run(target.rehearse, copies[-1], paths)
            if again.outcome == "green":
                raise Unavailable("sandbox", "the rehearsal could not judge: the changed copy was red once and green once")
            runs.append(again)
        reason = not_passed(runs)
        return Rehearsal(runs=tuple(runs), passed=not reason, reason=reason, diff=diff(plan, files, release))

    async def _run(self, rehearse: Rehearse, copy: _Copy, paths: dict[str, str]) -> RehearsalRun:
        command = [_filled(part, copy.release, paths) for part in rehearse.command]
        image = rehearse.image.replace("{release}", copy.release)
        job = Job(image, tuple(command), rehearse.timeout_s, {paths[name]: data for name, data in copy.files.items()})
        with span("rehearsal run", label=copy.label, release=copy.release, image=image) as current:
            outcome = await self._sandbox.run(job)
            if outcome.exit_code == TRY_AGAIN:
                why = (_short(outcome.stderr) or "no reason given").splitlines()[-1]
                raise Unavailable("sandbox", f"the rehearsal could not judge: {why}")
            figures = figures_of(outcome.stdout)
            verdict = outcome_of(outcome.exit_code)
            annotate(current, outcome=verdict, exit_code=outcome.exit_code, seconds=outcome.seconds, runtime=outcome.runtime)
            annotate(current, **{f"figure_{name}": value for name, value in figures.items()})
        output = "\n".join(part for part in (_short(outcome.stdout), _short(outcome.stderr), outcome.why) if part)
        return RehearsalRun(
            label=copy.label, outcome=verdict, exit_code=outcome.exit_code, seconds=round(outcome.seconds, 3), figures=figures,
            output=output, runtime=outcome.runtime,
        )


def figures_of(stdout: str) -> dict[str, float]:
    """The numbers of the last line that is a JSON object."""
    for line in reversed(stdout.splitlines()):
        if line.startswith("{"):
            try:
                entry = json.loads(line, parse_constant=lambda _: None)
            except ValueError:
                continue
            return {str(k): float(v) for k, v in entry.items() if isinstance(v, int | float) and not isinstance(v, bool)}
    return {}


def _filled(part: str, release: str, paths: dict[str, str]) -> str:
    part = part.replace("{release}", release)
    for name, path in paths.items():
        part = part.replace(f"{{config:{name}}}", f"{WORK}/{path}")
    return part


def _short(text: str) -> str:
    clean = redaction.redact(text).strip()
    if len(clean) <= SHOWN:
        return clean
    return f"{clean[: SHOWN // 2]}\n[...]\n{clean[-SHOWN // 2 :]}"
