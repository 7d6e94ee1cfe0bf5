"""`python -m services.validator`."""

from autopatch.chassis.main import run
from services.validator.service import build
from services.validator.settings import Settings

if __name__ == "__main__":
    raise SystemExit(run("validator", Settings, build))
