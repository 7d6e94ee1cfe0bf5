"""Programs that no package brings, and the images of the sandbox and the demo service."""

import shutil

from autopatch.cli.lab.docker import Engine
from autopatch.contract.errors import AutoPatchError
from infra.setup.steps import CACHE, LOGS, ROOT, Failed, Report, Stamp, run

BIN = CACHE / "bin"
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
    sources = sorted(p for folder in ("images", "demo") for p in (ROOT / "infra" / folder).rglob("*") if p.is_file() and p.suffix != ".pyc")
    stamp = Stamp("images", *sources)
    if stamp.fresh:
        return
    engine = Engine(log=LOGS / "images.log")
    try:
        with report.doing("images", "building the sandbox and the demo service (from Debian packages, unless AUTOPATCH_BASE_IMAGE is set)"):
            engine.start()
            try:
                engine.build_images()
            finally:
                engine.stop()
    except AutoPatchError as error:
        raise Failed(f"images: {error}; log: {LOGS / 'images.log'}") from error
    stamp.set()
