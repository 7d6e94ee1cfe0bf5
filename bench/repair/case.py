"""A case: a repository as it is given to a tool, and the tests that the tool never sees."""

import difflib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from autopatch.contract.code import Kind, Toolchain
from autopatch.contract.errors import OperatorError
from autopatch.repair.paths import is_test, steers_tools
from autopatch.repair.tree import Tree, unfit_path

HIDDEN = "hidden_tests"
"""Where the hidden tests lie when a result is judged, relative to the repository."""
_LEAVINGS = {".git", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", "node_modules"}
_LARGEST = 4 * 1024 * 1024


@dataclass(frozen=True)
class Case:
    """`tests` and `hidden_tests` count what a run must report as passed. `expected` is None where the first run tells it."""

    id: str
    repository: Tree
    command: tuple[str, ...]
    tests: int
    hidden: Tree = field(default_factory=dict)
    hidden_command: tuple[str, ...] = ()
    hidden_tests: int = 0
    toolchain: Toolchain = "python"
    expected: Kind | None = None
    kinds: tuple[str, ...] = ()

    @property
    def sources(self) -> list[str]:
        """Files that may be edited, for tools that want them named."""
        code = sorted(path for path in self.repository if path.endswith((".py", ".js")))
        return [path for path in code if not protected(path, self.repository)]


def protected(path: str, base: Tree) -> bool:
    """Is it a test, or a file that steers the tools which run tests?"""
    return is_test(path) or steers_tools(path, base) or path.startswith(f"{HIDDEN}/")


def restored(base: Tree, result: Tree) -> dict[str, bytes]:
    """The result with every protected file as the base has it; what was added there is gone."""
    kept = {path: data for path, data in result.items() if not protected(path, base)}
    return {**kept, **{path: data for path, data in base.items() if protected(path, base)}}


def changed(base: Tree, result: Tree) -> list[str]:
    """Paths that were added, removed or have other bytes."""
    return sorted(path for path in base.keys() | result.keys() if base.get(path) != result.get(path))


def changed_lines(base: Tree, result: Tree) -> int:
    """Lines that a unified diff without context adds and removes, line ends included."""
    return sum(_lines(base.get(path, b""), result.get(path, b"")) for path in changed(base, result))


def _lines(before: bytes, after: bytes) -> int:
    old, new = (data.decode("latin-1").split("\n") for data in (before, after))
    parts = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return sum((i2 - i1) + (j2 - j1) for tag, i1, i2, j1, j2 in parts if tag != "equal")


def write(tree: Tree, folder: Path) -> None:
    """Put the files there. Raises OperatorError for a path that leads elsewhere."""
    for path, data in tree.items():
        if why := unfit_path(path):
            raise OperatorError(f"{path!r} {why}")
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)


def read(folder: Path) -> dict[str, bytes]:
    """Regular files up to 4 MiB; no links are followed, and what test runners and git leave behind is passed over."""
    return dict(_read(folder))


def _read(folder: Path) -> Iterator[tuple[str, bytes]]:
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _LEAVINGS and not name.startswith(".aider"))
        for name in sorted(names):
            file = Path(where, name)
            if name.startswith(".aider") or name.endswith(".pyc") or file.is_symlink() or not file.is_file():
                continue
            if file.stat().st_size <= _LARGEST:
                yield file.relative_to(folder).as_posix(), file.read_bytes()
