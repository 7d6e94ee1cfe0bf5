"""What the runs of a rehearsal prove. Pure."""

from collections.abc import Sequence
from typing import Literal

from autopatch.contract.evidence import RehearsalRun

Label = Literal["unchanged", "changed"]


def outcome_of(exit_code: int | None) -> Literal["green", "red", "error"]:
    """0 is green, 1 is red, everything else is neither."""
    return "green" if exit_code == 0 else "red" if exit_code == 1 else "error"


def not_passed(runs: Sequence[RehearsalRun]) -> str:
    """Why the runs so far prove nothing; '' while they do."""
    for run in runs:
        wanted = "red" if run.label == "unchanged" else "green"
        if run.outcome == "error":
            last = run.output.splitlines()[-1] if run.output else "no output"
            code = f"exit code {run.exit_code}" if run.exit_code is not None else "no exit code"
            return f"the rehearsal of the {run.label} copy ended by an error: {code}: {last}"
        if run.outcome != wanted:
            if run.label == "unchanged":
                return "the fault does not show in the rehearsal: the unchanged copy is green"
            return f"the plan does not help in the rehearsal: the changed copy is still red{_shown(run)}"
    return ""


def _shown(run: RehearsalRun) -> str:
    return f" ({', '.join(f'{name} {value:g}' for name, value in run.figures.items())})" if run.figures else ""
