"""Snapshots of real repositories: what travels, what is left out and why, and that nothing in the folder changes."""

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from autopatch.cli import snapshot
from autopatch.cli.snapshot import digest_now, name_of, take
from autopatch.contract.errors import OperatorError, Unavailable
from autopatch.repair.paths import untouchable
from autopatch.repair.tree import read_archive, tree_digest

ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}


def git(folder: Path, *arguments: str) -> str:
    people = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    own = {**ENVIRONMENT, "GIT_CONFIG_NOSYSTEM": "1", **people}
    command = ["git", "-c", "protocol.file.allow=always", *arguments]
    return subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "calc"
    folder.mkdir()
    for path, text in {"calc.py": "x = 1\n", "kept/data.txt": "1\n", "gone.py": "y\n", ".gitignore": "*.log\nbuild/\n"}.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "begin")
    return folder


def left_out(folder: Path) -> dict[str, str]:
    return {each.path: each.why for each in take(folder, ENVIRONMENT).left_out}


def state(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    found = (p for p in sorted(folder.rglob("*")) if p.is_file() and not p.is_symlink())
    return {str(p): (p.stat().st_mtime_ns, p.stat().st_mode, p.read_bytes()) for p in found}


def test_what_is_not_committed_travels_and_what_is_ignored_or_deleted_does_not(repository: Path) -> None:
    (repository / "calc.py").write_text("x = 2\n")
    (repository / "new.py").write_text("z\n")
    (repository / "noise.log").write_text("noise\n")
    (repository / "gone.py").unlink()
    (repository / "run.sh").write_text("#!/bin/sh\n")
    (repository / "run.sh").chmod(0o755)
    before = state(repository)
    taken = take(repository, ENVIRONMENT)
    assert dict(taken.files) == {
        ".gitignore": b"*.log\nbuild/\n", "calc.py": b"x = 2\n", "kept/data.txt": b"1\n", "new.py": b"z\n",
        "run.sh": b"#!/bin/sh\n",
    }
    assert taken.left_out == (snapshot.LeftOut("noise.log", "git ignores it"),)
    assert taken.files.executable == {"run.sh"} and taken.name == "calc"
    assert taken.commit == git(repository, "rev-parse", "HEAD") and taken.size == sum(map(len, taken.files.values()))
    assert state(repository) == before and git(repository, "diff", "--cached", "--name-only") == ""


def test_the_archive_holds_the_same_and_the_same_tree_gives_the_same_bytes(repository: Path) -> None:
    first, second = take(repository, ENVIRONMENT), take(repository, ENVIRONMENT)
    assert first.archive == second.archive and dict(read_archive(first.archive)) == dict(first.files)
    assert tree_digest(read_archive(first.archive)) == first.tree == digest_now(repository, ENVIRONMENT)
    (repository / "calc.py").chmod(0o755)
    assert digest_now(repository, ENVIRONMENT) != first.tree


NOWHERE = "a symbolic link that leads to no file of the snapshot"


def test_a_link_to_a_file_that_travels_becomes_its_copy_which_no_repair_changes(repository: Path) -> None:
    (repository / "run.sh").write_text("x\n")
    (repository / "run.sh").chmod(0o755)
    (repository / "kept" / "calc.py").symlink_to("../calc.py")
    (repository / "kept" / "more.py").symlink_to("calc.py")
    (repository / "go").symlink_to(repository / "run.sh")
    taken = take(repository, ENVIRONMENT)
    read = read_archive(taken.archive)
    assert read["kept/calc.py"] == read["kept/more.py"] == read["calc.py"] and {"go", "run.sh"} <= read.executable
    assert set(read.fixed) == set(taken.files.fixed) == {"kept/calc.py", "kept/more.py", "go"} and taken.left_out == ()
    assert untouchable("kept/calc.py", read) == "is the copy of a link" and not untouchable("calc.py", read)
    assert digest_now(repository, ENVIRONMENT) == taken.tree == tree_digest(read)


def test_links_submodules_and_odd_files_are_left_out_and_named(repository: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    git(other, "commit", "-q", "--allow-empty", "-m", "x")
    git(repository, "submodule", "add", "-q", str(other), "sub")
    (repository / "link").symlink_to("/etc/hostname")
    (repository / "broken").symlink_to("nowhere")
    git(repository, "add", "link", "broken")
    (repository / "nested").mkdir()
    git(repository / "nested", "init", "-q")
    (repository / "nested" / "inner.py").write_text("x\n")
    os.mkfifo(repository / "pipe")
    (repository / "large.bin").write_bytes(b"\0" * (snapshot.FILE_BYTES + 1))
    (repository / "two\nlines").write_text("x")
    Path(os.fsdecode(os.fsencode(repository) + b"/latin\xe9.txt")).write_text("x")
    taken = take(repository, ENVIRONMENT)
    assert {each.path: each.why for each in taken.left_out} == {
        "sub": "a submodule", "link": NOWHERE, "broken": NOWHERE, "nested/": "a repository of its own",
        "large.bin": "larger than 8 MiB", "two\nlines": "its name holds control characters",
        "latin\\xe9.txt": "its name is not UTF-8",
    }
    assert set(taken.files) == {".gitignore", ".gitmodules", "calc.py", "gone.py", "kept/data.txt"}


def test_a_folder_that_became_a_link_leads_nowhere(repository: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "data.txt").write_text("secret\n")
    (repository / "kept" / "data.txt").unlink()
    (repository / "kept").rmdir()
    (repository / "kept").symlink_to(secret)
    taken = take(repository, ENVIRONMENT)
    assert not any(b"secret" in content for content in taken.files.values())
    assert {each.path: each.why for each in taken.left_out}["kept/data.txt"] == "its folder is a symbolic link"


def test_a_folder_without_git_travels_without_what_tools_made(tmp_path: Path) -> None:
    folder = tmp_path / "my project!"
    for path in ("a.py", "pkg/b.py", "node_modules/x/i.js", "pkg/__pycache__/b.pyc", "env/pyvenv.cfg", "env/lib/c.py"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("x\n")
    (folder / "pkg" / "loop").symlink_to(folder)
    taken = take(folder, ENVIRONMENT)
    assert set(taken.files) == {"a.py", "pkg/b.py"} and taken.commit == "" and taken.name == "my-project"
    assert {each.path for each in taken.left_out} == {"node_modules", "pkg/__pycache__", "env", "pkg/loop"}


def test_a_folder_inside_a_repository_travels_alone(repository: Path) -> None:
    assert set(take(repository / "kept", ENVIRONMENT).files) == {"data.txt"}
    assert take(repository / "kept", ENVIRONMENT).commit == git(repository, "rev-parse", "HEAD")


def test_a_folder_that_an_outer_repository_ignores_is_taken_as_it_is(repository: Path) -> None:
    (repository / "build").mkdir()
    (repository / "build" / "made.py").write_text("x\n")
    assert set(take(repository / "build", ENVIRONMENT).files) == {"made.py"}


def test_a_merge_under_way_is_no_obstacle(repository: Path) -> None:
    git(repository, "checkout", "-q", "-b", "other")
    (repository / "calc.py").write_text("x = 3\n")
    git(repository, "commit", "-q", "-am", "three")
    git(repository, "checkout", "-q", "main")
    (repository / "calc.py").write_text("x = 4\n")
    git(repository, "commit", "-q", "-am", "four")
    with pytest.raises(subprocess.CalledProcessError):
        git(repository, "merge", "-q", "other")
    assert b"<<<<<<<" in take(repository, ENVIRONMENT).files["calc.py"]


def test_what_the_repository_configures_is_not_run(repository: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    git(repository, "config", "core.fsmonitor", f"touch {ran}; false")
    git(repository, "config", "filter.evil.clean", f"sh -c 'touch {ran}; cat'")
    (repository / ".gitattributes").write_text("*.py filter=evil\n")
    take(repository, ENVIRONMENT)
    assert not ran.exists()
    git(repository, "status")
    assert ran.exists(), "git status would have run it"


def test_files_that_the_person_ignores_everywhere_do_not_travel(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "ignore").write_text(".env\n")
    (tmp_path / ".gitconfig").write_text(f"[core]\n\texcludesFile = {tmp_path}/ignore\n")
    (repository / ".env").write_text("TOKEN=1\n")
    assert ".env" not in take(repository, {**ENVIRONMENT, "HOME": str(tmp_path)}).files
    assert ".env" in take(repository, ENVIRONMENT).files


@pytest.mark.parametrize("limit", ["TOTAL_BYTES", "FILES"])
def test_what_is_too_much_is_refused_with_the_remedy(repository: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(snapshot, limit, 2)
    with pytest.raises(OperatorError, match="holds more than") as refused:
        take(repository, ENVIRONMENT)
    assert ".gitignore" in refused.value.tip


def test_what_is_no_repository_is_the_persons_mistake(repository: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for folder in (tmp_path / "nowhere", repository / "calc.py", empty, repository / ".git"):
        with pytest.raises(OperatorError):
            take(folder, ENVIRONMENT)


def test_without_git_the_folder_travels_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x\n")
    assert set(take(tmp_path, {"PATH": "/nonexistent"}).files) == {"a.py"}
    (tmp_path / ".git").mkdir()
    with pytest.raises(Unavailable, match="git: not found"):
        take(tmp_path, {"PATH": "/nonexistent"})


def test_names_hold_only_what_a_name_may_hold(tmp_path: Path) -> None:
    for given, wanted in (("ok-1.x", "ok-1.x"), ("ä ö", "repository"), ("x" * 200, "x" * 80)):
        assert name_of(tmp_path / given) == wanted


@pytest.fixture
def large() -> Iterator[Path]:
    """50,000 files, in memory where that is to be had: a disk takes a minute to forget them."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as made:
        folder = Path(made) / "large"
        for number in range(500):
            (folder / f"d{number}").mkdir(parents=True)
            for index in range(100):
                (folder / f"d{number}" / f"f{index}.py").write_text(f"value = {number * index}\n" * 20)
        git(folder, "init", "-q")
        git(folder, "add", ".")
        yield folder


@pytest.mark.slow
def test_fifty_thousand_files_take_less_than_five_seconds_of_a_processor(large: Path) -> None:
    (large / "d0" / "f0.py").unlink()
    (large / "d0" / "broken").symlink_to("nowhere")
    began = time.process_time()
    taken = take(large, ENVIRONMENT)
    assert len(taken.files) == 49_999 and time.process_time() - began < 5
    assert [each.path for each in taken.left_out] == ["d0/broken"]
