"""`python -m services.diagnosis`."""

from autopatch.chassis.main import run
from services.diagnosis.service import build
from services.diagnosis.settings import Settings

if __name__ == "__main__":
    raise SystemExit(run("diagnosis", Settings, build))
