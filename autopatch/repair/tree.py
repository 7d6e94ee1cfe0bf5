"""A repository's regular files in memory, and the archive in which they travel."""

from collections.abc import Collection, Iterable, Mapping


Tree = Mapping[str, bytes]
"""Repository-relative POSIX paths and contents. There are no links, folders or devices in it."""


class Files(dict[str, bytes]):
    """A tree that knows which of its files may be executed; all others have mode 100644."""

    def __init__(self, files: Tree | Iterable[tuple[str, bytes]] = (), executable: Collection[str] = ()) -> None:
        super().__init__(files)
        self.executable = frozenset(executable)

    def changed(self, changes: Mapping[str, bytes | None]) -> "Files":
        """A copy in which files have new contents; None removes one. Files keep their modes, new ones have 100644."""
        raise NotImplementedError


def executables(tree: Tree) -> frozenset[str]:
    """Paths with mode 100755: what `Files` says, none of any other mapping."""
    raise NotImplementedError


def read_archive(data: bytes) -> Files:
    """The files of a gzipped tar.

    Raises ContractError that names the entry: links, devices, absolute paths, '..', '.git', duplicates, a file that is also
    a folder, mode bits beyond rwx, sparse files, more than `FILES` files, `FILE_BYTES` a file or `TOTAL_BYTES` in all
    (counted while inflating, so a gzip bomb ends there), anything after the archive's end.
    """
    raise NotImplementedError


def write_archive(tree: Tree) -> bytes:
    """A gzipped tar of the files, sorted, with no times and no owners: equal trees give equal bytes. Raises ContractError."""
    raise NotImplementedError


def tree_digest(tree: Tree) -> str:
    """SHA-256 (hexadecimal) over paths, modes and contents; the order of the mapping does not matter."""
    raise NotImplementedError


def text_of(data: bytes) -> tuple[str, str]:
    """A file's text, line ends as they are, and the codec that gives the same bytes back.

    UTF-8 with or without a byte order mark, else what a coding line names, else Latin-1. Raises ContractError for UTF-16,
    UTF-32 and whatever else holds a NUL byte: that is no text that we edit.
    """
    raise NotImplementedError
