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
def place(wanted: str) -> Iterator[Place]:
    """`wanted` is container, process or auto: containers if there can be any. Raises Unavailable for a container without."""
    if wanted == "process":
        yield Place(ProcessBox())
        return
    engine = Engine()
    try:
        try:
            engine.start()
            images = _by_toolchain(engine.build_images())
        except Unavailable:
            if wanted == "container":
                raise
            yield Place(ProcessBox())
            return
        yield Place(EitherBox(ContainerBox(engine.host, images), ProcessBox()), engine.host, images)
    finally:
        engine.stop()


def _by_toolchain(names: list[str]) -> dict[str, str]:
    """The sandbox's images among those that were built."""
    sandbox = [name for name in names if "sandbox" in name]
    node = [name for name in sandbox if "node" in name]
    python = [name for name in sandbox if name not in node]
    return {**({"python": python[0]} if python else {}), **({"node": node[0]} if node else {})}
