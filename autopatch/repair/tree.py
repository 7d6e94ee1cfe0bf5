"""A repository's regular files in memory, and the archive in which they travel."""

import gzip
import hashlib
import io
import re
import tarfile
import zlib
from collections.abc import Collection, Iterable, Mapping

from autopatch.contract.errors import ContractError

Tree = Mapping[str, bytes]
"""Repository-relative POSIX paths and contents. There are no links, folders or devices in it."""
FILES = 100_000
FILE_BYTES = 8 * 1024**2
TOTAL_BYTES = 96 * 1024**2
LINK, PROVES = "is the copy of a link", "belongs to the tests"
"""Why a file is fixed."""
_ASCII = bytes(range(128))
_CODING = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", re.M)
_HFS_IGNORES = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")


class Files(dict[str, bytes]):
    """A tree that knows which files may be executed, all others have mode 100644; `fixed`: what no repair changes, and why."""

    def __init__(
        self, files: Tree | Iterable[tuple[str, bytes]] = (), executable: Collection[str] = (),
        fixed: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(files)
        self.executable = frozenset(executable)
        self.fixed = dict(fixed or {})

    def changed(self, changes: Mapping[str, bytes | None]) -> "Files":
        """A copy in which files have new contents; None removes one. Files keep their modes, new ones have 100644."""
        kept = {path: content for path, content in {**self, **changes}.items() if content is not None}
        return Files(kept, self.executable & kept.keys(), self.fixed)


def executables(tree: Tree) -> frozenset[str]:
    """Paths with mode 100755: what `Files` says, none of any other mapping."""
    return tree.executable if isinstance(tree, Files) else frozenset()


def fixed(tree: Tree) -> Mapping[str, str]:
    """Paths that no repair changes though their names do not say so, and why: what `Files` says, none of any other mapping."""
    return tree.fixed if isinstance(tree, Files) else {}


def unfit_path(path: str) -> str:
    """Why this is no path of a file in a repository, in a few words; '' when it is one. Knows `.git` in all its spellings."""
    parts = path.split("/")
    if not path or path.startswith("/") or re.match(r"[A-Za-z]:([\\/]|$)", path):
        return "is absolute" if path else "is empty"
    if "" in parts or "." in parts:
        return "is not in its shortest form"
    if ".." in parts or ".." in path.replace("\\", "/").split("/"):
        return "leads out of the repository"
    if any(_is_git(part) for folder in parts for part in folder.split("\\")):
        return "lies in .git"
    if "\0" in path or not _utf8(path):
        return "is not UTF-8 text"
    return "is too long" if len(path.encode()) > 4000 or max(len(part.encode()) for part in parts) > 255 else ""


def _is_git(part: str) -> bool:
    """`.GIT`, `.git ` and `.git.` (Windows), `.git::$INDEX_ALLOCATION` and `git~1` (NTFS), ignored characters (HFS+)."""
    plain = _HFS_IGNORES.sub("", part).split(":")[0].rstrip(" .").casefold()
    return plain == ".git" or re.fullmatch(r"git~\d+", plain) is not None


def _utf8(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def read_archive(data: bytes) -> Files:
    """The files of a gzipped tar.

    Raises ContractError that names the entry: links, devices, absolute paths, '..', '.git', duplicates, a file that is also
    a folder, mode bits beyond rwx, sparse files, more than `FILES` files, `FILE_BYTES` a file or `TOTAL_BYTES` in all
    (counted while inflating, so a gzip bomb ends there), anything after the end.
    """
    files: dict[str, bytes] = {}
    executable: set[str] = set()
    links: dict[str, str] = {}
    try:
        raw = _inflate(data)
        with tarfile.open(fileobj=io.BytesIO(raw), mode="r:") as archive:
            while member := archive.next():
                if member.isdir():
                    _fit(member.name, files, folder=True)
                    continue
                path = _fit(member.name, files)
                files[path] = _content(archive, member)
                if member.mode & 0o100:
                    executable.add(path)
                if member.pax_headers.get("comment") == LINK:
                    links[path] = LINK
                if len(files) > FILES:
                    raise ContractError(f"an archive of files: more than {FILES} files")
            if any(raw[archive.offset:]):
                raise ContractError("an archive of files: there is more after its end, or a damaged entry")
    except (tarfile.TarError, ValueError, EOFError, OverflowError) as error:
        raise ContractError(f"an archive of files: cannot be read: {error}") from error
    folders = {path[:at] for path in files for at in _slashes(path)}
    if both := sorted(folders & files.keys()):
        raise ContractError(f"an archive of files: {both[0]!r} is a file and a folder")
    return Files(files, executable, links)


def _slashes(path: str) -> list[int]:
    return [at for at, char in enumerate(path) if char == "/"]


def _inflate(data: bytes) -> bytes:
    limit = TOTAL_BYTES + FILES * 2 * tarfile.BLOCKSIZE
    inflating = zlib.decompressobj(wbits=31)
    try:
        raw = inflating.decompress(data, limit)
    except zlib.error as error:
        raise ContractError(f"an archive of files: not gzip: {error}") from error
    if inflating.unconsumed_tail or len(raw) >= limit:
        raise ContractError(f"an archive of files: more than {limit} bytes once inflated")
    if not inflating.eof:
        raise ContractError("an archive of files: it is cut off")
    if inflating.unused_data:
        raise ContractError("an archive of files: there is more after its end")
    return raw


def _fit(name: str, files: Mapping[str, bytes], *, folder: bool = False) -> str:
    path = name.removeprefix("./").rstrip("/") if folder else name.removeprefix("./")
    if folder and path in ("", "."):
        return path
    if why := unfit_path(path):
        raise ContractError(f"an archive of files: the path {name!r} {why}")
    if path in files:
        raise ContractError(f"an archive of files: {path!r} is there twice")
    return path


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.issparse():
        raise ContractError(f"an archive of files: {member.name!r} is no regular file")
    if member.mode & ~0o777:
        raise ContractError(f"an archive of files: {member.name!r} has the mode {member.mode:o}")
    if not 0 <= member.size <= FILE_BYTES:
        raise ContractError(f"an archive of files: {member.name!r} has {member.size} bytes, more than {FILE_BYTES}")
    reader = archive.extractfile(member)
    content = reader.read() if reader else b""
    if len(content) != member.size:
        raise ContractError(f"an archive of files: {member.name!r} is cut off")
    return content


def write_archive(tree: Tree) -> bytes:
    """A gzipped tar of the files, sorted, with no times and no owners: equal trees give equal bytes.

    Raises ContractError for what `read_archive` would not read.
    """
    raw, executable = io.BytesIO(), executables(tree)
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(tree):
            if why := unfit_path(path):
                raise ContractError(f"an archive of files: the path {path!r} {why}")
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(tree[path]), 0o755 if path in executable else 0o644
            if fixed(tree).get(path) == LINK:
                member.pax_headers = {"comment": LINK}
            if member.size > FILE_BYTES:
                raise ContractError(f"an archive of files: {path!r} has {member.size} bytes, more than {FILE_BYTES}")
            archive.addfile(member, io.BytesIO(tree[path]))
    if len(tree) > FILES or sum(map(len, tree.values())) > TOTAL_BYTES:
        raise ContractError(f"an archive of files: more than {FILES} files or {TOTAL_BYTES} bytes")
    return gzip.compress(raw.getvalue(), compresslevel=6, mtime=0)


def tree_digest(tree: Tree) -> str:
    """SHA-256 (hexadecimal) over paths, modes and contents; the order of the mapping does not matter.

    Hashed is, for every path in order of its code points: mode, blank, path, NUL, the content's SHA-256.
    """
    digest, executable = hashlib.sha256(), executables(tree)
    for path in sorted(tree):
        mode = "100755" if path in executable else "100644"
        digest.update(f"{mode} {path}\0".encode("utf-8", "surrogatepass") + hashlib.sha256(tree[path]).digest())
    return digest.hexdigest()


def text_of(data: bytes) -> tuple[str, str]:
    """A file's text, line ends as they are, and the codec that gives the same bytes back.

    UTF-8 with or without a byte order mark, else what a coding line names, else Latin-1. Raises ContractError for UTF-16,
    UTF-32 and whatever else holds a NUL byte: that is no text that we edit.
    """
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in data:
        raise ContractError("it is UTF-16, UTF-32 or binary, not text that can be edited", tip="store it as UTF-8")
    coding = _CODING.search(b"\n".join(re.split(rb"\r\n|\n|\r", data, maxsplit=2)[:2]))
    named = coding.group(1).decode("ascii") if coding and coding.group(1).isascii() else ""
    for codec in ("utf-8-sig" if data.startswith(b"\xef\xbb\xbf") else "utf-8", named):
        try:
            text = data.decode(codec) if codec else ""
            if codec and text.encode(codec) == data and _extends_ascii(codec):
                return text, codec
        except (UnicodeError, LookupError):
            continue
    return data.decode("latin-1"), "latin-1"


def _extends_ascii(codec: str) -> bool:
    """So that an edit changes no byte elsewhere; codecs with shift states do not."""
    return _ASCII.decode(codec) == _ASCII.decode("ascii")
