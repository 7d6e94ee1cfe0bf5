"""The executor alone: python -m services.executor."""

from autopatch.chassis.main import run
from services.executor.service import build
from services.executor.settings import Settings

raise SystemExit(run("executor", Settings, build))
