"""Which box judges: the engine's containers where there is an engine, else sealed processes."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from autopatch.cli.lab.docker import Engine
from autopatch.contract.errors import Unavailable
from bench.repair.box import Box, ContainerBox, ProcessBox
from bench.repair.proc import Ran


@dataclass(frozen=True)
class Place:
    """A box, and the engine behind it: '' and no images without one."""

    box: Box
    host: str = ""
    images: Mapping[str, str] | None = None


@dataclass
class EitherBox:
    """Containers for toolchains that have an image, processes for the others."""

    containers: ContainerBox
    processes: ProcessBox

    @property
    def name(self) -> str:
        """Both, where both are used."""
        if "node" in self.containers.images:
            return self.containers.name
        return f"{self.containers.name}, Node in {self.processes.name}"

    def run(self, files: Mapping[str, bytes], command: Sequence[str], limit_s: float) -> Ran:
        """As the box that fits."""
        node = command[0] == "node" and "node" not in self.containers.images
        return (self.processes if node else self.containers).run(files, command, limit_s)


@contextmanager
def place(wanted: str, *, engine_too: bool = False) -> Iterator[Place]:
    """`wanted` is container, process or auto: containers if there can be any. With `engine_too` a tool needs the engine anyway.

    Raises Unavailable where containers or an engine are asked for and cannot be had.
    """
    if wanted == "process" and not engine_too:
        yield Place(ProcessBox())
        return
    engine = Engine()
    try:
        try:
            engine.start()
            images = by_toolchain(engine.build_images())
        except Unavailable:
            if wanted == "container" or engine_too:
                raise
            yield Place(ProcessBox())
            return
        containers = EitherBox(ContainerBox(engine.host, images), ProcessBox())
        yield Place(ProcessBox() if wanted == "process" else containers, engine.host, images)
    finally:
        engine.stop()


def by_toolchain(names: Sequence[str]) -> dict[str, str]:
    """The images to run tests in, among those that were built. Raises Unavailable when Python's is not among them."""
    sandbox = [name for name in names if name.split(":")[0].startswith(("autopatch-sandbox", "autopatch-node"))]
    node = [name for name in sandbox if "node" in name.split(":")[0]]
    python = [name for name in sandbox if name not in node]
    if not python:
        raise Unavailable("docker", f"no sandbox image among {', '.join(names) or 'none'}", tip="infra/images/build.sh makes it")
    return {"python": python[0], **({"node": node[0]} if node else {})}
