"""`python -m services.monitor`."""

from autopatch.chassis.main import run
from services.monitor.service import build
from services.monitor.settings import Settings

if __name__ == "__main__":
    raise SystemExit(run("monitor", Settings, build))
