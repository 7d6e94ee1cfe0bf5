"""Our own small repositories: every folder of `micro/` that holds a case.toml.

repo/ is what a tool is given, hidden/ judges it, fix.patch shows that it can be fixed.
"""

import shlex
import tomllib
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from autopatch.contract.code import Toolchain
from autopatch.contract.errors import OperatorError
from bench.repair.case import HIDDEN, Case, read

FOLDER = Path(__file__).parent / "micro"


class Description(BaseModel):
    """A case.toml. `tests` and `hidden_tests` count tests, `red` those of the visible ones that fail as it is given."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    command: str = Field(min_length=1)
    toolchain: Toolchain
    verdict: Literal["fixed", "not_reproduced", "flaky", "environment_error"]
    kinds: list[str] = Field(min_length=1)
    tests: int = Field(ge=1)
    red: int | None = Field(default=None, ge=0)
    hidden_command: str = ""
    hidden_tests: int = Field(default=0, ge=0)


def described(folder: Path) -> Description:
    """What its case.toml says. Raises OperatorError that names the file and the field."""
    file = folder / "case.toml"
    try:
        return Description.model_validate(tomllib.loads(file.read_text("utf-8")))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise OperatorError(f"{file}: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise OperatorError(f"{file}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def load(folder: Path = FOLDER) -> list[Case]:
    """All cases, by name. Raises OperatorError."""
    return [_case(found.parent, described(found.parent)) for found in sorted(folder.glob("*/case.toml"))]


def _case(folder: Path, text: Description) -> Case:
    hidden = {f"{HIDDEN}/{path}": data for path, data in read(folder / "hidden").items()}
    return Case(
        id=folder.name, repository=read(folder / "repo"), command=tuple(shlex.split(text.command)), tests=text.tests,
        hidden=hidden, hidden_command=tuple(shlex.split(text.hidden_command)), hidden_tests=text.hidden_tests,
        toolchain=text.toolchain, expected=text.verdict, kinds=tuple(text.kinds),
    )
