"""What the command line says when something fails, and with which exit code. No traceback ever reaches a user.

0 done · 1 failed or refused · 2 wrong usage · 3 cannot reach what is needed
"""

import json
import os
import sys
import tempfile
import traceback
from pathlib import Path
from types import TracebackType

from autopatch.contract.errors import AutoPatchError, OperatorError, Refused, Unavailable

FAILED = 1
USAGE = 2
UNREACHABLE = 3


class GatewayRefused(Refused):
    """The gateway answered, and said no; `status` is the HTTP status."""

    def __init__(self, message: str, *, tip: str = "", status: int = 0) -> None:
        super().__init__(message, tip=tip)
        self.status = status


class Usage(OperatorError):
    """What was given on the command line does not do."""


class Failed(AutoPatchError):
    """The command did its work and found that something is wrong."""


def code(error: AutoPatchError) -> int:
    """The exit code for an error."""
    return UNREACHABLE if isinstance(error, Unavailable) else USAGE if isinstance(error, Usage) else FAILED


def tell(error: AutoPatchError, as_json: bool) -> None:
    """One line and its remedy on stderr; with --json one object on stdout."""
    message = str(error.args[0]) if error.args else type(error).__name__
    if as_json:
        try:
            return print(json.dumps({"ok": False, "error": message, "tip": error.tip}), flush=True)
        except OSError:  # a full disk: what is left in the buffer must not fail once more at the end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    print(f"error: {message}", file=sys.stderr)
    if error.tip:
        print(f"  try: {error.tip}", file=sys.stderr)


def unexpected(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """As sys.excepthook: a fault of ours is one line, and its traceback is kept in a file for a report."""
    try:
        # what was typed may be in it, and need not be text
        with tempfile.NamedTemporaryFile(
            "w", prefix="autopatch-", suffix=".log", delete=False, encoding="utf-8", errors="backslashreplace"
        ) as kept:
            kept.writelines(traceback.format_exception(kind, error, trace))
        tip = f"again, or report it with {Path(kept.name)}"
    except OSError as unwritten:
        reason = unwritten.strerror or "no folder can be written to"
        tip = f"again with TMPDIR set to a folder that can be written to; what a report needs could not be kept ({reason})"
    tell(Failed(f"AutoPatch itself failed ({kind.__name__})", tip=tip), "--json" in sys.argv)
