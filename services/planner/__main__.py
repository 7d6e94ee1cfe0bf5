"""python -m services.planner"""

from autopatch.chassis.main import run
from services.planner.service import build
from services.planner.settings import Settings

raise SystemExit(run("planner", Settings, build))
