"""Configuration files of the servers: the templates of infra/, filled in."""

from pathlib import Path
from string import Template

from autopatch.cli.lab.programs import ROOT
from autopatch.contract.errors import OperatorError


def render(template: str, into: Path, **values: str | int) -> Path:
    """infra/`template` with its placeholders filled in, written to `into`. Raises OperatorError when one is missing."""
    source = ROOT / "infra" / template
    try:
        text = Template(source.read_text()).substitute(values)
    except OSError as error:
        raise OperatorError(f"{source}: {error.strerror}", tip="run this from a clone of the repository") from error
    except (KeyError, ValueError) as error:
        raise OperatorError(f"{source}: placeholder {error} has no value") from error
    into.parent.mkdir(parents=True, exist_ok=True)
    into.write_text(text)
    return into
