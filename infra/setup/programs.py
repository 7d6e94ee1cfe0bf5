"""Programs that no package brings, and the images of the sandbox and the demo service."""

import shutil

from autopatch.cli.lab.docker import Engine
from autopatch.contract.errors import AutoPatchError
from infra.setup.steps import CACHE, LOGS, ROOT, Failed, Report, Stamp, run

BIN = CACHE / "bin"
NEARBY = ROOT.parent / "shared" / "bin" / "unpack"
"""A folder beside the repository may hold servers for tests."""


WITHOUT = {
    "jaeger": "traces are not stored; put Jaeger 2 on the path to have them",
    "runsc": "the sandbox uses the engine's default runtime; gVisor's runsc on the path would harden it",
    "prometheus": "tests use the installed Prometheus only",
}
"""What is less without a program. The third is a second, newer Prometheus, for tests."""


def unpack(report: Report, profile: str) -> None:
    """What can be had of these goes into .cache/bin; the rest is named with what is less without it."""
    for name, less in WITHOUT.items():
        second = name == "prometheus"
        if (second and profile == "demo") or (BIN / name).exists() or (not second and shutil.which(name)):
            continue
        if NEARBY.exists():
            with report.doing("programs", f"unpacking {name}"):
                run(f"programs-{name}", [NEARBY, BIN, name])
        else:
            report.say("programs", f"no {name} here: {less}")


def images(report: Report) -> None:
    """Build what is out of date, with the engine that answers or a private one, which is stopped again."""
    files = [path for folder in ("images", "demo") for path in (ROOT / "infra" / folder).rglob("*")]
    stamp = Stamp("images", *sorted(path for path in files if path.is_file() and path.suffix != ".pyc"))
    if stamp.fresh:
        return
    engine = Engine(log=LOGS / "images.log")
    try:
        with report.doing("images", "building sandbox and demo service (of Debian packages unless AUTOPATCH_BASE_IMAGE is set)"):
            engine.start()
            try:
                engine.build_images()
            finally:
                engine.stop()
    except AutoPatchError as error:
        raise Failed(f"images: {error}; log: {LOGS / 'images.log'}") from error
    stamp.set()
