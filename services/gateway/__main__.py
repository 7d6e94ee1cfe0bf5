"""python -m services.gateway"""

from autopatch.chassis.main import run
from services.gateway.service import build
from services.gateway.settings import Settings

raise SystemExit(run("gateway", Settings, build))
