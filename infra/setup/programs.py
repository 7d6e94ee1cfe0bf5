"""Programs that no package brings, and the images of the sandbox and the demo service."""

import shutil
from pathlib import Path

from infra.setup.steps import CACHE, ROOT, Report, run

BIN = CACHE / "bin"
ENGINE = CACHE / "engine"
NEARBY = ROOT.parent / "shared" / "bin" / "unpack"
"""A folder beside the repository may hold servers for tests."""


def unpack(report: Report) -> None:
    """Jaeger, a second Prometheus and gVisor, where they can be had; without them less is shown or tested, and said so."""
    for name, without in (
        ("jaeger", "traces are not stored; put Jaeger 2 on the path to have them"),
        ("prometheus", "only the installed Prometheus is tested"),
        ("runsc", "the sandbox uses the engine's default runtime; install gVisor's runsc to harden it"),
    ):
        here = (BIN / name).exists() or (name != "prometheus" and shutil.which(name))
        if not here and NEARBY.exists():
            with report.doing("programs", f"unpacking {name}"):
                run("programs", [NEARBY, BIN, name])
        elif not here:
            report.say("programs", f"no {name} here: {without}")


def images(report: Report) -> None:
    """Build what is out of date, with the engine that answers or a private one, which is stopped again."""
    ...
