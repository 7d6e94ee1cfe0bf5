"""Trees and their archives: what goes in comes out, and nothing else gets in."""

import gzip
import io
import tarfile
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopatch.contract.errors import ContractError
from autopatch.repair import tree as trees
from autopatch.repair.tree import Files, read_archive, text_of, tree_digest, write_archive

Entry = tuple[str, bytes, dict[str, object]]


def archive(*entries: Entry, tail: bytes = b"") -> bytes:
    """A gzipped tar made by hand, as an attacker would."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for name, content, fields in entries:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            for field, value in fields.items():
                setattr(member, field, value)
            tar.addfile(member, io.BytesIO(content))
    return gzip.compress(raw.getvalue() + tail)


NAMES = st.from_regex(r"\A[a-z][a-z0-9 ]{0,6}(/[a-z][a-z0-9é]{0,6}){0,2}\.py\Z")


@given(st.dictionaries(NAMES, st.binary(max_size=200), max_size=6), st.data())
def test_a_tree_comes_back_from_its_archive_byte_by_byte(files: dict[str, bytes], data: st.DataObject) -> None:
    executable = data.draw(st.sets(st.sampled_from(sorted(files)))) if files else set()
    tree = Files(files, executable)
    back = read_archive(write_archive(tree))
    assert back == tree
    assert back.executable == executable
    assert tree_digest(back) == tree_digest(tree)


def test_equal_trees_give_equal_archives_whatever_their_order() -> None:
    one, two = Files({"a": b"1", "b": b"2"}, ["b"]), Files({"b": b"2", "a": b"1"}, ["b"])
    assert write_archive(one) == write_archive(two)
    assert tree_digest(one) == tree_digest(two)


OTHERS = [{"a": b"1", "b": b"3"}, {"a": b"1", "c": b"2"}, {"a": b"1"}, Files({"a": b"1", "b": b"2"}, ["a"])]


@pytest.mark.parametrize("other", OTHERS)
def test_the_digest_changes_with_a_content_a_path_a_file_and_a_mode(other: dict[str, bytes]) -> None:
    assert tree_digest(other) != tree_digest({"a": b"1", "b": b"2"})


def test_changes_keep_modes_and_remove_files() -> None:
    after = Files({"a": b"1", "b": b"2"}, ["a", "b"]).changed({"a": b"9", "b": None, "c": b"3"})
    assert after == {"a": b"9", "c": b"3"}
    assert after.executable == {"a"}


REG = b"x = 1\n"
TRICKS: dict[str, Callable[[], bytes]] = {
    "parent folder": lambda: archive(("../evil.py", REG, {})),
    "parent folder in the middle": lambda: archive(("src/../../evil.py", REG, {})),
    "parent folder with backslashes": lambda: archive(("src\\..\\..\\evil.py", REG, {})),
    "absolute path": lambda: archive(("/etc/passwd", REG, {})),
    "drive letter": lambda: archive(("C:\\evil.py", REG, {})),
    "symbolic link": lambda: archive(("link", b"", {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"})),
    "hard link": lambda: archive(("a", REG, {}), ("b", b"", {"type": tarfile.LNKTYPE, "linkname": "a"})),
    "write through a link": lambda: archive(("d", b"", {"type": tarfile.SYMTYPE, "linkname": "/tmp"}), ("d/x", REG, {})),
    "character device": lambda: archive(("null", b"", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3})),
    "block device": lambda: archive(("sda", b"", {"type": tarfile.BLKTYPE})),
    "fifo": lambda: archive(("pipe", b"", {"type": tarfile.FIFOTYPE})),
    "contiguous file": lambda: archive(("odd", REG, {"type": tarfile.CONTTYPE})),
    "sparse file of a terabyte": lambda: archive(("big", b"", {"pax_headers": {}, "type": tarfile.GNUTYPE_SPARSE})),
    "setuid": lambda: archive(("su", REG, {"mode": 0o4755})),
    "git's own folder": lambda: archive((".git/hooks/pre-commit", REG, {"mode": 0o755})),
    "git's own folder, upper case": lambda: archive(("sub/.GIT/config", REG, {})),
    "git's own folder as a folder entry": lambda: archive((".git", b"", {"type": tarfile.DIRTYPE})),
    "the same file twice": lambda: archive(("a", b"1", {}), ("./a", b"2", {})),
    "a file that is a folder too": lambda: archive(("a", REG, {}), ("a/b", REG, {})),
    "an empty name": lambda: archive(("./", REG, {})),
    "a name that is not UTF-8": lambda: archive(("caf\udce9.py", REG, {})),
    "a gzip bomb": lambda: gzip.compress(bytes(trees.TOTAL_BYTES + trees.FILES * 1024 + 1)),
    "a file that is too large": lambda: archive(("big", bytes(trees.FILE_BYTES + 1), {})),
    "a second gzip member": lambda: archive(("a", REG, {})) + archive(("b", REG, {})),
    "entries after the end": lambda: archive(("a", REG, {}), tail=gzip.decompress(archive(("b", REG, {})))),
    "cut off": lambda: archive(("a", REG * 100, {}))[:-12],
    "a tar that is cut off": lambda: gzip.compress(gzip.decompress(archive(("a", REG * 500, {})))[:1024]),
    "no gzip": lambda: b"PK\x03\x04 whatever",
    "no tar": lambda: gzip.compress(b"hello" * 400),
}


@pytest.mark.parametrize("trick", TRICKS)
def test_an_archive_with_a_trick_in_it_is_refused(trick: str) -> None:
    with pytest.raises(ContractError, match="archive of files"):
        read_archive(TRICKS[trick]())


def test_a_plain_archive_made_by_hand_is_read_so_the_tricks_are_refused_for_their_trick() -> None:
    files = read_archive(archive(("d", b"", {"type": tarfile.DIRTYPE}), ("./d/a", REG, {}), ("b", REG, {"mode": 0o755})))
    assert files == {"d/a": REG, "b": REG}
    assert files.executable == {"b"}


@given(st.data())
def test_a_damaged_archive_is_read_or_refused_and_nothing_else(data: st.DataObject) -> None:
    raw = bytearray(gzip.decompress(archive(("a/b.py", REG * 3, {}), ("c", REG, {}))))
    for at in data.draw(st.lists(st.integers(0, 2000), max_size=4)):
        raw[at] = data.draw(st.integers(0, 255))
    try:
        files = read_archive(gzip.compress(bytes(raw), compresslevel=1))
    except ContractError:
        return
    assert all(trees.unfit_path(path) == "" for path in files)


@given(st.binary(max_size=60))
def test_arbitrary_bytes_are_no_archive(data: bytes) -> None:
    with pytest.raises(ContractError):
        read_archive(data)
    with pytest.raises(ContractError):
        read_archive(zlib.compress(data))


@pytest.mark.parametrize("path", ["../a", "/a", "", "a//b", ".git/x", "a/.git ./x", "\udcff"])
def test_no_archive_is_written_that_could_not_be_read(path: str) -> None:
    with pytest.raises(ContractError):
        write_archive({path: b""})


@pytest.mark.parametrize(("data", "codec"), [
    (b"x = 1\n", "utf-8"), ("# é\r\n".encode(), "utf-8"), (b"\xef\xbb\xbfx\n", "utf-8-sig"), (b"# caf\xe9\n", "latin-1"),
    (b"# coding: cp1252\n# \x93\n", "cp1252"), (b"#!/x\r\n# -*- coding: koi8-r -*-\r\n# \xc1\n", "koi8-r"),
    (b"# coding: rot13\n# \xe9\n", "latin-1"), (b"# coding: utf-7\n# \xe9+AGE-\n", "latin-1"), (b"", "utf-8"),
])
def test_the_codec_of_a_text_is_told(data: bytes, codec: str) -> None:
    text, found = text_of(data)
    assert found == codec
    assert text.encode(found) == data


@pytest.mark.parametrize("data", ["x = 1\n".encode("utf-16"), "x".encode("utf-16-le"), "x".encode("utf-32"), b"\x7fELF\0\0"])
def test_wide_text_and_binary_is_no_text(data: bytes) -> None:
    with pytest.raises(ContractError, match="not text that can be edited"):
        text_of(data)


@given(st.binary(max_size=80))
def test_a_text_gives_its_bytes_back(data: bytes) -> None:
    try:
        text, codec = text_of(data)
    except ContractError:
        return
    assert text.encode(codec) == data
