"""YAML that operators write: its values, and one clear error that names the line where it is none."""

import re
from typing import Any, Literal

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from autopatch.contract.errors import OperatorError

TIP = "check indentation, colons and quotes there"
FAULTS = (YAMLError, ValueError, LookupError, AttributeError, TypeError, AssertionError, RecursionError)
"""What the library raises for text that is no YAML, or whose tags do not fit: a date or a number that is none, `!!int ''`."""


def parsed(text: str, where: str, *, kind: Literal["safe", "rt"] = "safe", tip: str = TIP) -> Any:
    """Plain values, or with `rt` the same with line numbers (`.lc`). Raises OperatorError "WHERE:LINE: not YAML: …"."""
    try:
        return YAML(typ=kind, pure=True).load(text)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        # of a name that is there twice the library tells both values, and they may be secrets
        problem = re.sub(r" with value .*|\n.*", "", str(error.problem), flags=re.DOTALL)
        raise OperatorError(f"{where}:{line}: not YAML: {problem}", tip=tip) from None
    except FAULTS as error:
        raise OperatorError(f"{where}: not YAML: {brief(error)}", tip=tip) from None


def brief(error: Exception) -> str:
    """What it says, in one line."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__
