"""python -m services.knowledge"""

from autopatch.chassis.main import run
from services.knowledge.service import build
from services.knowledge.settings import Settings

raise SystemExit(run("knowledge", Settings, build))
